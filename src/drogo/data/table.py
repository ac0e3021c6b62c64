"""Tables of distinct observations, in memory or in a file."""

from __future__ import annotations

import hashlib
import math
import mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Int

from drogo.errors import DataError
from drogo.files import KINDS
from drogo.mdp.arrays import frozen

MERGE_TRIAL = 20_000
"""The number of observations after which it is decided whether they repeat."""
REPEATING = 0.5
"""Observations repeat if fewer than this share of them are distinct."""
ROWS_AT_ONCE = 500
"""The number of rows read from a file before its pages are released."""
LONGEST_KEY = 256
"""Rows of more bytes than this are recognised by a digest, which takes less memory."""


class TableBuilder:
    """Collects observations, of which equal ones share a row, in memory or in a new file.

    Args:
        merge: Whether equal observations share a row. None decides it after `MERGE_TRIAL`
            observations: if they do not repeat, each further one gets a new row.
        file: The new file, or None for a table in memory.
    """

    def __init__(self, merge: bool | None = None, file: Path | None = None) -> None:
        self.merge, self.path = merge, file
        self._first: np.ndarray | None = None
        self._rows: list[np.ndarray] = []
        self._file: BinaryIO | None = None
        self._row_of: dict[bytes, int] = {}
        self._count = 0
        self._seen = 0

    def add(self, observation: Any) -> int:
        """Returns the row of an observation, which is a new row if there is none yet."""
        row = np.asarray(observation)
        self._check(row)
        self._seen += 1
        if self.merge is False:
            return self._append(row[None])
        key = row_key(row)
        index = self._row_of.get(key)
        if index is None:
            index = self._row_of[key] = self._append(row[None])
        if self.merge is None and self._seen == MERGE_TRIAL:
            self.merge = self._count < REPEATING * self._seen
            if not self.merge:
                self._row_of.clear()
        return index

    def add_rows(self, rows: np.ndarray) -> Int[np.ndarray, " n"]:
        """Returns the row of each of many observations, as `add` does for one."""
        trial = len(rows) if self.merge is None else 0
        trial = min(trial, max(0, MERGE_TRIAL - self._seen))
        first = np.fromiter(map(self.add, rows[:trial]), np.int64, trial)
        rest = rows[trial:]
        if len(rest) == 0:
            return first
        if self.merge is False:
            self._check(rest[0])
            self._seen += len(rest)
            start = self._append(rest)
            return np.concatenate([first, np.arange(start, self._count)])
        distinct, index = merge_equal(rest)
        added = np.fromiter(map(self.add, distinct), np.int64, len(distinct))
        return np.concatenate([first, added[index]])

    def finish(self) -> np.ndarray:
        """Returns the table: an array, or a memory map of the file."""
        if self.path is None or self._file is None or self._first is None:
            return frozen(np.concatenate(self._rows))
        self._file.close()
        shape = (self._count, *self._first.shape)
        return np.memmap(self.path, self._first.dtype, mode="r", shape=shape)

    def _append(self, rows: np.ndarray) -> int:
        """Appends rows without merging, and returns the index of the first."""
        if self.path is None:
            self._rows.append(rows.copy())
        else:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("xb")
            self._file.write(np.ascontiguousarray(rows).data)
        self._count += len(rows)
        return self._count - len(rows)

    def _check(self, row: np.ndarray) -> None:
        first = self._first = row if self._first is None else self._first
        if row.dtype.kind not in KINDS:
            raise DataError(
                f"the observation has the type {row.dtype}, not numbers.",
                remedy="Choose a part of it with key=, or transform it with "
                "gymnasium.wrappers.TransformObservation.",
                argument="key",
            )
        if row.shape != first.shape or row.dtype != first.dtype:
            raise DataError(
                f"observations change: number {self._seen} has shape {row.shape} and type "
                f"{row.dtype}, and those before it have {first.shape} and {first.dtype}."
            )


def merge_equal(rows: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, " n"]]:
    """Returns the distinct rows (bit for bit) in order of appearance, and the index of each row."""
    _, first, index = np.unique(row_bytes(rows), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return rows[first[order]], np.argsort(order)[index]


def row_bytes(rows: np.ndarray) -> np.ndarray:
    """Returns the bytes of each row as one element."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


def row_keys(rows: np.ndarray) -> list[bytes]:
    """Returns a key for each row, by which equal rows are recognised."""
    if rows[:1].nbytes <= LONGEST_KEY:
        return row_bytes(rows).tolist()
    return list(map(row_key, rows))


def row_key(row: np.ndarray) -> bytes:
    """Returns the key of a single row."""
    key = row.tobytes()
    return key if len(key) <= LONGEST_KEY else hashlib.blake2b(key, digest_size=16).digest()


def read_rows(table: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Reads rows of a table that may be in a file, and keeps few of the file's pages in memory.

    Reading a row also loads neighbouring rows, which are not needed and are released again.
    """
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
