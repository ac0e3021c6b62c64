"""`ObservationIndex`: finds observations in a table by their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from drogo.data.arrays import as_type, plain
from drogo.data.table import merge_equal, row_key, row_keys
from drogo.errors import ArgumentError
from drogo.mdp.arrays import frozen


class ObservationIndex:
    """A table of observations that is searched by their bytes, and that can grow.

    An observation that differs from one of the table only in the sign of a zero counts as that one,
    unless the table has both.

    Args:
        observations: The table, one observation per row. Of equal rows, the first one is found.
        name: The name of the table's owner in error messages.
    """

    def __init__(self, observations: Any, name: str = "the table") -> None:
        table = plain("observations", observations)
        if table.ndim == 0:
            raise ArgumentError("observations is a single number.", argument="observations")
        self.name, self._buffer, self._count = name, table, len(table)
        self._row_of: dict[bytes, int] = {}
        unsigned = _without_negative_zero(table)
        for rows in (table,) if unsigned is table else (table, unsigned):
            for row, key in enumerate(row_keys(rows)):
                self._row_of.setdefault(key, row)

    def __len__(self) -> int:
        return self._count

    @property
    def observations(self) -> Shaped[np.ndarray, "rows ..."]:
        """The table: the observations it was made from, and those added since."""
        return frozen(self._buffer[: self._count])

    @property
    def dtype(self) -> np.dtype:
        """The type of the observations."""
        return self._buffer.dtype

    def row(self, observation: Any) -> int:
        """Returns the row of a single observation, or -1 if it is not in the table."""
        array = self._checked(observation, batch_axes=0)
        row = self._row_of.get(row_key(array))
        if row is None and array.dtype.kind == "f":
            row = self._row_of.get(row_key(_without_negative_zero(array)))
        return -1 if row is None else row

    def rows(self, batch: Any) -> Int[np.ndarray, " n"]:
        """Returns the row of each observation of a batch, and -1 for those not in the table."""
        array = self._checked(batch, batch_axes=1)
        rows = np.array([self._row_of.get(key, -1) for key in row_keys(array)], dtype=np.int64)
        unknown, unsigned = rows < 0, _without_negative_zero(array)
        if unsigned is not array and unknown.any():
            rows[unknown] = [self._row_of.get(key, -1) for key in row_keys(unsigned[unknown])]
        return rows

    def add(self, batch: Any) -> Int[np.ndarray, " n"]:
        """Returns the row of each observation of a batch. Those not in the table are appended to
        it, with 0.0 in place of -0.0."""
        rows = self.rows(batch)
        unknown = rows < 0
        if unknown.any():
            array = as_type(self.name, batch, self.dtype)[unknown]
            new, index = merge_equal(_without_negative_zero(array))
            rows[unknown] = self._count + index
            for row, key in enumerate(row_keys(new), self._count):
                self._row_of[key] = row
            self._append(new)
        return rows

    def _append(self, rows: Shaped[np.ndarray, "n ..."]) -> None:
        count = self._count + len(rows)
        if count > len(self._buffer):  # the caller's array is never written to
            shape = (max(count, 2 * len(self._buffer)), *rows.shape[1:])
            longer = np.empty(shape, self.dtype)
            longer[: self._count] = self._buffer[: self._count]
            self._buffer = longer
        self._buffer[self._count : count] = rows
        self._count = count

    def _checked(self, values: Any, batch_axes: int) -> np.ndarray:
        array, shape = as_type(self.name, values, self.dtype), self._buffer.shape[1:]
        if array.ndim != len(shape) + batch_axes or array.shape[batch_axes:] != shape:
            kind = "a batch of observations" if batch_axes else "a single observation"
            raise ArgumentError(
                f"{self.name} has observations of shape {shape}, and got an array of shape "
                f"{array.shape} for {kind}.",
                argument="observations",
            )
        return array


def _without_negative_zero(array: np.ndarray) -> np.ndarray:
    """Returns the array itself if it has no -0.0, and otherwise a copy with 0.0 there."""
    if array.dtype.kind != "f" or not (np.signbit(array) & (array == 0)).any():
        return array
    return np.asarray(array + np.zeros((), array.dtype))
