"""Grid worlds as Gymnasium environments, under the ids `drogo/...-v0`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo.errors import ArgumentError
from drogo.mdp import FiniteWorld
from drogo.worlds.grid import observe
from drogo.worlds.grid.parse import START
from drogo.worlds.grid.world import MOVES, GridWorld

RENDER_TILE = 24
"""Pixels a cell in `render()`."""
LARGEST_CACHED_TABLE = 2**24
"""Numbers: 64 MiB of single precision."""
AGENT_SYMBOL = "@"


class GridWorldEnv(gymnasium.Env):
    """Walk to the goal around the costly cells.

    ## Actions
    `Discrete(4)`: 0 right, 1 down, 2 left, 3 up. A blocked move stays where it is.

    ## Observations
    `observation="one-hot" | "coordinates" | "pixels" | "state"`; `tile` pixels a cell for
    `pixels`. `info["state"]` is always the state's index.

    ## Rewards
    That of the cell being left; entering a goal adds the goal's own (0 unless the map says so),
    which `info["terminal_reward"]` tells apart.

    ## Start
    The map's `S` (uniform over several, or over all free cells if there is none); with
    `start="uniform"` any non-terminal cell. `reset(options={"state": i})` starts in state `i`,
    `reset(options={"start": "uniform"})` overrides `start` once.

    ## End
    `terminated` in a goal; `truncated` after `step_limit` steps (the map's, unless given).
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        world: GridWorld | str | Path,
        observation: str = "coordinates",
        *,
        tile: int = 1,
        start: str = "map",
        step_limit: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        observe.check_kind(observation)
        _check_start(start)
        if step_limit is not None and step_limit < 1:
            raise ArgumentError(f"step_limit is {step_limit}; it must be at least 1.")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ArgumentError(
                f"render_mode is {render_mode!r}; choose one of "
                f"{', '.join(self.metadata['render_modes'])}, or None."
            )
        if tile < 1:
            raise ArgumentError(f"tile is {tile}; it must be at least 1 pixel a cell.")
        self.world = world if isinstance(world, GridWorld) else GridWorld.load(world)
        self.observation_kind = observation
        self.tile = tile
        self.start = start
        self.step_limit = step_limit or self.world.step_limit
        self.render_mode = render_mode
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))
        self.observation_space = observe.space(self.world, observation, tile)
        self.state = 0
        self.steps = 0
        self._starts = {
            "map": np.flatnonzero(self.world.start),
            "uniform": np.flatnonzero(~self.world.terminal),
        }
        # Small enough: all observations, made once. Otherwise each is made when it is seen.
        size = int(np.prod(self.observation_space.shape or (1,))) * self.world.n_states
        self._table = (
            self.world.observations(observation, tile) if size <= LARGEST_CACHED_TABLE else None
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self._first_state(options or {})
        self.steps = 0
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ArgumentError(
                f"action is {action!r}; expected 0 (right), 1 (down), 2 (left), 3 (up)."
            )
        left = self.state
        self.state = int(self.world.next_state[left, action])
        self.steps += 1
        terminated = bool(self.world.terminal[self.state])
        reward = self.world.reward[left] if not self.world.terminal[left] else 0.0
        info = self._info()
        if terminated and self.state != left:
            info["terminal_reward"] = float(self.world.reward[self.state])
            reward += info["terminal_reward"]
        truncated = self.steps >= self.step_limit and not terminated
        return self._observation(), float(reward), terminated, truncated, info

    def finite_world(self) -> FiniteWorld:
        """The world as tables; episodes begin as `start` says."""
        world = self.world
        return FiniteWorld(
            world.next_state,
            world.reward,
            world.terminal,
            self._starts[self.start],
            self.step_limit,
        )

    def all_observations(self) -> Any:
        """One to each state."""
        return self.world.observations(self.observation_kind, self.tile)

    def render(self) -> Any:
        if self.render_mode == "rgb_array":
            picture = self.world.picture(self.state, RENDER_TILE)
            return (picture * 255).round().astype(np.uint8)
        if self.render_mode == "ansi":
            rows = [list(row) for row in self.world.text.replace(START, ".").split("\n")]
            row, column = self.world.cells[self.state]
            rows[row][column] = AGENT_SYMBOL
            return "\n".join("".join(row) for row in rows) + "\n"
        gymnasium.logger.warn("render() does nothing without a render_mode; give one to make().")
        return None

    def _first_state(self, options: dict[str, Any]) -> int:
        unknown = set(options) - {"state", "start"}
        if unknown:
            raise ArgumentError(
                f"unknown reset option(s) {sorted(unknown)}; known: 'state', 'start'."
            )
        if "state" in options:
            state = int(options["state"])
            if not 0 <= state < self.world.n_states or self.world.terminal[state]:
                raise ArgumentError(
                    f"reset option 'state' is {state}; expected a non-terminal state from 0 to "
                    f"{self.world.n_states - 1}."
                )
            return state
        start = options.get("start", self.start)
        _check_start(start)
        return int(self.np_random.choice(self._starts[start]))

    def _observation(self) -> Any:
        if self._table is not None:
            return self._table[self.state].copy()
        return observe.table(self.world, self.observation_kind, np.array([self.state]), self.tile)[
            0
        ]

    def _info(self) -> dict[str, Any]:
        return {"state": self.state}


def _check_start(start: str) -> None:
    if start not in ("map", "uniform"):
        raise ArgumentError(f"start is {start!r}; choose 'map' or 'uniform'.")
