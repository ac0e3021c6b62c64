"""A Z-matrix that is scaled by a guess of the solution, applied to several vectors at once.

For a guess `u` of the logs, `diag(exp(-u)) M diag(exp(u))` has off-diagonals `-w` and the row sums
`total`, and is applied as `total(s) x(s) - sum_s' w(s, s') (x(s') - x(s))`. Differences of doubles
that are close are exact, so that little is lost even where costs are tiny and neighbours are nearly
equal. Every sum comes with a bound on what rounding, of its terms and of the matrix itself, may
have done to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from drogo.exact.rows import Rows


@dataclass(frozen=True)
class Scaled:
    """`diag(exp(-u)) M diag(exp(u))`. Make one with `of`."""

    u: Float[np.ndarray, " n"]
    diagonal: Float[np.ndarray, " n"]
    total: Float[np.ndarray, " n"]
    doubt: Float[np.ndarray, " n"]
    """By how much rounding may have moved `total`, in units of `rounding`."""
    difference: sp.csr_array
    """Takes `x` to `x(s') - x(s)` for each off-diagonal."""
    weight: sp.csr_array
    """Takes numbers for the off-diagonals to their weighted sum in each row."""
    rounding: Float[np.ndarray, " n"]
    """How far off, relatively, each weight of a row, and each sum of so many terms, may be."""

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
        # A weight is the exponential of a sum of logs, which are rounded; the sum of a row is not.
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
