"""Breadth-first search for all states of a MiniGrid environment with a fixed layout.

Objects keep their identity when a state is saved and restored, because some environments ask
whether *this* ball was picked up. A snapshot holds their places and attributes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from drogo.errors import ArgumentError

MAX_STATES = 50_000

NON_TERMINAL, GOAL, FAILURE = 0, 1, 2
"""Kinds of states. MiniGrid rewards reaching a goal, but not a failure such as lava."""


@dataclass(frozen=True)
class Snapshot:
    """Everything that a step can change, except the step counter."""

    cells: tuple[Any, ...]
    attributes: tuple[tuple[Any, dict[str, Any]], ...]
    position: tuple[int, int]
    """Column and row of the agent."""
    direction: int
    carrying: Any


@dataclass(frozen=True)
class StateGraph:
    """All states in order of discovery, and the states that actions lead to. Episodes begin in
    state 0."""

    snapshots: tuple[Snapshot, ...]
    names: tuple[Hashable, ...]
    next_state: Int[np.ndarray, "states actions"]
    """Terminal states lead to themselves."""
    kind: Int[np.ndarray, " states"]
    blocked: Bool[np.ndarray, " states"]
    """Whether the cell in front of the agent cannot be entered."""


def explore(env: Any, actions: Sequence[int]) -> StateGraph:
    """Searches from the present state of `env` (unwrapped) with its own `step`."""
    snapshots, keys = [take(env)], [(name_of(env), NON_TERMINAL)]
    index = {keys[0]: 0}
    rows, blocked = [], []
    for state, snapshot in enumerate(snapshots):  # The list grows during the loop.
        put_back(env, snapshot)
        ahead = env.grid.get(*env.front_pos)
        blocked.append(ahead is not None and not ahead.can_overlap())
        rows.append([state] * len(actions))
        if keys[state][1] != NON_TERMINAL:
            continue
        for column, action in enumerate(actions):
            put_back(env, snapshot)
            kind = _step(env, action)
            key = (name_of(env), kind)
            if key not in index:
                if len(snapshots) >= MAX_STATES:
                    problem = f"{title(env)} has more than {MAX_STATES} states under these actions."
                    remedy = "Use fewer actions (drop lets every object lie everywhere), or learn "
                    remedy += "without an exact solution."
                    raise ArgumentError(problem, remedy=remedy, argument="actions")
                index[key] = len(snapshots)
                snapshots.append(take(env))
                keys.append(key)
            rows[state][column] = index[key]
    put_back(env, snapshots[0])
    names, kinds = zip(*keys, strict=True)
    return StateGraph(tuple(snapshots), names, np.array(rows), np.array(kinds), np.array(blocked))


def _step(env: Any, action: int) -> int:
    before = env.np_random.bit_generator.state
    # The partial view that MiniGrid draws at every step takes longer than all the rest.
    env.gen_obs = lambda: None
    try:
        _, reward, terminated, _, _ = env.step(action)
    finally:
        del env.gen_obs
    if env.np_random.bit_generator.state != before:
        raise ArgumentError(
            f"{title(env)} moves at random, so its states cannot be found by trying every action "
            "once.",
            remedy="Learn without an exact solution: use drogo.collect on the environment with "
            "MiniGrid's RGBImgObsWrapper, start='reset', key='image', reward=-1.0.",
            argument="env",
        )
    if not terminated:
        return NON_TERMINAL
    return GOAL if reward > 0 else FAILURE


def title(env: Any) -> str:
    """Returns the name of an environment in error messages."""
    return env.spec.id if env.spec else str(env)


def take(env: Any) -> Snapshot:
    """Saves the state of an environment."""
    return Snapshot(
        cells=tuple(env.grid.grid),
        attributes=tuple((thing, dict(vars(thing))) for thing in _things(env)),
        position=_pair(env.agent_pos),
        direction=int(env.agent_dir),
        carrying=env.carrying,
    )


def put_back(env: Any, snapshot: Snapshot) -> None:
    """Restores a state, with the step counter at 0."""
    env.grid.grid = list(snapshot.cells)
    for thing, attributes in snapshot.attributes:
        vars(thing).clear()
        vars(thing).update(attributes)
    env.agent_pos = snapshot.position
    env.agent_dir = snapshot.direction
    env.carrying = snapshot.carrying
    env.step_count = 0


def name_of(env: Any) -> Hashable:
    """Describes the state: position, direction, the carried object, and all that can change."""
    things = tuple(
        (index, *_describe(cell)) for index, cell in enumerate(env.grid.grid) if _can_change(cell)
    )
    carried = None if env.carrying is None else _describe(env.carrying)
    return (_pair(env.agent_pos), int(env.agent_dir), carried, things)


def _things(env: Any) -> list[Any]:
    """Lists all objects that can change, also those inside boxes and in the agent's hands."""
    things = [thing for thing in (*env.grid.grid, env.carrying) if _can_change(thing)]
    for thing in things:  # The list grows during the loop.
        inside = getattr(thing, "contains", None)
        if _can_change(inside):
            things.append(inside)
    return things


def _can_change(thing: Any) -> bool:
    return thing is not None and thing.type in ("door", "key", "ball", "box")


def _describe(thing: Any) -> tuple[Any, ...]:
    inside = getattr(thing, "contains", None)
    return (*thing.encode(), None if inside is None else _describe(inside))


def _pair(position: Any) -> tuple[int, int]:
    return int(position[0]), int(position[1])
