"""`MiniGridWorld`: a MiniGrid environment whose default representation can be learned."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Int, UInt8

from drogo.errors import ArgumentError, ArgumentTypeError, check_choice, check_whole
from drogo.worlds.minigrid.search import FAILURE, NON_TERMINAL, StateGraph, explore, put_back, title
from drogo.worlds.shipped import MINIGRID_COSTS, register_minigrid
from drogo.worlds.tabular import MOST_PIXELS, TabularEnv, TabularWorld, check_table

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
"""The names of MiniGrid's actions, in its order."""
TRIED = ("left", "right", "forward", "pickup", "toggle")
"""By default, those of these actions that ever change anything. Dropping things lets every object
lie everywhere, which multiplies the states and seldom helps."""
OBSERVATIONS = ("rgb", "symbolic")
RENDERED_TILE = 16
"""Pixels per cell in `render()`."""


class MiniGridWorld(TabularEnv, gymnasium.Wrapper, RecordConstructorArgs):
    """A MiniGrid environment whose reward is a function of the state, not of the time, and whose
    observations show the whole grid.

    A state consists of position, direction, doors and objects. `mdp` is the exact MDP over the
    states that can be reached, in the order of `all_observations()`, and `info["state"]` is the
    index of a state in it. The last step of an episode reports `info["terminal_reward"]`, which is
    included in its reward. `reset(options={"state": i})` begins in state `i`, and
    `reset(options={"start": "uniform"})` in any non-terminal state.

    Args:
        env: An id such as `"MiniGrid-FourRooms-v0"`, or a MiniGrid environment.
        layout: The seed of the grid. Every episode has this grid and begins in the same state.
        observation: `"rgb"` for a picture of the whole grid, or `"symbolic"` for planes of zeros
            and 255s for each kind of object, state of a door, and direction of the agent.
        tile: Pixels per cell, for `"rgb"`.
        actions: Names from `ACTIONS`. By default those of `TRIED` that ever change anything.
        step_limit: Replaces MiniGrid's own step limit.
        **costs: `step`, by default -1: the reward of leaving a state, negative. `lava`, by default
            -200: the terminal value of terminal states that MiniGrid does not reward; a goal has 0.
            `collision`, by default 0: is added to `step` in states that face something that cannot
            be entered.
    """

    def __init__(
        self,
        env: str | gymnasium.Env,
        layout: int = 0,
        *,
        observation: str = "rgb",
        tile: int = 3,
        actions: Sequence[str] | None = None,
        step_limit: int | None = None,
        **costs: float,
    ) -> None:
        self.costs = MINIGRID_COSTS | costs
        arguments = {"layout": layout, "observation": observation, "tile": tile, **self.costs}
        arguments |= {"actions": actions, "step_limit": step_limit}
        RecordConstructorArgs.__init__(self, **arguments)
        gymnasium.Wrapper.__init__(self, _make(env))
        check_choice("observation", observation, OBSERVATIONS)
        check_whole("tile", tile, 1, MOST_PIXELS)
        self._check(actions)
        self.layout, self.observation_kind, self.tile = layout, observation, tile
        inner: Any = self.unwrapped
        self.step_limit: int = step_limit or int(inner.max_steps)
        inner.max_steps = np.iinfo(np.int64).max
        self.graph, self.actions = self._explore(actions)
        self.n_states = len(self.graph.names)
        """The number of states, terminal ones included."""
        if observation == "rgb":
            shape = (self.n_states, inner.height * tile, inner.width * tile, 3)
            check_table(f"the pictures with tile={tile}", shape, "Use fewer pixels per cell.")
        terminal = self.graph.kind != NON_TERMINAL
        step, lava, collision = self.costs.values()
        reward = np.select(
            [self.graph.kind == FAILURE, terminal, self.graph.blocked],
            [lava, 0.0, step + collision],
            default=step,
        )
        first = np.eye(1, self.n_states)[0]
        next_state = self.graph.next_state
        self.moves = TabularWorld(next_state, reward, terminal, first, self.graph.names)
        self._scenes: dict[Hashable, np.ndarray] = {}
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        self.observation_space = gymnasium.spaces.Box(0, 255, self._draw(0).shape, np.uint8)

    def _check(self, actions: Sequence[str] | None) -> None:
        for name, value in self.costs.items():
            if name not in MINIGRID_COSTS:
                problem = f"MiniGridWorld has no argument {name}; costs are {[*MINIGRID_COSTS]}."
                raise ArgumentTypeError(problem, argument=name)
            if not (value < 0 if name == "step" else value <= 0):
                expected = "negative" if name == "step" else "at most 0"
                raise ArgumentError(f"{name} is {value}; it must be {expected}.", argument=name)
        unknown = sorted(set(actions or ()) - set(ACTIONS))
        if unknown or (actions is not None and not actions):
            problem = f"actions has {unknown or 'nothing'}; choose from {ACTIONS}."
            raise ArgumentError(problem, argument="actions")

    def _explore(self, actions: Sequence[str] | None) -> tuple[StateGraph, tuple[str, ...]]:
        """Returns all states, and the names of the actions in the order of the action space."""
        self.env.reset(seed=self.layout)
        if hasattr(self.unwrapped, "instrs"):
            raise ArgumentTypeError(
                f"{self.env} belongs to BabyAI, whose missions keep a memory that no state of the "
                "grid shows.",
                remedy="Use drogo.collect on the environment itself.",
                argument="env",
            )
        names = tuple(actions or TRIED)
        graph = explore(self.unwrapped, [ACTIONS.index(name) for name in names])
        if actions is None:
            useful = (graph.next_state != np.arange(len(graph.names))[:, None]).any(axis=0)
            names = tuple(name for name, keep in zip(TRIED, useful, strict=True) if keep)
            graph = replace(graph, next_state=graph.next_state[:, useful])
        if (graph.kind == NON_TERMINAL).all():
            raise ArgumentError(
                f"no terminal state of {title(self)} can be reached in layout {self.layout} with "
                f"the actions {', '.join(names)}.",
                remedy="Try another layout, or more actions: some missions need something to be "
                "put down (actions=ACTIONS[:6]).",
                argument="actions",
            )
        return graph, names

    @cached_property
    def positions(self) -> Int[np.ndarray, "states 2"]:
        """The column and row of the agent in each state."""
        return np.array([snapshot.position for snapshot in self.graph.snapshots])

    def all_observations(self) -> UInt8[np.ndarray, "states height width channels"]:
        """Returns one observation per state, in state order, and raises if two are equal."""
        return self._table

    @cached_property
    def _table(self) -> np.ndarray:
        table = np.stack([self._draw(state) for state in range(self.n_states)])
        put_back(self.unwrapped, self.graph.snapshots[self.state])
        first: dict[bytes, int] = {}
        for state, picture in enumerate(table):
            twin = first.setdefault(picture.tobytes(), state)
            if twin == state:
                continue
            argument, remedy = "tile", f"Use tile={2 * self.tile}, or observation='symbolic'."
            if self.graph.kind[state] != self.graph.kind[twin]:
                argument = "actions"
                remedy = "Leave out the action that ends an episode without changing the grid."
            names = f"{self.graph.names[twin]} and {self.graph.names[state]}"
            problem = f"states {twin} and {state} look the same ({names})."
            raise ArgumentError(problem, remedy=remedy, argument=argument)
        return table

    def render(self, tile: int = RENDERED_TILE) -> Any:
        inner: Any = self.unwrapped
        return inner.grid.render(tile, inner.agent_pos, inner.agent_dir, None)

    def _observation(self) -> np.ndarray:
        if "_table" not in vars(self):
            return self._draw(self.state)
        put_back(self.unwrapped, self.graph.snapshots[self.state])
        return self._table[self.state].copy()

    def _draw(self, state: int) -> np.ndarray:
        """Puts the environment into a state and returns its observation."""
        inner: Any = self.unwrapped
        put_back(inner, self.graph.snapshots[state])
        if self.observation_kind != "rgb":
            return self._planes()
        # MiniGrid draws every cell. Here, all cells but the agent's are drawn once for each state
        # of the doors and objects, which is the last part of a state's name.
        *_, things = self.graph.names[state]  # pyright: ignore[reportGeneralTypeIssues]
        if things not in self._scenes:
            self._scenes[things] = inner.grid.render(self.tile, (-1, -1), None, None)
        picture = self._scenes[things].copy()
        (column, row), size = inner.agent_pos, self.tile
        picture[row * size : (row + 1) * size, column * size : (column + 1) * size] = (
            inner.grid.render_tile(inner.grid.get(column, row), inner.agent_dir, False, size)
        )
        return picture

    def _planes(self) -> np.ndarray:
        from minigrid.core.constants import OBJECT_TO_IDX

        inner: Any = self.unwrapped
        encoded = inner.grid.encode().transpose(1, 0, 2)
        kinds = np.eye(len(OBJECT_TO_IDX), dtype=bool)[encoded[..., 0]]
        is_door = encoded[..., :1] == OBJECT_TO_IDX["door"]
        doors = np.eye(3, dtype=bool)[np.minimum(encoded[..., 2], 2)] & is_door
        agent = np.zeros((*encoded.shape[:2], 4), dtype=bool)
        column, row = inner.agent_pos
        agent[row, column, inner.agent_dir] = True
        return np.concatenate([kinds, doors, agent], axis=-1).astype(np.uint8) * 255


def _make(env: str | gymnasium.Env) -> gymnasium.Env:
    register_minigrid()
    from minigrid.minigrid_env import MiniGridEnv

    if isinstance(env, str):
        env = gymnasium.make(env, disable_env_checker=True)
    if not isinstance(env, gymnasium.Env) or not isinstance(env.unwrapped, MiniGridEnv):
        raise ArgumentTypeError(f"{env} is not a MiniGrid environment.", argument="env")
    return env
