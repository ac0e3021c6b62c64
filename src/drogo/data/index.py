"""Tables of distinct observations, which are recognised by their bytes."""

import hashlib
import math
import mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Int, Shaped

from drogo.data.arrays import as_type, plain
from drogo.errors import ArgumentError, DataError
from drogo.files import KINDS
from drogo.mdp.arrays import frozen

MERGE_TRIAL = 20_000  # The number of observations after which it is decided if they repeat.
REPEATING = 0.5  # Observations repeat if fewer than this share of them are distinct.
ROWS_AT_ONCE = 500  # The number of rows read from a file before its pages are released.
LONGEST_KEY = 256  # Rows of more bytes than this are recognised by a digest.


def merge_equal(rows: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, " n"]]:
    """Returns the distinct rows (bit for bit) in order of appearance, and the index of each row."""
    _, first, index = np.unique(row_bytes(rows), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return rows[first[order]], np.argsort(order)[index]


def row_bytes(rows: np.ndarray) -> np.ndarray:
    """Returns the bytes of each row as one element."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


def _keys(rows: np.ndarray) -> list[bytes]:
    """Returns a key for each row, by which equal rows are recognised."""
    return row_bytes(rows).tolist() if rows[:1].nbytes <= LONGEST_KEY else list(map(_key, rows))


def _key(row: np.ndarray) -> bytes:
    key = row.tobytes()
    return key if len(key) <= LONGEST_KEY else hashlib.blake2b(key, digest_size=16).digest()


def read_rows(table: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Reads rows of a table that may be in a file, and keeps few of the file's pages in memory."""
    rows = which.ravel()
    owner = getattr(table, "_mmap", None)  # A copy of a memory map has none.
    if owner is None or not hasattr(mmap, "MADV_DONTNEED"):
        return np.asarray(table[rows]).reshape(*which.shape, *table.shape[1:])
    owner.madvise(mmap.MADV_RANDOM)
    taken = np.empty((rows.size, *table.shape[1:]), dtype=table.dtype)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        taken[part] = table[rows[part]]
        owner.madvise(mmap.MADV_DONTNEED)
    return taken.reshape(*which.shape, *table.shape[1:])


class TableBuilder:
    """Collects observations in memory or in a new file, and merges equal ones: always, never, or if
    `merge` is None until `MERGE_TRIAL` observations turn out not to repeat."""

    def __init__(self, merge: bool | None = None, file: Path | None = None) -> None:
        self._merge, self._path = merge, file
        self._first: np.ndarray | None = None
        self._rows: list[np.ndarray] = []
        self._file: BinaryIO | None = None
        self._row_of: dict[bytes, int] = {}
        self._count = self._seen = 0

    def add(self, observation: Any) -> int:
        """Returns the row of an observation, which is a new row if there is none yet."""
        row = np.asarray(observation)
        self._check(row)
        self._seen += 1
        if self._merge is False:
            return self._append(row[None])
        key = _key(row)
        index = self._row_of.get(key)
        if index is None:
            index = self._row_of[key] = self._append(row[None])
        if self._merge is None and self._seen == MERGE_TRIAL:
            self._merge = self._count < REPEATING * self._seen
            if not self._merge:
                self._row_of.clear()
        return index

    def add_rows(self, rows: np.ndarray) -> Int[np.ndarray, " n"]:
        """Returns the row of each of many observations, as `add` does for one."""
        trial = MERGE_TRIAL - self._seen if self._merge is None else 0
        first, rest = np.fromiter(map(self.add, rows[:trial]), np.int64), rows[trial:]
        if len(rest) == 0:
            return first
        if self._merge:
            distinct, index = merge_equal(rest)
            added = np.fromiter(map(self.add, distinct), np.int64)[index]
        else:
            self._check(rest[0])
            self._seen += len(rest)
            added = np.arange(self._append(rest), self._count)
        return np.concatenate([first, added])

    def finish(self) -> np.ndarray:
        """Returns the table: an array, or a memory map of the file."""
        if self._path is None or self._file is None or self._first is None:
            return frozen(np.concatenate(self._rows))
        self._file.close()
        shape = (self._count, *self._first.shape)
        return np.memmap(self._path, self._first.dtype, mode="r", shape=shape)

    def _append(self, rows: np.ndarray) -> int:
        """Appends rows without merging, and returns the index of the first."""
        if self._path is None:
            self._rows.append(rows.copy())
        else:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("xb")
            self._file.write(np.ascontiguousarray(rows).data)
        self._count += len(rows)
        return self._count - len(rows)

    def _check(self, row: np.ndarray) -> None:
        first = self._first = row if self._first is None else self._first
        if row.dtype.kind not in KINDS:
            problem = f"the observation has the type {row.dtype}, not numbers."
            remedy = "Choose a part with key=, or use gymnasium.wrappers.TransformObservation."
            raise DataError(problem, remedy=remedy, argument="key")
        if row.shape != first.shape or row.dtype != first.dtype:
            shapes = f"{row.shape} and {row.dtype} after {first.shape} and {first.dtype}"
            raise DataError(f"observation {self._seen} has another shape or type: {shapes}.")


class ObservationIndex:
    """A table of observations that is searched by their bytes, and that can grow. Zeros of both
    signs are equal, unless the table has both; of equal rows, the first one is found."""

    def __init__(self, observations: Any, name: str = "the table") -> None:
        table = plain("observations", observations)
        if table.ndim == 0:
            raise ArgumentError("observations is a single number.", argument="observations")
        self.name, self.dtype, self._buffer, self._count = name, table.dtype, table, len(table)
        self._row_of: dict[bytes, int] = {}
        unsigned = _without_negative_zero(table)
        for rows in (table,) if unsigned is table else (table, unsigned):
            for row, key in enumerate(_keys(rows)):
                self._row_of.setdefault(key, row)

    def __len__(self) -> int:
        return self._count

    @property
    def observations(self) -> Shaped[np.ndarray, "rows ..."]:
        """The table: the observations it was made from, and those added since."""
        return frozen(self._buffer[: self._count])

    def row(self, observation: Any) -> int:
        """Returns the row of a single observation, or -1 if it is not in the table."""
        array = self._checked(observation, batch_axes=0)
        row = self._row_of.get(_key(array))
        if row is None and array.dtype.kind == "f":
            row = self._row_of.get(_key(_without_negative_zero(array)))
        return -1 if row is None else row

    def rows(self, batch: Any) -> Int[np.ndarray, " n"]:
        """Returns the row of each observation of a batch, and -1 for those not in the table."""
        array = self._checked(batch, batch_axes=1)
        rows = np.array([self._row_of.get(key, -1) for key in _keys(array)], dtype=np.int64)
        unknown, unsigned = rows < 0, _without_negative_zero(array)
        if unsigned is not array and unknown.any():
            rows[unknown] = [self._row_of.get(key, -1) for key in _keys(unsigned[unknown])]
        return rows

    def add(self, batch: Any) -> Int[np.ndarray, " n"]:
        """Returns the row of each observation of a batch, and appends those not in the table."""
        array = self._checked(batch, batch_axes=1)
        rows = self.rows(array)
        unknown = rows < 0
        if unknown.any():
            new, index = merge_equal(_without_negative_zero(array[unknown]))
            rows[unknown] = self._count + index
            for row, key in enumerate(_keys(new), self._count):
                self._row_of[key] = row
            self._append(new)
        return rows

    def _append(self, rows: Shaped[np.ndarray, "n ..."]) -> None:
        count = self._count + len(rows)
        if count > len(self._buffer):  # the caller's array is never written to
            longer = np.empty((max(count, 2 * len(self._buffer)), *rows.shape[1:]), self.dtype)
            longer[: self._count] = self._buffer[: self._count]
            self._buffer = longer
        self._buffer[self._count : count] = rows
        self._count = count

    def _checked(self, values: Any, batch_axes: int) -> np.ndarray:
        is_right = isinstance(values, np.ndarray) and values.dtype == self.dtype
        array = values if is_right else as_type(self.name, values, self.dtype)
        shape = self._buffer.shape[1:]
        if array.ndim != len(shape) + batch_axes or array.shape[batch_axes:] != shape:
            kind = "a batch of observations" if batch_axes else "a single observation"
            problem = f"{self.name} has observations of shape {shape}; {kind} has {array.shape}."
            raise ArgumentError(problem, argument="observations")
        return array


def _without_negative_zero(array: np.ndarray) -> np.ndarray:
    """Returns the array itself if it has no -0.0, and otherwise a copy with 0.0 there."""
    if array.dtype.kind != "f" or not (np.signbit(array) & (array == 0)).any():
        return array
    return np.asarray(array + np.zeros((), array.dtype))
