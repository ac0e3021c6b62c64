"""Continuous worlds: Gymnasium's MountainCar and Acrobot, and walled rooms, with exact solutions.

In a walled room a point moves in the unit square, around walls and hazards, to a goal. An action is
a displacement; one that would cross a wall or leave the square does not happen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from scipy.interpolate import NdBSpline, RegularGridInterpolator

from drogo.errors import NumericalError, check_choice
from drogo.exact import solve
from drogo.mdp import MDP
from drogo.worlds.shipped import ROOM_IDS
from drogo.worlds.tabular import Options, Reset

LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)
GOAL, FORCE, GRAVITY, ACTIONS = 0.5, 0.001, 0.0025, 3
TOLERANCE = 1e-6  # Value iteration ends when no value changes by more.
SMALLEST_GRID = 32  # A grid with fewer nodes along an axis is not halved for a first guess.
MOST_ITERATIONS = 100_000
ACROBOT_SPEEDS = np.array([4 * np.pi, 9 * np.pi])
REACH, THICKNESS = 0.1, 0.02
"""The longest move in a walled room along each axis, and the thickness of its walls."""
STEP, HAZARD = -1.0, -5.0  # The reward of an ordinary place of a walled room, and of a hazard.

States = Float[np.ndarray, "n 2"]
Mask = Bool[np.ndarray, " n"]
Rectangle = tuple[float, float, float, float]  # Left, bottom, right and top.
Dynamics = Callable[[np.ndarray, int], tuple[np.ndarray, Mask]]
"""`dynamics(states, action)` returns the next states and which of them are terminal."""


class GridSolution(RegularGridInterpolator):
    """`v` as a function of states, interpolated between the nodes of a grid."""

    def __call__(self, states: Float[np.ndarray, "n axes"]) -> Float[np.ndarray, " n"]:  # pyright: ignore
        return super().__call__(_clip(self.grid, states))


def _clip(axes: Any, states: np.ndarray) -> np.ndarray:
    return np.clip(states, [axis[0] for axis in axes], [axis[-1] for axis in axes])


def solve_on_grid(
    dynamics: Dynamics, low: Any, high: Any, nodes: tuple[int, ...], actions: int, cost: float
) -> GridSolution:
    """Computes `v(s) = -cost + log mean_a exp(v(s'_a))` at `nodes` between `low` and `high` along
    each axis, by value iteration. `v(s')` is interpolated linearly between nodes, which is more
    accurate than to interpolate `exp(v)`. A solution on half as many nodes is the first guess."""
    size, v = np.prod(nodes), np.zeros(np.prod(nodes))
    axes = tuple(np.linspace(a, b, n) for a, b, n in zip(low, high, nodes, strict=True))
    states = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")], axis=1)
    if min(nodes) // 2 >= SMALLEST_GRID:
        half = tuple(count // 2 + 1 for count in nodes)
        v = solve_on_grid(dynamics, low, high, half, actions, cost)(states)
    moves = [dynamics(states, action) for action in range(actions)]
    knots = tuple(np.concatenate([axis[:1], axis, axis[-1:]]) for axis in axes)
    weights = [NdBSpline.design_matrix(_clip(axes, after), knots, 1) for after, _ in moves]
    for matrix in weights:
        matrix.resize(size, size)  # SciPy leaves out the last nodes if none is met
    change = np.inf
    for _ in range(MOST_ITERATIONS):
        pairs = zip(weights, moves, strict=True)
        reached = np.stack([np.where(over, 0.0, w @ v) for w, (_, over) in pairs])
        before, v = v, np.logaddexp.reduce(reached, axis=0) - np.log(actions) - cost
        change = np.abs(v - before).max()
        if change < TOLERANCE:
            return GridSolution(axes, v.reshape(nodes))
    problem = f"value iteration still changed a value by {change:.2g} at the end."
    raise NumericalError(problem, remedy="Check that every state reaches a terminal state.")


def dynamics(states: States, action: int) -> tuple[States, Mask]:
    """Applies MountainCar's dynamics to many states at once."""
    position, velocity = states.T
    velocity = velocity + (action - 1) * FORCE - np.cos(3 * position) * GRAVITY
    velocity = np.clip(velocity, LOW[1], HIGH[1])
    position = np.clip(position + velocity, LOW[0], HIGH[0])
    velocity = np.where((position <= LOW[0]) & (velocity < 0), 0.0, velocity)
    after = np.stack([position, velocity], axis=1)
    return after, is_goal(after)


def is_goal(states: States) -> Mask:
    """Returns which states are terminal: at the flag, or beyond it, and not rolling back."""
    return (states[:, 0] >= GOAL) & (states[:, 1] >= 0)


