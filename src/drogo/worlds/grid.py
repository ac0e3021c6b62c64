"""`GridWorld`: a text map with its states, rewards, MDP and observations, and its environment."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Shaped, UInt32

from drogo.errors import check_choice, check_whole
from drogo.mdp.arrays import as_indices
from drogo.worlds import shipped
from drogo.worlds.tabular import MOST_PIXELS, TabularEnv, TabularWorld, check_table
from drogo.worlds.text_map import START, WALL, Characters, Header, Rewards, parse

KINDS = ("one-hot", "coordinates", "pixels", "state")
COLOURS = {
    "wall": (0.20, 0.20, 0.20),
    "free": (0.95, 0.95, 0.95),
    "low reward": (0.84, 0.37, 0.00),
    "goal": (0.00, 0.62, 0.45),
    "agent": (0.00, 0.45, 0.70),
}
"""Okabe-Ito colours, which people with colour blindness can distinguish."""
LARGEST_CACHED_TABLE = 2**24
"""A table of observations with at most this many numbers (64 MiB) is kept in memory."""


class GridWorld(TabularWorld):
    """A deterministic grid world. `load` makes one from a name or a file, and `parse` from text.

    States are the free cells, numbered row by row. There are four moves; a blocked move stays in
    its cell. The reward of a step is that of the cell that is left. Episodes begin in the cells
    `S`, or in any non-terminal cell if there is none. `states` are pairs (row, column).
    """

    def __init__(self, name: str, characters: Characters, header: Header) -> None:
        self.name, self.characters, self.header = name, characters, header
        self.walls: Bool[np.ndarray, "height width"] = characters == ord(WALL)
        self.cells: Int[np.ndarray, "states 2"] = np.argwhere(~self.walls)
        """The row and column of each state."""
        self.index: Int[np.ndarray, "height width"] = np.full(characters.shape, -1)
        """The state of each cell, -1 for a wall."""
        self.index[~self.walls] = np.arange(len(self.cells))
        symbols: UInt32[np.ndarray, " states"] = characters[~self.walls]
        starts, terminal = symbols == ord(START), np.isin(symbols, list(map(ord, header.goals)))
        self.has_start = bool(starts.any())
        """Whether the map has a cell `S`."""
        reward = np.zeros(symbols.size)
        for symbol, value in {**header.rewards, **header.goals}.items():
            reward[symbols == ord(symbol)] = value
        allowed = starts if self.has_start else ~terminal
        next_state = np.where(terminal[:, None], np.arange(symbols.size)[:, None], self._moves())
        parts = (next_state, reward, terminal, allowed / allowed.sum())
        super().__init__(*parts, states=list(map(tuple, self.cells.tolist())))
        self.low_reward: Bool[np.ndarray, " states"]
        """Whether each state has a lower reward than the plain ones (`.`)."""
        self.low_reward = ~self.terminal & (self.reward < header.rewards.get(".", -1.0))
        self.worse_ends: Bool[np.ndarray, " states"]
        """Whether each state is terminal, and another terminal state has a higher reward."""
        self.worse_ends = self.terminal & (self.reward < self.reward[self.terminal].max())
        self.step_limit: int = header.step_limit or 4 * self.n_states

    @classmethod
    def load(cls, source: str | Path, rewards: Rewards = None) -> "GridWorld":
        """Loads a shipped world by name, or a map file. `rewards` of symbols replace its own."""
        name, text = shipped.read(source)
        return cls(name, *parse(text, str(source), rewards))

    @classmethod
    def parse(cls, text: str, rewards: Rewards = None, name: str = "map") -> "GridWorld":
        """Makes a world from the text of a map.

        Args:
            text: The map, with or without a header (see `drogo.worlds.text_map`).
            rewards: Rewards of symbols, which replace those of the map.
            name: The name of the world, also used in error messages.
        """
        return cls(name, *parse(text, name, rewards))

    def _moves(self) -> Int[np.ndarray, "states actions"]:
        # Right, down, left, up. The border is closed, so this stays in the map.
        row, column = (self.cells[:, None] + [(0, 1), (1, 0), (0, -1), (-1, 0)]).transpose(2, 0, 1)
        reached = self.index[row, column]
        return np.where(reached < 0, np.arange(len(self.cells))[:, None], reached)

    def without_goals(self) -> TabularWorld:
        """Returns the same cells and moves with plain cells in place of goals."""
        reward = np.where(self.terminal, self.header.rewards.get(".", -1.0), self.reward)
        terminal = np.zeros_like(self.terminal)
        return TabularWorld(self._moves(), reward, terminal, self.start, self.states)

    def __repr__(self) -> str:
        height, width = self.shape
        return f"GridWorld({self.name!r}, {width} x {height} cells, {self.n_states} states)"

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width in cells."""
        return self.characters.shape

    @property
    def text(self) -> str:
        """The rows of the map, without its header."""
        return "\n".join("".join(map(chr, row)) for row in self.characters.tolist())

    def space(self, kind: str, tile: int = 1) -> gymnasium.Space:
        """Returns the Gymnasium space of one observation; see `observations`."""
        check_choice("observation", kind, KINDS)
        check_whole("tile", tile, 1, MOST_PIXELS)
        if kind == "state":
            return gymnasium.spaces.Discrete(self.n_states)
        if kind == "one-hot":
            return gymnasium.spaces.Box(0.0, 1.0, (self.n_states,), np.float32)
        height, width = self.shape
        shape = (2,) if kind == "coordinates" else (height * tile, width * tile, 3)
        return gymnasium.spaces.Box(-0.5, 0.5, shape, np.float32)

    def observations(
        self, kind: str, tile: int = 1, states: Int[np.ndarray, " k"] | None = None
    ) -> Shaped[np.ndarray, "k ..."]:
        """Returns the observation of every state, or of some states.

        Args:
            kind: `"one-hot"`: one number per state. `"coordinates"`: `(x / (width - 1),
                y / (height - 1)) - 0.5`. `"pixels"`: an RGB image of the whole map in [-0.5, 0.5],
                without the direction of the agent. `"state"`: the index of the state.
            tile: Pixels per cell, for `"pixels"`.
            states: The states; by default all of them, in order.
        """
        every = np.arange(self.n_states)
        states = every if states is None else as_indices("states", states, self.n_states)
        shape = (len(states), *(self.space(kind, tile).shape or ()))
        remedy = "Use 'coordinates' for a world of this size."
        check_table(f"the {kind} table of {self.name}", shape, remedy)
        if kind == "state":
            return states.copy()
        if kind == "one-hot":
            return (states[:, None] == np.arange(self.n_states)).astype(np.float32)
        row, column = self.cells[states].T
        if kind == "coordinates":
            height, width = self.shape
            unit = np.stack([column / (width - 1), row / (height - 1)], axis=-1)
            return (unit - 0.5).astype(np.float32)
        images = np.tile(self.picture() - np.float32(0.5), (len(states), 1, 1, 1))
        agent = np.array(COLOURS["agent"], dtype=np.float32) - np.float32(0.5)
        images[np.arange(len(states)), row, column] = agent
        return images.repeat(tile, axis=1).repeat(tile, axis=2)

    def as_image(self, values: Float[np.ndarray, " states"]) -> Float[np.ndarray, "height width"]:
        """Returns one number per state as an array of the map's shape; walls are NaN."""
        image = np.full(self.shape, np.nan)
        image[~self.walls] = values
        return image

    def picture(self, state: int | None = None, tile: int = 1) -> Float32[np.ndarray, "h w 3"]:
        """Returns an RGB image in [0, 1], with the agent in `state`, and `tile` pixels per cell."""
        check_whole("tile", tile, 1, MOST_PIXELS)
        image = np.full((*self.shape, 3), COLOURS["wall"], dtype=np.float32)
        colours = np.full((self.n_states, 3), COLOURS["free"], dtype=np.float32)
        colours[self.low_reward | self.worse_ends] = COLOURS["low reward"]
        colours[self.terminal & ~self.worse_ends] = COLOURS["goal"]
        if state is not None:
            colours[state] = COLOURS["agent"]
        image[~self.walls] = colours
        return image.repeat(tile, axis=0).repeat(tile, axis=1)


