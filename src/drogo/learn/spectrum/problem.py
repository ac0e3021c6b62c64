"""What transitions say of a matrix: each state counts the same, and its exact eigenvectors
follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from drogo.data import Transitions
from drogo.exact import Spectrum
from drogo.exact.rows import Rows
from drogo.exact.spectra import smallest


def with_rows_of_terminals(data: Transitions, delta: float) -> Transitions:
    """Adds the rows of terminal states, each a transition to itself, and marks only these as
    terminated. They are as many as the average state has.

    Args:
        data: The transitions.
        delta: Minus the reward of these transitions.
    """
    flags = np.zeros(len(data), dtype=bool)
    if data.terminated.any():
        longer = data.with_absorbing_terminals(delta)
        flags = np.arange(len(longer)) >= len(data)
        data = longer
    return replace(data, terminated=flags, terminal_value=np.zeros(len(data)))


def evenly(data: Transitions) -> Transitions:
    """Weighs transitions so that every state that was left counts the same.

    Args:
        data: The transitions, of states that repeat.
    """
    total = np.bincount(data.state, data.weight, len(data.observations))
    return replace(
        data, weight=data.weight * (len(data) / np.count_nonzero(total)) / total[data.state]
    )


def rows_of(data: Transitions, matrix: str, lam: float, discount: float) -> Rows:
    """Returns the symmetric matrix that weighed transitions describe, of all states that were left.

    Args:
        data: The transitions, weighed `evenly`.
        matrix: Which matrix.
        lam: The temperature, for "default".
        discount: The discount, for "successor".
    """
    n, edges = len(data.observations), data.edges
    left = np.bincount(edges.state, minlength=n) > 0
    share = edges.weight / np.bincount(edges.state, edges.weight, n)[edges.state]
    factor = discount * ~edges.terminated if matrix == "successor" else np.ones(share.size)
    flow = sp.coo_array((share * factor / 2, (edges.state, edges.next_state)), shape=(n, n))
    both = sp.csr_array(flow + flow.T)[left][:, left].tocoo()
    own = np.zeros(int(left.sum()))
    same = both.row == both.col
    np.add.at(own, both.row[same], both.data[same])
    off = ~same & (both.data > 0)
    row, column = both.row[off].astype(np.int64), both.col[off].astype(np.int64)
    leaving = np.bincount(row, both.data[off], own.size)
    if matrix == "laplacian":
        diagonal = leaving
    elif matrix == "successor":
        diagonal = 1 - own
    else:
        cost = np.bincount(edges.state, share * np.exp(-edges.reward / lam), n)[left]
        diagonal = cost - own
    zero = np.zeros(own.size)
    return Rows(row, column, np.log(both.data[off]), diagonal, diagonal - leaving, zero)


def solve(data: Transitions, matrix: str, k: int, lam: float, discount: float) -> Spectrum:
    """Returns the exact eigenvectors of what transitions describe, over all observations.

    Args:
        data: The transitions, weighed `evenly`. Observations that were never left have entries 0.
        matrix: Which matrix.
        k: How many vectors.
        lam: The temperature, for "default".
        discount: The discount, for "successor".
    """
    found = smallest(rows_of(data, matrix, lam, discount), k, matrix)
    vectors: Float[np.ndarray, "vectors distinct"] = np.zeros((k, len(data.observations)))
    vectors[:, np.unique(data.state)] = found.vectors
    return replace(found, vectors=vectors)