@lru_cache(maxsize=2)
def mountain_car_truth(
    lam: float, nodes: tuple[int, int] = (401, 401), reward: float = -1.0
) -> GridSolution:
    """Computes `v` of MountainCar on a grid, in about 10 s with 401 x 401 nodes."""
    return solve_on_grid(dynamics, LOW, HIGH, nodes, ACTIONS, -reward / lam)


def uniform_mountain_car(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Puts a MountainCar into a non-terminal state with uniform position and velocity."""
    inner: Any = env.unwrapped
    while True:
        position, velocity = rng.uniform(LOW, HIGH)
        if position < GOAL or velocity < 0:
            inner.state = np.array([position, velocity])
            return inner.state.astype(np.float32)


def uniform_acrobot(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Puts an Acrobot into a non-terminal state with uniform angles and speeds."""
    inner: Any = env.unwrapped
    while True:
        angles = rng.uniform(-np.pi, np.pi, size=2)
        inner.state = np.concatenate([angles, rng.uniform(-ACROBOT_SPEEDS, ACROBOT_SPEEDS)])
        if not inner._terminal():
            return np.asarray(inner._get_ob(), dtype=np.float32)


def uniform_walled_room(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Puts the point of a walled room to a uniform place outside of walls and goal."""
    inner: Any = env.unwrapped
    inner.state = inner.start_many(1, rng)[0]
    return inner.observe_many(inner.state)


STARTS = {
    "MountainCar-v0": uniform_mountain_car,
    "Acrobot-v1": uniform_acrobot,
    **dict.fromkeys(ROOM_IDS, uniform_walled_room),
}
"""By Gymnasium id: a `start` for `collect` that samples the state of each transition uniformly."""
STEP_COSTS = {"MountainCar-v0": -1.0, "Acrobot-v1": -1.0}
"""By Gymnasium id: the reward of every step, where it is not that of the state that is left."""


@dataclass(frozen=True)
class Layout:
    """The places of the walls, the hazard, the goal and the first state of a walled room."""

    walls: tuple[Rectangle, ...]
    hazard: Rectangle
    goal: Rectangle
    start: tuple[float, float]


def _across(y: float, left: float, right: float) -> Rectangle:
    return left, y - THICKNESS / 2, right, y + THICKNESS / 2


def _up(x: float, bottom: float, top: float) -> Rectangle:
    return x - THICKNESS / 2, bottom, x + THICKNESS / 2, top


WALL = (_up(0.5, 0.0, 0.8),)
U = (_up(0.3, 0.2, 0.8), _up(0.7, 0.2, 0.8), _across(0.2, 0.29, 0.71))
SPIRAL = (
    *(_up(0.8, 0.2, 0.81), _up(0.2, 0.19, 0.6)),
    *(_across(0.8, 0.0, 0.8), _across(0.2, 0.2, 0.81), _across(0.6, 0.19, 0.6)),
)
DOORS = (
    *(_up(0.5, bottom, top) for bottom, top in ((0.0, 0.2), (0.3, 0.7), (0.8, 1.0))),
    *(_across(0.5, left, right) for left, right in ((0.0, 0.2), (0.3, 0.7), (0.9, 1.0))),
)
LAYOUTS = {
    "wall": Layout(WALL, (0.55, 0.45, 0.95, 0.6), (0.85, 0.05, 0.95, 0.15), (0.1, 0.1)),
    "u": Layout(U, (0.0, 0.4, 0.15, 0.6), (0.45, 0.28, 0.55, 0.38), (0.5, 0.08)),
    "spiral": Layout(SPIRAL, (0.3, 0.65, 0.45, 0.75), (0.45, 0.35, 0.55, 0.45), (0.05, 0.95)),
    "doors": Layout(DOORS, (0.6, 0.1, 0.75, 0.4), (0.85, 0.85, 0.95, 0.95), (0.1, 0.1)),
}


class WalledRoom(gymnasium.Env):
    """A walled room, one of `LAYOUTS`, which also steps many states at once."""

    def __init__(self, layout: str) -> None:
        check_choice("layout", layout, tuple(LAYOUTS))
        self.layout = LAYOUTS[layout]
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.state = np.array(self.layout.start)

    def reset(self, *, seed: int | None = None, options: Options = None) -> Reset:
        super().reset(seed=seed)
        self.state = np.array(self.layout.start)
        return self.observe_many(self.state), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        after, reward, over = self.step_many(self.state[None], np.asarray(action)[None])
        self.state = after[0]
        return self.observe_many(self.state), float(reward[0]), bool(over[0]), False, {}

    def start_many(self, n: int, rng: np.random.Generator) -> States:
        states = np.empty((0, 2))
        while len(states) < n:
            more = rng.random((2 * n, 2))
            free = ~_inside(more, *self.layout.walls, self.layout.goal)
            states = np.concatenate([states, more[free]])
        return states[:n]

    def observe_many(self, states: Float[np.ndarray, "... 2"]) -> Float[np.ndarray, "... 2"]:
        return states.astype(np.float32)

    def step_many(
        self, states: States, actions: States, rng: np.random.Generator | None = None
    ) -> tuple[States, Float[np.ndarray, " n"], Mask]:
        after = _moved(self.layout, states, REACH * np.clip(actions.astype(np.float64), -1.0, 1.0))
        return after, _rewards(self.layout, states), _inside(after, self.layout.goal)


@lru_cache(maxsize=8)
def walled_room_truth(layout: str, lam: float, nodes: int = 100) -> GridSolution:
    """Computes `v` of a walled room on a grid, in about 5 s, with moves from node to node that have
    the weights of the trapezoidal rule. With a multiple of 100 nodes, walls end between them."""
    room, axis = LAYOUTS[layout], (np.arange(nodes) + 0.5) / nodes
    places = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=2).reshape(-1, 2)
    far, n = round(REACH * nodes), nodes**2
    weight = np.r_[0.5, np.ones(2 * far - 1), 0.5] / (2 * far)
    moves = np.array(list(product(range(-far, far + 1), repeat=2))) / nodes
    after = [np.floor(_moved(room, places, move[None]) * nodes) @ (nodes, 1) for move in moves]
    rows = np.tile(np.arange(n), len(moves))
    chance = np.repeat(np.outer(weight, weight), n)
    P = sp.csr_array((chance, (rows, np.concatenate(after).astype(np.int64))), shape=(n, n))
    free, goal = ~_inside(places, *room.walls), _inside(places, room.goal)
    reward = np.where(goal, 0.0, _rewards(room, places))
    mdp = MDP.from_arrays(P[free][:, free], reward[free], goal[free])
    v = np.full(n, np.nan)
    v[free] = solve(mdp, lam, "column").checked().log_e
    # Linear interpolation would cross the walls.
    return GridSolution((axis, axis), v.reshape(nodes, nodes), method="nearest")


class Plane(NamedTuple):
    """The exact solution of a world of two coordinates, their ranges and names."""

    v: GridSolution
    low: tuple[float, float]
    high: tuple[float, float]
    names: tuple[str, str]
    is_goal: Callable[[States], Mask]


def plane(identifier: str, lam: float, reward: float | None) -> Plane | None:
    """Returns the exact solution of MountainCar or of a walled room with its own rewards."""
    if identifier == "MountainCar-v0":
        v = mountain_car_truth(lam, reward=STEP_COSTS[identifier] if reward is None else reward)
        return Plane(v, LOW, HIGH, ("position", "velocity"), is_goal)
    if identifier in ROOM_IDS and reward is None:
        layout = ROOM_IDS[identifier]
        v, goal = walled_room_truth(layout, lam), LAYOUTS[layout].goal
        return Plane(v, (0, 0), (1, 1), ("x", "y"), lambda places: _inside(places, goal))
    return None


def _rewards(room: Layout, places: States) -> Float[np.ndarray, " n"]:
    return np.where(_inside(places, room.hazard), HAZARD, STEP)


def _inside(places: States, *rectangles: Rectangle) -> Mask:
    low, high = np.array(rectangles).reshape(-1, 1, 2, 2).transpose(2, 0, 1, 3)
    return np.any(np.all((places > low) & (places < high), axis=2), axis=0)


def _moved(room: Layout, places: States, moves: Float[np.ndarray, "#n 2"]) -> States:
    """Returns the places after moves. Those that would leave the square or cross a wall fail."""
    after = places + moves
    stopped = np.any((after < 0) | (after > 1), axis=1)
    moves = np.where(moves == 0, 1e-300, moves)  # so that no division is 0 / 0
    for wall in room.walls:
        with np.errstate(over="ignore"):
            first, second = (wall[:2] - places) / moves, (wall[2:] - places) / moves
        # The shares of the way on which the point is between the wall's sides, along each axis.
        enters = np.minimum(first, second).max(axis=1)
        leaves = np.maximum(first, second).min(axis=1)
        stopped |= np.maximum(enters, 0.0) < np.minimum(leaves, 1.0)
    return np.where(stopped[:, None], places, after)
