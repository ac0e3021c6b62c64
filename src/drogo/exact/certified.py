"""Columns of the inverse of an M-matrix, each with a bound on its error that is proved.

The inverse of an M-matrix `M` has no negative entry. If `x` is an approximate column, `d` bounds
the violation of its equation in every row, rounding included, and some `z` satisfies
`M z >= share d`, then `z / share >= inverse(M) d` bounds the error of `x`, entry by entry. How `x`
and `z` were found plays no role: any solver may propose them, and both are checked by multiplying.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.exact.log_solve import SMALLEST
from drogo.exact.scaled import Scaled
from drogo.exact.solution import tolerance_at

ENOUGH = 4.0
"""A column is refined, as long as that helps, while it violates a row by more than so many times
what rounding may be the reason of."""
MAX_REFINEMENTS = 5
LEAST = 1e-22
"""The least violation that a row is taken to have, relative to its diagonal term: the bound itself
is computed with rounding, which must not be seen."""
LEAST_SHARE = 0.5
"""A bound `z` must make up for at least this share of the violations."""


Solver = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
"""`solver(right, near)` solves with a matrix for some right-hand sides, perhaps not accurately. If
`near` is not None, the numbers in it are positive, and the answer should be good relative to them.
"""


class Found(NamedTuple):
    """Columns in logs, and how accurate each is."""

    log_e: Float[np.ndarray, "goals states"]
    """NaN in a column of which an entry is out of range."""
    residual: Float[np.ndarray, " goals"]
    """The largest violation of a row, relative to its diagonal term."""
    error: Float[np.ndarray, " goals"]
    """A bound on the error of a log entry; infinite if entries are out of range or nothing is
    proved."""

    @classmethod
    def none(cls, goals: int, states: int) -> Found:
        """Makes room for columns."""
        return cls(np.empty((goals, states)), *np.full((2, goals), np.inf))

    @property
    def converged(self) -> Bool[np.ndarray, " goals"]:
        """Whether every entry of each column is accurate."""
        lowest = np.min(self.log_e, axis=1, where=np.isfinite(self.log_e), initial=0.0)
        tolerance = tolerance_at(-lowest)
        return (self.residual <= tolerance) & (self.error <= tolerance)


def solve_goals(
    matrix: Scaled,
    solver: Solver,
    goals: Int[np.ndarray, " goals"],
    arrives: Bool[np.ndarray, "states goals"],
) -> Found:
    """Computes `log (inverse(M) e_g)(s)` less its value at `s = g`, for each goal `g`.

    Args:
        matrix: The matrix.
        solver: A solver for it.
        goals: The columns.
        arrives: The states that can reach each goal. The others' logs are minus infinity.
    """
    right = np.zeros(arrives.shape)
    right[goals, np.arange(goals.size)] = 1.0
    residual, error = np.full((2, goals.size), np.inf)
    # What overflows, or is not a number, fails its check.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = np.where(arrives, solver(right, None), 0.0)
        in_range = ((x > SMALLEST) | ~arrives).all(axis=0) & np.isfinite(x).all(axis=0)
        x[:, ~in_range] = np.nan
        if in_range.any():
            part = right[:, in_range], x[:, in_range], arrives[:, in_range]
            x[:, in_range], residual[in_range], error[in_range] = _refine(matrix, solver, *part)
        log_e = np.log(x) + matrix.u[:, None]
        log_e = (log_e - log_e[goals, np.arange(goals.size)]).T
    depth = -np.min(log_e, axis=1, where=np.isfinite(log_e), initial=0.0)
    return Found(log_e, residual, error + 2 * np.finfo(float).eps * (1 + depth))


class _Checked(NamedTuple):
    """What is known of some columns that were proposed."""

    x: np.ndarray
    gap: np.ndarray
    """The violation of every row."""
    residual: np.ndarray
    error: np.ndarray
    settled: np.ndarray
    """Whether refining would not prove much more."""


def _refine(
    matrix: Scaled, solver: Solver, right: np.ndarray, x: np.ndarray, arrives: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corrects positive vectors by their own residuals, and bounds their errors."""
    best = _check(matrix, solver, right, x, arrives)
    for _ in range(MAX_REFINEMENTS):
        if best.settled.all():
            break
        change = np.where(arrives, solver(best.gap, best.x), 0.0)
        # An entry that would lose more than half of itself stays positive, and is not yet accurate.
        trial = best.x + np.maximum(change, -best.x / 2)
        new = _check(matrix, solver, right, trial, arrives)
        better = new.error < best.error / 2
        if not better.any():
            break
        best = _Checked(*(np.where(better, a, b) for a, b in zip(new, best, strict=True)))
    return best.x, best.residual, best.error


def _check(
    matrix: Scaled, solver: Solver, right: np.ndarray, x: np.ndarray, arrives: np.ndarray
) -> _Checked:
    made, noise = matrix.apply_with_noise(x)
    gap = np.where(arrives, right - made, 0.0)
    positive = np.where(arrives, x, 1.0)
    terms = matrix.diagonal[:, None] * positive
    amount = np.where(arrives, np.abs(gap) + noise + LEAST * terms, 0.0)
    bound = np.where(arrives, solver(amount, x), 0.0)
    share = np.where(arrives, matrix.apply(bound) / amount, 1.0).min(axis=0)
    # A relative error d of an entry moves its log by -log(1 - d) at most.
    moved = -np.log1p(-np.minimum(bound / positive / share, 1.0))
    error = moved.max(axis=0) + np.where(right > 0, moved, 0.0).max(axis=0)
    residual = (np.abs(gap) / terms).max(axis=0)
    error = np.where(share >= LEAST_SHARE, error, np.inf)
    settled = np.all(np.abs(gap) <= ENOUGH * noise, axis=0)
    return _Checked(x, gap, residual, error, settled)
