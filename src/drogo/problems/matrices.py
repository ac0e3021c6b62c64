"""The matrix that transitions describe, with every state weighed the same, and its eigenvectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from drogo.data import Transitions
from drogo.exact import Eigenvectors
from drogo.exact.rows import Rows
from drogo.exact.spectra import smallest


def without_unknown(data: Transitions) -> tuple[Transitions, int]:
    """Drops observations of which nothing is known, because they were never left or only to such
    observations, with the transitions that lead there, and returns their number. They have no row
    in the matrix, so that nothing would hold their entries in place.
    """
    edges = data.edges
    known = data.empirical(1.0).known[edges.of_transition]
    kept = np.unique(np.concatenate([data.state[known], data.next_state[known]]))
    lost = len(data.observations) - kept.size
    if not lost:
        return data, 0
    names = ("reward", "terminated", "truncated", "terminal_reward", "action", "behaviour",
             "default")  # fmt: skip
    columns = {name: getattr(data, name) for name in names}
    columns = {name: part[known] for name, part in columns.items() if part is not None}
    ends = (np.searchsorted(kept, part[known]) for part in (data.state, data.next_state))
    fewer = Transitions.from_table(
        data.observations[kept], *ends, **columns, n_actions=data.n_actions
    )
    return replace(fewer, weight=data.weight[known]), lost


def with_rows_of_terminals(data: Transitions, delta: float) -> Transitions:
    """Adds the rows of terminal states, each a transition to itself, and marks only these as
    terminated. They are as many as the average state has.
    """
    flags = np.zeros(len(data), dtype=bool)
    if data.terminated.any():
        longer = data.with_absorbing_terminals(delta)
        flags = np.arange(len(longer)) >= len(data)
        data = longer
    return replace(data, terminated=flags, terminal_reward=np.zeros(len(data)))


def evenly(data: Transitions) -> Transitions:
    """Weighs transitions so that every state that was left counts the same."""
    total = np.bincount(data.state, data.weight, len(data.observations))
    return replace(
        data, weight=data.weight * (len(data) / np.count_nonzero(total)) / total[data.state]
    )


def rows_of(data: Transitions, matrix: str, lam: float, discount: float) -> Rows:
    """Returns the symmetric matrix that weighed transitions describe, over all left states."""
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
    leaving = np.zeros(own.size) + np.bincount(row, both.data[off], own.size)
    if matrix == "laplacian":
        diagonal = leaving
    elif matrix == "successor":
        diagonal = 1 - own
    else:
        cost = np.bincount(edges.state, share * np.exp(-edges.reward / lam), n)[left]
        diagonal = cost - own
    zero = np.zeros(own.size)
    return Rows(row, column, np.log(both.data[off]), diagonal, diagonal - leaving, zero)


def solve(data: Transitions, matrix: str, k: int, lam: float, discount: float) -> Eigenvectors:
    """Returns the exact eigenvectors of what transitions describe, over all observations: as many
    as asked for, and all others whose eigenvalues are nearly that of the last one.

    Args:
        data: The transitions, weighed `evenly`, of observations that were all left.
        matrix: Which matrix.
        k: How many vectors.
        lam: The temperature, for "default".
        discount: The discount, for "successor".
    """
    rows = rows_of(data, matrix, lam, discount)
    found, asked = smallest(rows, k, matrix), k
    while asked < rows.n and not any(k - 1 in group for group in found.groups()):
        asked = min(2 * asked, rows.n)
        found = smallest(rows, asked, matrix)
    last = max(max(group) for group in found.groups() if k - 1 in group) + 1
    following = np.append(found.eigenvalues, found.next_eigenvalue)[last]
    return Eigenvectors(
        found.vectors[:last], found.eigenvalues[:last], found.residuals[:last], float(following)
    )