class GridWorldEnv(TabularEnv):
    """A grid world in which an agent walks to a goal, around the low-reward cells.

    Actions are 0 right, 1 down, 2 left, 3 up. Rewards are those of the cell that is left; entering
    a goal adds its terminal value, which is also reported as `info["terminal_reward"]`, as
    `info["state"]` is. An episode is truncated after the step limit.

    Args:
        world: A grid world, the name of a shipped one, or the path of a map file.
        observation: `"one-hot"`, `"coordinates"`, `"pixels"` (`tile` per cell) or `"state"`.
        start: `"map"` for the cells `S`, or `"uniform"` for any non-terminal cell. With
            `reset(options={"start": ...})` or `{"state": i}`, one episode begins elsewhere.
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
        check_choice("start", start, ("map", "uniform"))
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
            return (self.world.picture(self.state, tile=24) * 255).round().astype(np.uint8)
        if self.render_mode == "ansi":
            rows = [list(row) for row in self.world.text.replace(START, ".").split("\n")]
            row, column = self.world.cells[self.state]
            rows[row][column] = "@"
            return "\n".join(map("".join, rows)) + "\n"
        gymnasium.logger.warn("render() does nothing without a render_mode; give one to make().")
        return None

    def _observation(self) -> Any:
        if self._table is not None:
            return self._table[self.state].copy()
        return self.world.observations(self.observation_kind, self.tile, np.array([self.state]))[0]
