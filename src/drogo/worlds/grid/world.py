"""`GridWorld`: a text map with its states, rewards, MDP and observations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Shaped, UInt32

from drogo.worlds import shipped
from drogo.worlds.grid import observe
from drogo.worlds.grid.parse import START, WALL, Header, parse
from drogo.worlds.tabular import TabularWorld

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Right, down, left, up: the (row, column) steps of actions 0 to 3."""

STEPS_PER_STATE = 4
"""The step limit per free cell of a map that does not give a step limit."""


class GridWorld(TabularWorld):
    """A deterministic grid world. Make one with `load` (a name or a file) or `parse` (text).

    States are the free cells, numbered row by row. There are four moves; a blocked move stays in
    its cell. The reward of a step is that of the cell that is left. Episodes begin in the cells
    drawn `S`, or in any non-terminal cell if there is none. `states` are pairs (row, column).
    """

    def __init__(
        self, name: str, characters: UInt32[np.ndarray, "height width"], header: Header
    ) -> None:
        self.name, self.characters, self.header = name, characters, header
        self.walls: Bool[np.ndarray, "height width"] = characters == ord(WALL)
        """Which cells are walls."""
        self.cells: Int[np.ndarray, "states 2"] = np.argwhere(~self.walls)
        """The row and column of each state."""
        self.index: Int[np.ndarray, "height width"] = np.full(characters.shape, -1)
        """The state of each cell, -1 for a wall."""
        self.index[~self.walls] = np.arange(len(self.cells))
        symbols = characters[~self.walls]
        reward = np.zeros(symbols.size)
        for symbol, value in {**header.rewards, **header.goals}.items():
            reward[symbols == ord(symbol)] = value
        terminal = np.isin(symbols, [ord(symbol) for symbol in header.goals])
        self.low_reward: Bool[np.ndarray, " states"]
        """Which states cost more than the plain ones (`.`)."""
        self.low_reward = ~terminal & (reward < header.rewards.get(".", -1.0))
        self.has_start = bool((symbols == ord(START)).any())
        """Whether the map says where episodes begin."""
        allowed = symbols == ord(START) if self.has_start else ~terminal
        next_state = np.where(terminal[:, None], np.arange(symbols.size)[:, None], self._moves())
        states = list(zip(*self.cells.T.tolist(), strict=True))
        super().__init__(next_state, reward, terminal, allowed / allowed.sum(), states)
        self.step_limit: int = header.step_limit or STEPS_PER_STATE * self.n_states

    @classmethod
    def load(cls, source: str | Path, rewards: Mapping[str, float] | None = None) -> GridWorld:
        """Loads a shipped world or a map file.

        Args:
            source: The name of a shipped world, or the path of a map file.
            rewards: Rewards of symbols, which replace those of the map.

        Returns:
            The world.

        Raises:
            MapError: The map is malformed; the error names the line and column.
            MissingFile: There is no such world or file.
        """
        name, text = shipped.read(source)
        return cls(name, *parse(text, str(source), rewards))

    @classmethod
    def parse(
        cls, text: str, rewards: Mapping[str, float] | None = None, name: str = "map"
    ) -> GridWorld:
        """Makes a world from the text of a map.

        Args:
            text: The map, with or without a header (see `drogo.worlds.grid.parse`).
            rewards: Rewards of symbols, which replace those of the map.
            name: The name of the world, also used in error messages.

        Returns:
            The world.

        Raises:
            MapError: The map is malformed; the error names the line and column.
        """
        return cls(name, *parse(text, name, rewards))

    def _moves(self) -> Int[np.ndarray, "states actions"]:
        """Returns where each move leads if no state ends an episode."""
        row, column = (self.cells[:, None, :] + np.array(MOVES)).transpose(2, 0, 1)
        reached = self.index[row, column]  # The border is closed, so this stays in the map.
        return np.where(reached < 0, np.arange(len(self.cells))[:, None], reached)

    def without_goals(self) -> TabularWorld:
        """Returns the same cells and moves, but with plain cells for goals: nothing ends."""
        plain = self.header.rewards.get(".", -1.0)
        reward = np.where(self.terminal, plain, self.reward)
        return TabularWorld(
            self._moves(), reward, np.zeros_like(self.terminal), self.start, self.states
        )

    def __repr__(self) -> str:
        height, width = self.shape
        return f"GridWorld({self.name!r}, {width} x {height} cells, {self.n_states} states)"

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in cells."""
        height, width = self.characters.shape
        return height, width

    @property
    def text(self) -> str:
        """The rows of the map, without its header."""
        return "\n".join("".join(map(chr, row)) for row in self.characters.tolist())

    def observations(self, kind: str, tile: int = 1) -> Shaped[np.ndarray, "states ..."]:
        """Returns the observation of every state.

        Args:
            kind: `"one-hot"`, `"coordinates"`, `"pixels"` or `"state"`.
            tile: Pixels per cell, for `"pixels"`.

        Returns:
            One observation per state, in state order.
        """
        return observe.table(self, kind, np.arange(self.n_states), tile)

    def as_image(self, values: Float[np.ndarray, " states"]) -> Float[np.ndarray, "height width"]:
        """Lay out one number per state as the map.

        Args:
            values: One number per state.

        Returns:
            An array of the map's shape; walls are NaN.
        """
        image = np.full(self.shape, np.nan)
        image[~self.walls] = values
        return image

    def picture(self, state: int | None = None, tile: int = 1) -> Float32[np.ndarray, "h w 3"]:
        """Draws the map in colour.

        Args:
            state: The state of the agent, if it is to be drawn.
            tile: Pixels per cell.

        Returns:
            An RGB image in [0, 1].
        """
        return observe.picture(self, state, tile)
