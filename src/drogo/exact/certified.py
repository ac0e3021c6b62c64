"""Columns of the inverse of an M-matrix, each with a proven bound on its error.

The inverse of an M-matrix `M` has no negative entry. Let `x` be an approximate column, and let `d`
bound the violation of its equation in every row, rounding included. If some `z` satisfies
`M z >= share d`, then `z / share >= inverse(M) d` bounds the error of `x`, entry by entry. The
proof does not depend on how `x` and `z` were computed: both are checked by multiplication.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from drogo.exact.log_solve import SMALLEST
from drogo.exact.rows import Rows
from drogo.exact.solution import tolerance_at

ENOUGH = 4.0
"""A column is refined while it violates a row by more than this multiple of the rounding error."""
MAX_REFINEMENTS = 5
LEAST = 1e-22
"""The least assumed violation of a row, relative to its diagonal term. It covers the rounding of
the bound itself."""
LEAST_SHARE = 0.5
"""The least share of the violations that a bound `z` must cover."""

Solver = Callable[[np.ndarray], np.ndarray]
"""Solves with a matrix for some right-hand sides, perhaps not accurately."""


@dataclass(frozen=True)
class Scaled:
    """`diag(exp(-u)) M diag(exp(u))`, for a guess `u` of the logs of a solution.

    It has off-diagonals `-w` and row sums `total`, and is applied as
    `total(s) x(s) - sum_s' w(s, s') (x(s') - x(s))`. Differences of doubles that are close are
    exact, so that little is lost even where costs are tiny and neighbours are nearly equal.
    """

    u: Float[np.ndarray, " n"]
    diagonal: Float[np.ndarray, " n"]
    total: Float[np.ndarray, " n"]
    doubt: Float[np.ndarray, " n"]
    """The largest rounding error of `total`, in units of `rounding`."""
    difference: sp.csr_array
    """Maps `x` to `x(s') - x(s)` for each off-diagonal."""
    weight: sp.csr_array
    """Maps one number per off-diagonal to their weighted sum in each row."""
    rounding: Float[np.ndarray, " n"]
    """The largest relative error of a weight of each row, and of a sum of as many terms."""

    @classmethod
    def of(cls, rows: Rows, u: Float[np.ndarray, " n"]) -> Scaled:
        """Scales a matrix."""
        n, entries = rows.n, rows.row.size
        step = u[rows.column] - u[rows.row]
        weight = rows.scaled_weight(u)
        pairs = np.stack([rows.column, rows.row], axis=1).ravel()
        signs = np.tile([1.0, -1.0], entries)
        difference = sp.csr_array((signs, pairs, np.arange(0, 2 * entries + 1, 2)), (entries, n))
        place = rows.row, np.arange(entries)
        # A weight is the exponential of a sum of rounded logs; the sum of a row is not.
        log_error = np.zeros(n)
        np.maximum.at(log_error, rows.row, np.abs(rows.log_weight) + np.abs(step) / 2)
        sum_error = 4 + np.bincount(rows.row, minlength=n)
        moved = np.bincount(rows.row, np.abs(weight - np.exp(rows.log_weight)), n)
        return cls(
            u=u,
            diagonal=rows.diagonal,
            total=rows.ratio(u) if u.any() else rows.total,
            doubt=moved + rows.total * sum_error / (sum_error + log_error),
            difference=difference,
            weight=sp.csr_array((weight, place), (n, entries)),
            rounding=np.finfo(float).eps * (sum_error + log_error),
        )

    def apply(self, x: Float[np.ndarray, "n vectors"]) -> Float[np.ndarray, "n vectors"]:
        """Multiplies vectors by the matrix."""
        return self.total[:, None] * x - self.weight @ (self.difference @ x)

    def apply_with_noise(
        self, x: Float[np.ndarray, "n vectors"]
    ) -> tuple[Float[np.ndarray, "n vectors"], Float[np.ndarray, "n vectors"]]:
        """Multiplies vectors by the matrix, and bounds the rounding error of each number."""
        step = self.difference @ x
        product = self.total[:, None] * x - self.weight @ step
        terms = self.doubt[:, None] * np.abs(x) + self.weight @ np.abs(step, out=step)
        return product, self.rounding[:, None] * terms


class CertifiedColumns(NamedTuple):
    """Columns in logs, and the accuracy of each."""

    log_e: Float[np.ndarray, "goals states"]
    """NaN in a column with an entry that is out of range."""
    residual: Float[np.ndarray, " goals"]
    """The largest violation of a row, relative to its diagonal term."""
    error: Float[np.ndarray, " goals"]
    """A bound on the error of a log entry; infinite if nothing is proven."""

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
) -> CertifiedColumns:
    """Computes `log (inverse(M) e_g)(s)` less its value at `s = g`, for each goal `g`. It is minus
    infinity outside of the states from which a walk `arrives` at the goal."""
    right = np.zeros(arrives.shape)
    right[goals, np.arange(goals.size)] = 1.0
    residual, error = np.full((2, goals.size), np.inf)
    # A number that overflows, or is NaN, fails its check.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = np.where(arrives, solver(right), 0.0)
        in_range = ((x > SMALLEST) | ~arrives).all(axis=0) & np.isfinite(x).all(axis=0)
        x[:, ~in_range] = np.nan
        if in_range.any():
            part = right[:, in_range], x[:, in_range], arrives[:, in_range]
            x[:, in_range], residual[in_range], error[in_range] = _refine(matrix, solver, *part)
        log_e = np.log(x) + matrix.u[:, None]
        log_e = (log_e - log_e[goals, np.arange(goals.size)]).T
    depth = -np.min(log_e, axis=1, where=np.isfinite(log_e), initial=0.0)
    return CertifiedColumns(log_e, residual, error + 2 * np.finfo(float).eps * (1 + depth))


class _Checked(NamedTuple):
    """Proposed columns with their violations and error bounds."""

    x: np.ndarray
    gap: np.ndarray  # the violation of every row
    residual: np.ndarray
    error: np.ndarray
    settled: np.ndarray  # whether refining would not prove much more


def _refine(
    matrix: Scaled, solver: Solver, right: np.ndarray, x: np.ndarray, arrives: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corrects positive vectors by their residuals, and bounds their errors."""
    best = _check(matrix, solver, right, x, arrives)
    for _ in range(MAX_REFINEMENTS):
        if best.settled.all():
            break
        change = np.where(arrives, solver(best.gap), 0.0)
        # An entry that would lose more than half of its value stays positive and inaccurate.
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
    product, noise = matrix.apply_with_noise(x)
    gap = np.where(arrives, right - product, 0.0)
    positive = np.where(arrives, x, 1.0)
    terms = matrix.diagonal[:, None] * positive
    amount = np.where(arrives, np.abs(gap) + noise + LEAST * terms, 0.0)
    bound = np.where(arrives, solver(amount), 0.0)
    share = np.where(arrives, matrix.apply(bound) / amount, 1.0).min(axis=0)
    # A relative error d of an entry moves its log by at most -log(1 - d).
    moved = -np.log1p(-np.minimum(bound / positive / share, 1.0))
    error = moved.max(axis=0) + np.where(right > 0, moved, 0.0).max(axis=0)
    residual = (np.abs(gap) / terms).max(axis=0)
    error = np.where(share >= LEAST_SHARE, error, np.inf)
    settled = np.all(np.abs(gap) <= ENOUGH * noise, axis=0)
    return _Checked(x, gap, residual, error, settled)
