"""`MiniGridWorld`: a MiniGrid environment of which a breadth-first search finds all states. Objects
keep their identity when a state is restored: some environments ask for *this* ball."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Bool, Int, UInt8

from drogo import errors
from drogo.errors import ArgumentError, ArgumentTypeError, check_choice, check_type, check_whole
from drogo.worlds.shipped import MINIGRID_COSTS, register_minigrid
from drogo.worlds.tabular import MOST_PIXELS, TabularEnv, TabularWorld, check_table

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
"""The names of MiniGrid's actions, in its order."""
TRIED = ("left", "right", "forward", "pickup", "toggle")
"""The actions tried by default: dropping multiplies the states and seldom helps."""
OBSERVATIONS = ("rgb", "symbolic")
MAX_STATES = 50_000
NON_TERMINAL, GOAL, FAILURE = 0, 1, 2
"""Kinds of states. MiniGrid rewards reaching a goal, but not a failure such as lava."""


class NotSearchable(ArgumentError):
    """An environment whose states cannot be found by trying every action once."""

    def __init__(self, problem: str) -> None:
        remedy = "Collect from the environment itself, as MiniGrid's RGBImgObsWrapper shows it."
        command = "Use drogo learn, which needs no search."
        super().__init__(problem, remedy=remedy, command_remedy=command, argument="env")


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
        actions: Names from `ACTIONS`. By default those of `TRIED` that ever change anything, with
            `"drop"` and `"done"` only where no goal is within reach without them.
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
        layout = check_whole("layout", layout, 0)
        if step_limit is not None:
            check_whole("step_limit", step_limit, 1)
        check_whole("tile", tile, 1, MOST_PIXELS)
        for name, value in self.costs.items():
            if name not in MINIGRID_COSTS:
                raise errors.unknown_argument(name, MINIGRID_COSTS)
            if not (value < 0 if name == "step" else value <= 0):
                expected = "negative" if name == "step" else "at most 0"
                raise ArgumentError(f"{name} is {value}; it must be {expected}.", argument=name)
        check_type("actions", actions, Sequence | None, f"names from {ACTIONS}")
        unknown = [name for name in actions or () if name not in ACTIONS]
        if unknown or (actions is not None and not actions):
            problem = f"actions has {unknown or 'nothing'}; choose from {ACTIONS}."
            raise ArgumentError(problem, argument="actions")
        self.layout, self.observation_kind, self.tile = layout, observation, tile
        inner: Any = self.unwrapped
        self.step_limit: int = step_limit or int(inner.max_steps)
        inner.max_steps = np.iinfo(np.int64).max
        graph, self.actions = self._explore(actions)
        self.snapshots, self.kind = graph.snapshots, graph.kind
        # An object that is carried is drawn in the corner where nothing else shows it.
        seen: Any = {(place, towards, things) for place, towards, _, things in graph.names}  # pyright: ignore
        self._shows_carried = len(seen) < len(graph.names)
        self.n_states, self._named = len(graph.names), Counter(graph.names)
        if observation == "rgb":
            shape = (self.n_states, inner.height * tile, inner.width * tile, 3)
            check_table(f"the pictures with tile={tile}", shape, "Use fewer pixels per cell.")
        terminal = self.kind != NON_TERMINAL
        step, lava, collision = self.costs.values()
        cases = [self.kind == FAILURE, terminal, graph.blocked]
        reward = np.select(cases, [lava, 0.0, step + collision], default=step)
        first = np.eye(1, self.n_states)[0]
        self.moves = TabularWorld(graph.next_state, reward, terminal, first, graph.names)
        self._scenes: dict[Hashable, np.ndarray] = {}
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        self.observation_space = gymnasium.spaces.Box(0, 255, self._draw(0).shape, np.uint8)

    def _explore(self, actions: Sequence[str] | None) -> "tuple[StateGraph, tuple[str, ...]]":
        """Returns all states, and the names of the actions in the order of the action space."""
        self.env.reset(seed=self.layout)
        if hasattr(self.unwrapped, "instrs"):
            problem = f"Missions of {self.env} (BabyAI) keep a memory that the grid does not show."
            raise NotSearchable(problem)
        for names in (tuple(actions),) if actions else (TRIED, ACTIONS[:6], ACTIONS):
            graph = explore(self.unwrapped, [ACTIONS.index(name) for name in names])
            if (graph.kind == GOAL).any():
                break
        else:
            problem = f"Layout {self.layout} of {_title(self)} has no goal within reach of the "
            problem += f"actions {', '.join(actions or ACTIONS)}."
            remedy = "Try another layout, or other actions: by default, all are tried."
            command = "Give another --layout, or other --actions: by default, all are tried."
            raise ArgumentError(problem, remedy=remedy, command_remedy=command, argument="actions")
        if actions is None:
            useful = (graph.next_state != np.arange(len(graph.names))[:, None]).any(axis=0)
            names = tuple(name for name, keep in zip(names, useful, strict=True) if keep)
            graph.next_state = graph.next_state[:, useful]
        return graph, names

    @cached_property
    def positions(self) -> Int[np.ndarray, "states 2"]:
        """The column and row of the agent in each state."""
        return np.array([snapshot.position for snapshot in self.snapshots])

    def all_observations(self) -> UInt8[np.ndarray, "states height width channels"]:
        """Returns one observation per state, in state order, and raises if two are equal."""
        return self._table

    @cached_property
    def _table(self) -> np.ndarray:
        table = np.stack([self._marked(state) for state in range(self.n_states)])
        self.snapshots[self.state].restore(self.unwrapped)
        states: dict[bytes, int] = {}
        for state, picture in enumerate(table):
            twin = states.setdefault(picture.tobytes(), state)
            if twin == state:
                continue
            argument, remedy = "tile", f"Use tile={2 * self.tile}, or observation='symbolic'."
            first, second = self.moves.states[twin], self.moves.states[state]
            problem = f"States {first} and {second} look the same."
            raise ArgumentError(problem, remedy=remedy, argument=argument)
        return table

    def render(self, tile: int = 16) -> Any:
        inner: Any = self.unwrapped
        return inner.grid.render(tile, inner.agent_pos, inner.agent_dir, None)

    def _observation(self) -> np.ndarray:
        if "_table" not in vars(self):
            return self._marked(self.state)
        self.snapshots[self.state].restore(self.unwrapped)
        return self._table[self.state].copy()

    def _marked(self, state: int) -> np.ndarray:
        """Returns the observation of a state, as a negative or darker where an episode ended."""
        picture = self._draw(state)
        if self.kind[state] == NON_TERMINAL or self._named[self.moves.states[state]] == 1:
            return picture
        return 255 - picture if self.kind[state] == GOAL else picture // 2

    def _draw(self, state: int) -> np.ndarray:
        """Puts the environment into a state and returns its observation."""
        inner: Any = self.unwrapped
        self.snapshots[state].restore(inner)
        if self._shows_carried and inner.carrying is not None:
            inner.grid.grid[0] = inner.carrying
        if self.observation_kind == "symbolic":
            return _planes(inner)
        # All cells but the agent's are drawn once for each state of the doors and objects.
        *_, carried, objects = self.moves.states[state]  # pyright: ignore[reportGeneralTypeIssues]
        things = (carried if self._shows_carried else None, objects)
        if things not in self._scenes:
            self._scenes[things] = inner.grid.render(self.tile, (-1, -1), None, None)
        picture = self._scenes[things].copy()
        (column, row), size = inner.agent_pos, self.tile
        picture[row * size : (row + 1) * size, column * size : (column + 1) * size] = (
            inner.grid.render_tile(inner.grid.get(column, row), inner.agent_dir, False, size)
        )
        return picture


