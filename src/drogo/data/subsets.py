"""Selects, joins and batches transitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drogo.data.table import merge_equal, read_rows
from drogo.errors import ArgumentError, ArgumentTypeError, DataError, check_whole
from drogo.mdp.arrays import frozen

if TYPE_CHECKING:
    from drogo.data.transitions import Transitions

COLUMNS = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward", "action",
           "behaviour", "default", "weight")  # fmt: skip
"""The arrays of `Transitions` that have one row for each transition."""


def take(data: Transitions, which: Any) -> Transitions:
    """Returns some of the transitions, with the same table of observations."""
    columns = {name: getattr(data, name) for name in COLUMNS}
    taken = {name: frozen(part[which]) for name, part in columns.items() if part is not None}
    return replace(data, **taken)


def select(data: Transitions, which: slice | npt.ArrayLike) -> Transitions:
    """Returns some of the transitions, without the observations that they do not use."""
    if not isinstance(which, slice):
        which = np.asarray(which)
        if which.ndim != 1 or which.dtype.kind not in "biu":
            raise ArgumentTypeError(
                "transitions are selected by a slice, a mask or an array of indices; "
                "data[k : k + 1] is a single transition."
            )
        if which.dtype == bool and which.size != len(data):
            raise ArgumentError(f"a mask of {which.size} does not fit {len(data)} transitions.")
    taken = take(data, which)
    if len(taken) == 0:
        raise DataError("the selection has no transitions.")
    if isinstance(data.observations, np.memmap):  # a table in a file stays as it is
        return taken
    used, index = np.unique([taken.state, taken.next_state], return_inverse=True)
    state, next_state = index.reshape(2, -1).astype(np.int32)
    table = frozen(data.observations[used])
    return replace(taken, observations=table, state=frozen(state), next_state=frozen(next_state))


def concatenate(parts: Sequence[Transitions]) -> Transitions:
    """Returns the transitions of several data sets; equal observations become one row."""
    columns = {name: [getattr(part, name) for part in parts] for name in COLUMNS}
    tables = [part.observations for part in parts]
    shapes = {
        (table.shape[1:], str(table.dtype), None if action is None else action.shape[1:])
        for table, action in zip(tables, columns["action"], strict=True)
    }
    if len(shapes) > 1:
        raise DataError(
            f"the observations and actions of these data differ in shape or type: {shapes}.",
            argument="parts",
        )
    table = tables[0]
    if any(other is not table for other in tables):
        if any(isinstance(other, np.memmap) for other in tables):
            raise DataError("observations in files cannot be merged.", argument="parts")
        table, index = merge_equal(np.concatenate(tables))
        starts = np.cumsum([0, *map(len, tables[:-1])])
        for name in ("state", "next_state"):
            rows = zip(columns[name], starts, strict=True)
            columns[name] = [index[part + start].astype(np.int32) for part, start in rows]
    n_actions = None if parts[0].n_actions is None else max(part.n_actions or 0 for part in parts)
    if n_actions is not None and any(part.default is not None for part in parts):
        uniform = [np.full(len(part), 1 / n_actions) for part in parts]
        columns["default"] = [
            other if part is None else part
            for part, other in zip(columns["default"], uniform, strict=True)
        ]
    joined = {
        name: None if any(part is None for part in column) else frozen(np.concatenate(column))
        for name, column in columns.items()
    }
    return replace(parts[0], observations=frozen(table), n_actions=n_actions, **joined)


class Batches:
    """The batches of one pass through transitions; see `Transitions.batches`."""

    def __init__(self, data: Transitions, size: int, seed: int | None) -> None:
        self._data, self._size = data, check_whole("size", size, 1)
        n = len(data)
        self._order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)

    def __len__(self) -> int:
        return len(range(0, len(self._data), self._size))

    def __getitem__(self, k: int) -> dict[str, np.ndarray]:
        start = range(0, len(self._data), self._size)[k]
        rows, data = self._order[start : start + self._size], self._data
        columns = {name: getattr(data, name) for name in ("reward", "terminated", "truncated")}
        columns |= {} if data.action is None else {"action": data.action}
        return {
            "observation": read_rows(data.observations, data.state[rows]),
            "next_observation": read_rows(data.observations, data.next_state[rows]),
            **{name: column[rows] for name, column in columns.items()},
        }
