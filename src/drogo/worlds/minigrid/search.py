"""All states of a MiniGrid environment with a fixed layout, found by trying every action."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from drogo.errors import ArgumentError
from drogo.worlds.minigrid.snapshot import Snapshot, name_of, put_back, take

MOST_STATES = 50_000

GOING_ON, GOAL, FAILURE = 0, 1, 2
"""What a state is: not an end, an end that MiniGrid rewards, one that it does not (lava)."""


class TooManyStates(ArgumentError):
    """The search was given up."""


@dataclass(frozen=True)
class Found:
    """In order of discovery: the start is state 0."""

    snapshots: tuple[Snapshot, ...]
    names: tuple[Hashable, ...]
    next_state: Int[np.ndarray, "states actions"]
    """Ends lead to themselves."""
    kind: Int[np.ndarray, " states"]
    blocked: Bool[np.ndarray, " states"]
    """The cell ahead cannot be entered."""


def explore(env: Any, actions: Sequence[int], most: int = MOST_STATES) -> Found:
    """Breadth first, from where `env` (unwrapped) is now, by its own `step`."""
    with _without_observations(env):
        return _explore(env, actions, most)


@contextmanager
def _without_observations(env: Any) -> Iterator[None]:
    """The partial view that MiniGrid makes at every step takes longer than all the rest of it."""
    env.gen_obs = lambda: None
    try:
        yield
    finally:
        del env.gen_obs


def _explore(env: Any, actions: Sequence[int], most: int) -> Found:
    snapshots, names, kinds, blocked = [take(env)], [name_of(env)], [GOING_ON], [_blocked(env)]
    index = {(names[0], GOING_ON): 0}
    rows: list[list[int]] = []
    here = 0
    while here < len(snapshots):
        if kinds[here] != GOING_ON:
            rows.append([here] * len(actions))
            here += 1
            continue
        row = []
        for action in actions:
            put_back(env, snapshots[here])
            kind = _step(env, action)
            name = name_of(env)
            if (name, kind) not in index:
                if len(snapshots) >= most:
                    raise TooManyStates(
                        f"{env.spec.id if env.spec else env} has more than {most} states under "
                        f"these {len(actions)} actions. Leave out actions (drop lets every object "
                        "lie everywhere), or learn without a truth."
                    )
                index[name, kind] = len(snapshots)
                snapshots.append(take(env))
                names.append(name)
                kinds.append(kind)
                blocked.append(_blocked(env))
            row.append(index[name, kind])
        rows.append(row)
        here += 1
    put_back(env, snapshots[0])
    return Found(
        tuple(snapshots),
        tuple(names),
        np.array(rows, dtype=np.int64),
        np.array(kinds, dtype=np.int64),
        np.array(blocked, dtype=bool),
    )


def _step(env: Any, action: int) -> int:
    luck = env.np_random.bit_generator.state
    _, reward, terminated, _, _ = env.step(action)
    if env.np_random.bit_generator.state != luck:
        raise ArgumentError(
            f"{env.spec.id if env.spec else env} moves by chance: its states cannot be found by "
            "trying every action once. Learn without a truth: drogo.collect on the environment "
            "with MiniGrid's RGBImgObsWrapper, start='reset', key='image', reward=-1.0."
        )
    if not terminated:
        return GOING_ON
    return GOAL if reward > 0 else FAILURE


def _blocked(env: Any) -> bool:
    ahead = env.grid.get(*env.front_pos)
    return ahead is not None and not ahead.can_overlap()