class WholeGrid(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """A MiniGrid environment with one layout, seen as planes, which need not be searchable."""

    def __init__(self, env: str, layout: int = 0) -> None:
        RecordConstructorArgs.__init__(self, layout=layout)
        super().__init__(_make(env))
        self.layout, inner = layout, self.unwrapped
        inner.gen_obs = lambda: None  # pyright: ignore  # the partial view takes long to draw
        self.env.reset(seed=layout)
        shape = self.observation(None).shape
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        rng = self.unwrapped.np_random if seed is None else np.random.default_rng(seed)
        _, info = self.env.reset(seed=self.layout, options=options)
        self.unwrapped.np_random = rng  # what moves at random does so in its own way each time
        return self.observation(None), info

    def observation(self, observation: Any) -> np.ndarray:
        inner: Any = self.unwrapped
        corner, inner.grid.grid[0] = inner.grid.grid[0], inner.carrying  # shows what is carried
        planes = _planes(inner).ravel()
        inner.grid.grid[0] = corner
        return planes


def _planes(env: Any) -> UInt8[np.ndarray, "height width channels"]:
    from minigrid.core.constants import OBJECT_TO_IDX

    encoded = env.grid.encode().transpose(1, 0, 2)
    kinds = np.eye(len(OBJECT_TO_IDX), dtype=bool)[encoded[..., 0]]
    is_door = encoded[..., :1] == OBJECT_TO_IDX["door"]
    doors = np.eye(3, dtype=bool)[np.minimum(encoded[..., 2], 2)] & is_door
    agent = np.zeros((*encoded.shape[:2], 4), dtype=bool)
    column, row = env.agent_pos
    agent[row, column, env.agent_dir] = True
    return np.concatenate([kinds, doors, agent], axis=-1).astype(np.uint8) * 255


def _make(env: str | gymnasium.Env) -> gymnasium.Env:
    register_minigrid()
    from minigrid.minigrid_env import MiniGridEnv

    if isinstance(env, str):
        try:
            env = gymnasium.make(env, disable_env_checker=True)
        except gymnasium.error.Error as error:
            raise ArgumentError(f"env cannot be made: {error}", argument="env") from error
    if not isinstance(env, gymnasium.Env) or not isinstance(env.unwrapped, MiniGridEnv):
        raise ArgumentTypeError(f"{env} is not a MiniGrid environment.", argument="env")
    return env


@dataclass
class StateGraph:
    """All states in order of discovery, of which state 0 is the first of every episode."""

    snapshots: "list[Snapshot]"
    names: list[Hashable]
    next_state: Int[np.ndarray, "states actions"]
    kind: Int[np.ndarray, " states"]
    blocked: Bool[np.ndarray, " states"]
    """Whether the cell in front of the agent cannot be entered."""


class Snapshot:
    """Everything that a step of an environment can change, except the step counter."""

    def __init__(self, env: Any) -> None:
        things = [thing for thing in (*env.grid.grid, env.carrying) if _can_change(thing)]
        for thing in things:  # The list grows during the loop.
            things += filter(_can_change, [getattr(thing, "contains", None)])
        self.cells = list(env.grid.grid)
        self.attributes = [(thing, dict(vars(thing))) for thing in things]
        column, row = env.agent_pos
        self.position = int(column), int(row)
        self.direction, self.carrying = int(env.agent_dir), env.carrying

    def restore(self, env: Any) -> None:
        """Puts an environment into this state, with the step counter at 0."""
        env.grid.grid = list(self.cells)
        for thing, attributes in self.attributes:
            vars(thing).clear()
            vars(thing).update(attributes)
        env.agent_pos, env.agent_dir = self.position, self.direction
        env.carrying, env.step_count = self.carrying, 0


def explore(env: Any, actions: Sequence[int]) -> StateGraph:
    """Searches from the present state of `env` (unwrapped) with its own `step`."""
    snapshots, keys = [Snapshot(env)], [(name_of(env), NON_TERMINAL)]
    index = {keys[0]: 0}
    rows, blocked = [], []
    for state, snapshot in enumerate(snapshots):  # The list grows during the loop.
        snapshot.restore(env)
        ahead = env.grid.get(*env.front_pos)
        blocked.append(ahead is not None and not ahead.can_overlap())
        rows.append([state] * len(actions))
        if keys[state][1] != NON_TERMINAL:
            continue
        for column, action in enumerate(actions):
            snapshot.restore(env)
            kind = _step(env, action)
            key = (name_of(env), kind)
            if key not in index:
                if len(snapshots) >= MAX_STATES:
                    raise NotSearchable(f"{_title(env)} has more than {MAX_STATES} states.")
                index[key] = len(snapshots)
                snapshots.append(Snapshot(env))
                keys.append(key)
            rows[state][column] = index[key]
    snapshots[0].restore(env)
    names, kinds = map(list, zip(*keys, strict=True))
    return StateGraph(snapshots, names, np.array(rows), np.array(kinds), np.array(blocked))


def _step(env: Any, action: int) -> int:
    before = env.np_random.bit_generator.state
    # The partial view that MiniGrid draws at every step takes longer than all the rest.
    env.gen_obs = lambda: None
    try:
        _, reward, terminated, _, _ = env.step(action)
    finally:
        del env.gen_obs
    if env.np_random.bit_generator.state != before:
        problem = f"{_title(env)} moves at random: trying actions once does not find its states."
        raise NotSearchable(problem)
    if not terminated:
        return NON_TERMINAL
    return GOAL if reward > 0 else FAILURE


def name_of(env: Any) -> Hashable:
    """Describes the state: position, direction, the carried object, and all that can change."""
    things = ((k, *_describe(cell)) for k, cell in enumerate(env.grid.grid) if _can_change(cell))
    carried = None if env.carrying is None else _describe(env.carrying)
    return (tuple(map(int, env.agent_pos)), int(env.agent_dir), carried, tuple(things))


def _title(env: Any) -> str:
    return env.spec.id if env.spec else str(env)


def _can_change(thing: Any) -> bool:
    return thing is not None and thing.type in ("door", "key", "ball", "box")


def _describe(thing: Any) -> tuple[Any, ...]:
    inside = getattr(thing, "contains", None)
    return (*thing.encode(), None if inside is None else _describe(inside))
