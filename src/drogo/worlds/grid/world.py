"""`GridWorld`: a map as states, rewards, an MDP and tables of observations."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Float32, Int, Shaped

from drogo.errors import ArgumentError, MissingFile
from drogo.mdp import MDP
from drogo.worlds import shipped
from drogo.worlds.grid import observe
from drogo.worlds.grid.parse import START, WALL, Map, parse

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Right, down, left, up: (row, column) steps of actions 0 to 3."""

STEPS_PER_STATE = 4
"""Step limit of a map that does not give one, per free cell."""


class GridWorld:
    """A deterministic grid world. Make one with `load` (a name or a file) or `parse` (text).

    States are the free cells, numbered row by row. Four moves; a blocked move stays. The reward
    of a step is that of the cell being left.
    """

    def __init__(self, name: str, parsed: Map) -> None:
        self.name = name
        self.map = parsed
        states = int(np.count_nonzero(parsed.cells != ord(WALL)))
        self.step_limit: int = parsed.step_limit or STEPS_PER_STATE * states

    @classmethod
    def load(cls, source: str | Path, rewards: Mapping[str, float] | None = None) -> GridWorld:
        """A shipped world by name, or a map file by path."""
        if str(source) in shipped.names():
            return cls(str(source), parse(shipped.read(str(source)), str(source), rewards))
        path = Path(source)
        if path.is_file():
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise ArgumentError(f"{path} is not a text file in UTF-8: {error}.") from error
            return cls(path.stem, parse(text, str(path), rewards))
        near = difflib.get_close_matches(str(source), shipped.names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise MissingFile(
            f"no shipped world and no map file is called {str(source)!r}.{hint} "
            f"Shipped: {', '.join(shipped.names())}."
        )

    @classmethod
    def parse(
        cls, text: str, rewards: Mapping[str, float] | None = None, name: str = "map"
    ) -> GridWorld:
        """A world from text; `rewards` gives symbols rewards of your own."""
        return cls(name, parse(text, name, rewards))

    def __repr__(self) -> str:
        height, width = self.shape
        return f"GridWorld({self.name!r}, {width} x {height} cells, {self.n_states} states)"

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in cells."""
        height, width = self.map.cells.shape
        return height, width

    @property
    def n_states(self) -> int:
        return len(self.cells)

    @property
    def text(self) -> str:
        """The map's rows, without its header."""
        return "\n".join("".join(map(chr, row)) for row in self.map.cells.tolist())

    @cached_property
    def walls(self) -> Bool[np.ndarray, "height width"]:
        return self.map.cells == ord(WALL)

    @cached_property
    def cells(self) -> Int[np.ndarray, "states 2"]:
        """Row and column of each state."""
        return np.argwhere(~self.walls)

    @cached_property
    def index(self) -> Int[np.ndarray, "height width"]:
        """The state of each cell, -1 for a wall."""
        index = np.full(self.shape, -1, dtype=np.int64)
        index[~self.walls] = np.arange(self.n_states)
        return index

    @cached_property
    def reward(self) -> Float[np.ndarray, " states"]:
        symbols = self._symbols
        reward = np.zeros(self.n_states)
        for symbol, value in {**self.map.rewards, **self.map.goals}.items():
            reward[symbols == ord(symbol)] = value
        return reward

    @cached_property
    def terminal(self) -> Bool[np.ndarray, " states"]:
        return np.isin(self._symbols, [ord(symbol) for symbol in self.map.goals])

    @cached_property
    def low_reward(self) -> Bool[np.ndarray, " states"]:
        """Cells that cost more than the plain ones (`.`): the places to go around."""
        return ~self.terminal & (self.reward < self.map.rewards.get(".", -1.0))

    @cached_property
    def has_start(self) -> bool:
        """Whether the map draws where episodes begin."""
        return bool((self._symbols == ord(START)).any())

    @cached_property
    def start(self) -> Float[np.ndarray, " states"]:
        """Uniform over the cells drawn `S`, or over all non-terminal cells if there is none."""
        begin = self._symbols == ord(START) if self.has_start else ~self.terminal
        return begin / begin.sum()

    @cached_property
    def next_state(self) -> Int[np.ndarray, "states actions"]:
        """Where each action leads; a terminal state stays."""
        following = np.empty((self.n_states, len(MOVES)), dtype=np.int64)
        here = np.arange(self.n_states)
        for action, (down, right) in enumerate(MOVES):
            there = self.index[self.cells[:, 0] + down, self.cells[:, 1] + right]
            following[:, action] = np.where((there < 0) | self.terminal, here, there)
        return following

    @cached_property
    def mdp(self) -> MDP:
        n = self.n_states
        pointer = np.arange(n + 1)
        matrices = [
            sp.csr_array((np.ones(n), following, pointer), shape=(n, n))
            for following in self.next_state.T
        ]
        return MDP.from_arrays(
            matrices, self.reward, self.terminal, start=self.start, states=observe.Cells(self.cells)
        )

    def observations(self, kind: str, tile: int = 1) -> Shaped[np.ndarray, "states ..."]:
        """All observations of a kind, in state order; see `drogo.worlds.grid.observe`."""
        return observe.table(self, kind, np.arange(self.n_states), tile)

    def as_image(self, values: Float[np.ndarray, " states"]) -> Float[np.ndarray, "height width"]:
        """One number per state laid out as the map; walls are NaN."""
        image = np.full(self.shape, np.nan)
        image[~self.walls] = values
        return image

    def picture(self, state: int | None = None, tile: int = 1) -> Float32[np.ndarray, "h w 3"]:
        """The map in colour, in [0, 1], with the agent in `state`."""
        return observe.picture(self, state, tile)

    @cached_property
    def _symbols(self) -> np.ndarray:
        return self.map.cells[~self.walls]
