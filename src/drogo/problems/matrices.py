"""The matrix that transitions describe, with every state weighed the same, and its eigenvectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drogo.data import Transitions
from drogo.exact import Eigenvectors
from drogo.exact.spectra import smallest, symmetric_rows


def without_unknown(data: Transitions) -> tuple[Transitions, int]:
    """Drops observations that were never left, or only to such observations, with the transitions
    that lead there, and returns their number. They have no row in the matrix."""
    in_memory = replace(data, observations=np.asarray(data.observations))
    fewer = in_memory[data.edges.usable[data.edges.of_transition]]
    lost = len(data.observations) - len(fewer.observations)
    return (fewer, lost) if lost else (data, 0)


def with_rows_of_terminals(data: Transitions, delta: float) -> Transitions:
    """Adds transitions of terminal states to themselves, as many as the average state has, and only
    these are marked as terminated."""
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


def solve(data: Transitions, matrix: str, k: int, lam: float, discount: float) -> Eigenvectors:
    """Returns the exact eigenvectors of the matrix that evenly weighed transitions describe: the
    first k, and all others whose eigenvalues are nearly that of the last of these."""
    rows, asked = symmetric_rows(data.edges, matrix, lam, discount), k
    first = smallest(rows, asked, matrix)
    while asked < rows.n and not any(k - 1 in group for group in first.groups()):
        asked = min(2 * asked, rows.n)
        first = smallest(rows, asked, matrix)
    last = max(max(group) for group in first.groups() if k - 1 in group) + 1
    following = float(np.append(first.eigenvalues, first.next_eigenvalue)[last])
    vectors, eigenvalues, residuals = (
        part[:last] for part in (first.vectors, first.eigenvalues, first.residuals)
    )
    return Eigenvectors(vectors, eigenvalues, residuals, following)
