"""`GridWorld`: a text map with its states, rewards, MDP and observations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Shaped, UInt32

from drogo.errors import ArgumentError, check_choice
from drogo.mdp import MDP
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
        self.has_start = bool((symbols == ord(START)).any())
        """Whether the map says where episodes begin."""
        states = list(zip(*self.cells.T.tolist(), strict=True))
        super().__init__(*self._table(symbols), states)
        self.low_reward: Bool[np.ndarray, " states"]
        """Which states cost more than the plain ones (`.`)."""
        self.low_reward = ~self.terminal & (self.reward < header.rewards.get(".", -1.0))
        self.step_limit: int = header.step_limit or STEPS_PER_STATE * self.n_states

    def _table(
        self, symbols: UInt32[np.ndarray, " states"]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns the moves, rewards, terminal states and start, if these are the states' symbols.

        A state that is drawn as a wall is terminal, and no move leads to it.
        """
        walled = symbols == ord(WALL)
        reward = np.zeros(symbols.size)
        for symbol, value in {**self.header.rewards, **self.header.goals}.items():
            reward[symbols == ord(symbol)] = value
        terminal = walled | np.isin(symbols, [ord(symbol) for symbol in self.header.goals])
        starts = symbols == ord(START)
        allowed = starts if starts.any() else ~terminal
        reached = self._moves()
        blocked = walled[reached] | terminal[:, None]
        next_state = np.where(blocked, np.arange(symbols.size)[:, None], reached)
        return next_state, reward, terminal, allowed / allowed.sum()

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

    def mdp_with(self, cells: Mapping[Any, str]) -> MDP:
        """Makes the MDP in which some cells are different, and the states have the same numbers.

        A cell that becomes a wall is still a state: a terminal one that no move leads to.

        Args:
            cells: The new symbol of each cell that changes, given by its row and column: a wall, a
                free cell or a goal. A wall of this world is no state and cannot change.

        Returns:
            The MDP, for example for `exact.update`.

        Raises:
            ArgumentError: A cell is none of the states, or a symbol is unknown.
            MDPError: A state cannot reach a goal any more.
        """
        characters = self.characters.copy()
        states = set(self.states)
        known = (WALL, *self.header.rewards, *self.header.goals)
        for cell, symbol in cells.items():
            if cell not in states:
                raise ArgumentError(
                    f"cell {cell} is not a free cell of {self.name}.",
                    remedy="To open a wall, start from the world in which it is open.",
                )
            check_choice(f"the symbol of cell {cell}", symbol, known)
            characters[cell] = ord(symbol)
        return TabularWorld(*self._table(characters[~self.walls]), self.states).mdp

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
