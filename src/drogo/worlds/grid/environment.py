"""Grid worlds as Gymnasium environments, under the ids `drogo/...-v0`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo.errors import check_choice, check_whole
from drogo.worlds.grid.parse import START
from drogo.worlds.grid.world import GridWorld
from drogo.worlds.tabular import STARTS, TabularEnv

RENDER_TILE = 24
"""Pixels per cell in `render()`."""
LARGEST_CACHED_TABLE = 2**24
"""A table of observations with at most this many numbers (64 MiB) is kept in memory."""
AGENT_SYMBOL = "@"


class GridWorldEnv(TabularEnv):
    """A grid world in which an agent walks to a goal, around the low-reward cells.

    ## Actions
    `Discrete(4)`: 0 right, 1 down, 2 left, 3 up. A blocked move stays in its cell.

    ## Observations
    As `observation` says. `info["state"]` is always the index of the state.

    ## Rewards
    The reward of the cell that is left. Entering a goal adds the goal's terminal value (0 unless
    the map gives one), which is also reported as `info["terminal_reward"]`.

    ## Episodes
    With `start="map"`, an episode begins in a cell `S` (in any non-terminal cell if there is none),
    and with `"uniform"` in any non-terminal cell. `reset(options={"state": i})` begins in state
    `i`, and `reset(options={"start": "uniform"})` overrides `start` once. An episode is
    `terminated` in a goal, and `truncated` after `step_limit` steps.

    Args:
        world: A grid world, the name of a shipped one, or the path of a map file.
        observation: `"one-hot"`, `"coordinates"`, `"pixels"` or `"state"`.
        tile: Pixels per cell, for `"pixels"`.
        start: `"map"` or `"uniform"`.
        step_limit: Replaces the map's step limit.
        render_mode: `"rgb_array"`, `"ansi"` or None.
    """

    actions = ("right", "down", "left", "up")
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
        check_choice("start", start, STARTS)
        if step_limit is not None:
            check_whole("step_limit", step_limit, 1)
        if render_mode is not None:
            check_choice("render_mode", render_mode, self.metadata["render_modes"])
        self.moves = self.world = world if isinstance(world, GridWorld) else GridWorld.load(world)
        self.observation_kind, self.tile = observation, tile
        self.start, self.render_mode = start, render_mode
        self.step_limit = step_limit or self.world.step_limit
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        self.observation_space = self.world.space(observation, tile)
        size = int(np.prod(self.observation_space.shape or (1,))) * self.world.n_states
        self._table = self.all_observations() if size <= LARGEST_CACHED_TABLE else None

    def all_observations(self) -> np.ndarray:
        """Returns the observation of every state, in state order."""
        return self.world.observations(self.observation_kind, self.tile)

    def render(self) -> Any:
        if self.render_mode == "rgb_array":
            return (self.world.picture(self.state, RENDER_TILE) * 255).round().astype(np.uint8)
        if self.render_mode == "ansi":
            rows = [list(row) for row in self.world.text.replace(START, ".").split("\n")]
            row, column = self.world.cells[self.state]
            rows[row][column] = AGENT_SYMBOL
            return "\n".join("".join(row) for row in rows) + "\n"
        gymnasium.logger.warn("render() does nothing without a render_mode; give one to make().")
        return None

    def _observation(self) -> Any:
        if self._table is not None:
            return self._table[self.state].copy()
        state = np.array([self.state])
        return self.world.observations(self.observation_kind, self.tile, state)[0]
