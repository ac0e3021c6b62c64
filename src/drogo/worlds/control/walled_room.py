"""Walled rooms: a point moves in the unit square, around walls and hazards, to a goal.

An action is a displacement, and the default policy samples it uniformly. A move that would cross a
wall or leave the square does not happen. Values of a network on the two coordinates easily leak
through a wall, because points on its two sides are close to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from drogo.errors import NumericalError, check_choice
from drogo.exact.continuous import GridSolution

REACH = 0.1
"""The longest move along each axis."""
THICKNESS = 0.02
"""The thickness of a wall."""
STEP, HAZARD = -1.0, -5.0
"""The reward of an ordinary place, and of a hazard."""
TOLERANCE, MAX_ITERATIONS = 1e-7, 100_000

Rectangle = tuple[float, float, float, float]
"""Left, bottom, right and top."""


def _across(y: float, left: float, right: float) -> Rectangle:
    return left, y - THICKNESS / 2, right, y + THICKNESS / 2


def _up(x: float, bottom: float, top: float) -> Rectangle:
    return x - THICKNESS / 2, bottom, x + THICKNESS / 2, top


@dataclass(frozen=True)
class Layout:
    """The places of the walls, the hazards, the goal and the first state."""

    walls: tuple[Rectangle, ...]
    hazards: tuple[Rectangle, ...]
    goal: Rectangle
    start: tuple[float, float]


LAYOUTS = {
    "wall": Layout(
        walls=(_up(0.5, 0.0, 0.8),),
        hazards=((0.55, 0.45, 0.95, 0.6),),
        goal=(0.85, 0.05, 0.95, 0.15),
        start=(0.1, 0.1),
    ),
    "u": Layout(
        walls=(_up(0.3, 0.2, 0.8), _up(0.7, 0.2, 0.8), _across(0.2, 0.29, 0.71)),
        hazards=((0.0, 0.4, 0.15, 0.6),),
        goal=(0.45, 0.28, 0.55, 0.38),
        start=(0.5, 0.08),
    ),
    "spiral": Layout(
        walls=(
            _across(0.8, 0.0, 0.8),
            _up(0.8, 0.2, 0.81),
            _across(0.2, 0.2, 0.81),
            _up(0.2, 0.19, 0.6),
            _across(0.6, 0.19, 0.6),
        ),
        hazards=((0.3, 0.65, 0.45, 0.75),),
        goal=(0.45, 0.35, 0.55, 0.45),
        start=(0.05, 0.95),
    ),
    "doors": Layout(
        walls=(
            _up(0.5, 0.0, 0.2),
            _up(0.5, 0.3, 0.7),
            _up(0.5, 0.8, 1.0),
            _across(0.5, 0.0, 0.2),
            _across(0.5, 0.3, 0.7),
            _across(0.5, 0.9, 1.0),
        ),
        hazards=((0.6, 0.1, 0.75, 0.4),),
        goal=(0.85, 0.85, 0.95, 0.95),
        start=(0.1, 0.1),
    ),
}


class WalledRoom(gymnasium.Env):
    """A walled room, one of `LAYOUTS`, which also steps many states at once."""

    def __init__(self, layout: str) -> None:
        check_choice("layout", layout, tuple(LAYOUTS))
        self.layout = LAYOUTS[layout]
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.state = np.array(self.layout.start)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = np.array(self.layout.start)
        return self.observe_many(self.state), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        after, reward, over = self.step_many(self.state[None], np.asarray(action)[None])
        self.state = after[0]
        return self.observe_many(self.state), float(reward[0]), bool(over[0]), False, {}

    def start_many(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n 2"]:
        """Returns uniform states outside of walls and goal."""
        states = np.empty((0, 2))
        while len(states) < n:
            more = rng.random((2 * n, 2))
            free = ~_inside(more, (*self.layout.walls, self.layout.goal))
            states = np.concatenate([states, more[free]])
        return states[:n]

    def observe_many(self, states: Float[np.ndarray, "... 2"]) -> Float[np.ndarray, "... 2"]:
        """Returns the observations of some states: their coordinates."""
        return states.astype(np.float32)

    def step_many(
        self,
        states: Float[np.ndarray, "n 2"],
        actions: Float[np.ndarray, "n 2"],
        rng: np.random.Generator | None = None,
    ) -> tuple[Float[np.ndarray, "n 2"], Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Returns the next states, the rewards, and which next states are in the goal."""
        moves = REACH * np.clip(actions.astype(np.float64), -1.0, 1.0)
        after = _moved(self.layout, states, moves)
        return after, _rewards(self.layout, states), _inside(after, (self.layout.goal,))


