"""Some entries of the inverse of a matrix, from its factors, without solving for whole columns.

In a sparse elimination, a state only concerns the states after it that its row and column of the
factors lead to. For a handful of states in a large world these are few: 6,000 of 100,000 for a
hundred walls. The factors restricted to them are factors again, and give the same entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse.linalg import splu

BATCH = 16
"""Columns that are solved for at once."""


def inverse_part(
    lu: Any, rows: Int[np.ndarray, " rows"], columns: Int[np.ndarray, " columns"]
) -> Float[np.ndarray, "rows columns"]:
    """Returns some entries of the inverse.

    Args:
        lu: The factors of the matrix, by SuperLU.
        rows: The rows of the entries. They must include `columns`.
        columns: The columns of the entries.
    """
    lower, upper = sp.csc_array(lu.L), sp.csr_array(lu.U)
    used = _concerned(lower, upper, lu.perm_c[rows])
    place = np.cumsum(used) - 1
    chosen = np.flatnonzero(used)
    lower, upper = lower[:, chosen][chosen], upper[chosen][:, chosen]
    # Of U the transpose, which is lower triangular too, and is in the order that SuperLU takes.
    first, second = _triangular(lower), _triangular(sp.csc_array(upper.T))
    into, out_of = place[lu.perm_r[columns]], place[lu.perm_c[rows]]
    entries = np.empty((rows.size, columns.size))
    for k in range(0, columns.size, BATCH):
        right = first.solve(units(chosen.size, into[k : k + BATCH]))
        entries[:, k : k + BATCH] = second.solve(right, "T")[out_of]
    return entries


def _concerned(
    lower: sp.csc_array, upper: sp.csr_array, states: Int[np.ndarray, " some"]
) -> Bool[np.ndarray, " n"]:
    """Returns the states themselves and all that the elimination leads to from them."""
    concerned = np.zeros(lower.shape[0], dtype=bool)
    while states.size:
        concerned[states] = True
        reached = np.concatenate([lower[:, states].indices, upper[states].indices])
        states = np.unique(reached[~concerned[reached]])
    return concerned


def _triangular(matrix: sp.csc_array) -> Any:
    options = {"SymmetricMode": True, "Equil": False}
    return splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)


def units(n: int, places: Int[np.ndarray, " k"]) -> Float[np.ndarray, "n k"]:
    """Returns unit vectors as columns."""
    columns = np.zeros((n, places.size), order="F")
    columns[places, np.arange(places.size)] = 1.0
    return columns
