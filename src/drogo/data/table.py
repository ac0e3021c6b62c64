"""`TableBuilder`: observations as they come, into a table of distinct ones, in memory or in a file;
`read_rows` of either.

Whether observations repeat shows after a few thousand: then merging goes on, or it stops and every
observation becomes a row of its own.
"""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from drogo.errors import DataError

LOOKED_AT = 20_000
"""Observations after which it is decided whether they repeat."""
REPEATING = 0.5
"""They do if fewer than this share are distinct."""
ROWS_AT_ONCE = 500
"""Read from a file before its pages are given back."""


class TableBuilder:
    """Call `add` with observations; it gives the row of each."""

    def __init__(self, merge: bool | None = None, file: Path | None = None) -> None:
        self.merge = merge
        """None: as long as it pays."""
        self.path = file
        self.shape: tuple[int, ...] | None = None
        self.dtype: np.dtype | None = None
        self._rows: list[np.ndarray] = []
        self._file: BinaryIO | None = None
        self._index: dict[bytes, int] = {}
        self._count = 0
        self._seen = 0

    def __len__(self) -> int:
        return self._count

    def add(self, observation: Any) -> int:
        row = np.asarray(observation)
        self._check(row)
        self._seen += 1
        if self.merge is False:
            return self._append(row)
        key = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
        known = self._index.get(key)
        if known is None:
            known = self._index[key] = self._append(row)
        if self.merge is None and self._seen == LOOKED_AT:
            self.merge = self._count < REPEATING * self._seen
            if not self.merge:
                self._index.clear()
        return known

    def finish(self) -> np.ndarray:
        """The table: an array, or a memory map of the file."""
        if self._count == 0 or self.shape is None or self.dtype is None:
            raise DataError("there are no transitions.")
        if self._file is None:
            return np.stack(self._rows)
        self._file.close()
        assert self.path is not None
        return np.memmap(self.path, self.dtype, mode="r", shape=(self._count, *self.shape))

    def _append(self, row: np.ndarray) -> int:
        if self.path is None:
            self._rows.append(row.copy())
        else:
            if self._file is None:
                self._file = self.path.open("xb")
            self._file.write(np.ascontiguousarray(row).data)
        self._count += 1
        return self._count - 1

    def _check(self, row: np.ndarray) -> None:
        if self.shape is None:
            if row.dtype.kind not in "biuf":
                raise DataError(
                    f"the observation is of type {row.dtype}, not numbers. Choose a part of it "
                    "with key, or transform it with gymnasium.wrappers.TransformObservation."
                )
            self.shape, self.dtype = row.shape, row.dtype
        if row.shape != self.shape or row.dtype != self.dtype:
            raise DataError(
                f"observations change: number {self._seen} has shape {row.shape} and type "
                f"{row.dtype}, those before {self.shape} and {self.dtype}."
            )


def read_rows(table: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Rows of a table that may lie in a file. Few of the file's pages are in memory at any time: a
    row that is touched brings its neighbours along, which are not wanted."""
    rows = which.ravel()
    owner = getattr(table, "_mmap", None)  # a copy of a memory map has none
    if owner is None or not hasattr(mmap, "MADV_DONTNEED"):
        return np.asarray(table[rows]).reshape(*which.shape, *table.shape[1:])
    owner.madvise(mmap.MADV_RANDOM)
    taken = np.empty((rows.size, *table.shape[1:]), dtype=table.dtype)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        taken[part] = table[rows[part]]
        owner.madvise(mmap.MADV_DONTNEED)
    return taken.reshape(*which.shape, *table.shape[1:])