def uniform_walled_room(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Puts the point of a walled room to a uniform place outside of walls and goal."""
    inner: Any = env.unwrapped
    inner.state = inner.start_many(1, rng)[0]
    return inner.observe_many(inner.state)


@lru_cache(maxsize=8)
def walled_room_truth(layout: str, lam: float, nodes: int = 100) -> GridSolution:
    """Computes `v` of a walled room on a grid; with 100 x 100 nodes it takes about 5 s.

    Moves of the continuous actions are replaced by those that lead from node to node, with the
    weights of the trapezoidal rule. `v` is that of the nearest node, and NaN inside of walls.

    Args:
        layout: One of `LAYOUTS`.
        lam: The temperature lambda, positive.
        nodes: The number of nodes along each axis, a multiple of 100 so that walls end between
            nodes.
    """
    room, axis = LAYOUTS[layout], (np.arange(nodes) + 0.5) / nodes
    places = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=2).reshape(-1, 2)
    wall, goal = _inside(places, room.walls), _inside(places, (room.goal,))
    live = np.flatnonzero(~wall & ~goal)
    matrix = _moves(room, places[live], live, nodes)
    discount = np.exp(_rewards(room, places) / lam)[live]
    e = goal.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(MAX_ITERATIONS):
            new = discount * (matrix @ e)
            change = np.abs(np.log(new) - np.log(e[live]))
            e[live] = new
            if change.max() < TOLERANCE:  # not while some are infinite
                v = np.where(wall, np.nan, np.log(e)).reshape(nodes, nodes)
                return GridSolution((axis, axis), v, float("nan"), method="nearest")
    raise NumericalError(f"{layout} at lam {lam:g} did not converge.")


def _moves(
    room: Layout, places: Float[np.ndarray, "live 2"], live: np.ndarray, nodes: int
) -> sp.csr_array:
    """Returns the probabilities of moves from live nodes to all nodes."""
    far = round(REACH * nodes)
    steps, weight = np.arange(-far, far + 1), np.ones(2 * far + 1)
    weight[[0, -1]] = 0.5
    weight /= weight.sum()
    columns, chances = [], []
    for across, chance_across in zip(steps, weight, strict=True):
        for up, chance_up in zip(steps, weight, strict=True):
            after = _moved(room, places, np.array([[across, up]]) / nodes)
            row, column = np.floor(after * nodes).astype(np.int64).T
            columns.append(row * nodes + column)
            chances.append(np.full(live.size, chance_across * chance_up))
    rows = np.tile(np.arange(live.size), steps.size**2)
    entries = (np.concatenate(chances), (rows, np.concatenate(columns)))
    return sp.csr_array(entries, shape=(live.size, nodes**2))


def _rewards(room: Layout, places: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    return np.where(_inside(places, room.hazards), HAZARD, STEP)


def _inside(
    places: Float[np.ndarray, "n 2"], rectangles: tuple[Rectangle, ...]
) -> Bool[np.ndarray, " n"]:
    low, high = np.array(rectangles).reshape(-1, 1, 2, 2).transpose(2, 0, 1, 3)
    between = (places > low) & (places < high)
    return np.logical_or.reduce(np.logical_and.reduce(between, axis=2), axis=0)


def _moved(
    room: Layout, places: Float[np.ndarray, "n 2"], moves: Float[np.ndarray, "#n 2"]
) -> Float[np.ndarray, "n 2"]:
    """Returns the places after moves. Those that would leave the square or cross a wall fail."""
    after = places + moves
    stopped = np.logical_or.reduce((after < 0) | (after > 1), axis=1)
    moves = np.where(moves == 0, 1e-300, moves)  # so that no division is 0 / 0
    for left, bottom, right, top in room.walls:
        with np.errstate(over="ignore"):
            first = (np.array([left, bottom]) - places) / moves
            second = (np.array([right, top]) - places) / moves
        # The shares of the way on which the point is between the wall's sides, along each axis.
        enters = np.minimum(first, second).max(axis=1)
        leaves = np.maximum(first, second).min(axis=1)
        stopped |= np.maximum(enters, 0.0) < np.minimum(leaves, 1.0)
    return np.where(stopped[:, None], places, after)
