"""Breadth-first search for all states of a MiniGrid environment with a fixed layout."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from drogo.errors import ArgumentError
from drogo.worlds.minigrid.snapshot import Snapshot, name_of, put_back, take

MAX_STATES = 50_000

NON_TERMINAL, GOAL, FAILURE = 0, 1, 2
"""Kinds of states. MiniGrid rewards reaching a goal, but not a failure such as lava."""


@dataclass(frozen=True)
class StateGraph:
    """All states in order of discovery (episodes begin in state 0), and where actions lead."""

    snapshots: tuple[Snapshot, ...]
    names: tuple[Hashable, ...]
    next_state: Int[np.ndarray, "states actions"]
    """Terminal states lead to themselves."""
    kind: Int[np.ndarray, " states"]
    blocked: Bool[np.ndarray, " states"]
    """Whether the cell in front of the agent cannot be entered."""


def explore(env: Any, actions: Sequence[int]) -> StateGraph:
    """Searches from the present state of `env` (unwrapped) with its own `step`."""
    # The partial view that MiniGrid draws at every step takes longer than all the rest.
    env.gen_obs = lambda: None
    try:
        return _explore(env, actions)
    finally:
        del env.gen_obs


def _explore(env: Any, actions: Sequence[int]) -> StateGraph:
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
                    raise ArgumentError(
                        f"{_title(env)} has more than {MAX_STATES} states under these "
                        f"{len(actions)} actions. Use fewer actions (drop lets every object lie "
                        "everywhere), or learn without an exact solution."
                    )
                index[key] = len(snapshots)
                snapshots.append(take(env))
                keys.append(key)
            rows[state][column] = index[key]
    put_back(env, snapshots[0])
    names, kinds = zip(*keys, strict=True)
    return StateGraph(tuple(snapshots), names, np.array(rows), np.array(kinds), np.array(blocked))


def _step(env: Any, action: int) -> int:
    before = env.np_random.bit_generator.state
    _, reward, terminated, _, _ = env.step(action)
    if env.np_random.bit_generator.state != before:
        raise ArgumentError(
            f"{_title(env)} moves at random, so its states cannot be found by trying every action "
            "once. Learn without an exact solution: use drogo.collect on the environment with "
            "MiniGrid's RGBImgObsWrapper, start='reset', key='image', reward=-1.0."
        )
    if not terminated:
        return NON_TERMINAL
    return GOAL if reward > 0 else FAILURE


def _title(env: Any) -> str:
    return env.spec.id if env.spec else str(env)
