"""The positive eigenvector of a sparse Z-matrix pencil, in logs and accurate in every entry.

The solver finds the smallest `s` for which `M e = s J e` has a positive `e`. `J` is the identity;
for the symmetrised inverse it couples each entry with a partner, `(J e)(i) = e(i) + e(partner(i))`.

There are three steps. *Locate*: Noda's iteration (inverse iteration shifted to a Collatz-Wielandt
lower bound) finds `s` and the largest entry of `e` in ordinary numbers, from any positive vector.
*Solve*: with the largest entry fixed at 1 and `s` given, `log_solve` gives the others, at any
range. *Polish*: Newton's method on `(log e, s)`, with residuals of `Rows.ratio`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from drogo.exact.log_solve import Factor, NoPositiveSolution, factorise, log_solve
from drogo.exact.rows import Rows
from drogo.exact.solution import Vector

MAX_LOCATING_STEPS = 100
MAX_NEWTON_STEPS = 25
MARGIN = 1e-7
"""The relative distance of the shift of an inverse iteration below the eigenvalue."""
SMALL_CORRECTION = 1e-13
"""Newton's method stops after a relative correction of every entry below this."""


@dataclass(frozen=True)
class Pencil:
    """The matrices `M` (as `rows`) and `J` (the identity if there is no `partner`)."""

    rows: Rows
    partner: Int[np.ndarray, " n"] | None = None

    def minus(self, s: float) -> Rows:
        """Returns `M - s J`."""
        shifted = self.rows.minus(s)
        if self.partner is None or s == 0:
            return shifted
        log_scale = shifted.log_scale
        return replace(
            shifted,
            row=np.concatenate([shifted.row, np.arange(shifted.n)]),
            column=np.concatenate([shifted.column, self.partner]),
            log_weight=np.concatenate([shifted.log_weight, np.log(s) + log_scale]),
            total=shifted.total - s * np.exp(log_scale),
        )

    def couple(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Returns `J x`."""
        return x if self.partner is None else x + x[self.partner]

    def weight(self, v: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Returns `(J exp(v)) / exp(v)`, scaled like the rows."""
        scale = np.exp(self.rows.log_scale)
        if self.partner is None:
            return scale
        return scale + np.exp(self.rows.log_scale + v[self.partner] - v)

    def bracket(self, v: Float[np.ndarray, " n"]) -> tuple[float, float]:
        """Returns the Collatz-Wielandt bounds of the eigenvalue, valid for any positive vector."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotients = self.rows.ratio(v) / self.weight(v)
        quotients = quotients[~np.isnan(quotients)]
        return float(quotients.min()), float(quotients.max())


def perron(pencil: Pencil, near: tuple[float, Float[np.ndarray, " n"]] | None = None) -> Vector:
    """Computes the positive eigenvector.

    Its residual is the largest `|(M e)(s) - eigenvalue (J e)(s)| / (R(s) e(s))`. Its error is the
    last Newton step, or rounding as the problem amplifies it, whichever is larger.

    Args:
        pencil: The matrices.
        near: Approximations of the eigenvalue and of the vector in logs, if there are any.
    """
    s, x = _locate(pencil) if near is None else near
    anchor = int(np.argmax(x))
    fixed = np.zeros(pencil.rows.n, dtype=bool)
    fixed[anchor] = True
    correction = np.inf
    try:
        v, factor = log_solve(pencil.minus(s), fixed, np.zeros(pencil.rows.n))
    except NoPositiveSolution:
        # Eigenvalues agree to all digits, because terminal states hardly interact. The bracket is
        # valid for any positive vector; the infinite error marks this vector as inaccurate.
        v = np.log(np.maximum(x, np.finfo(float).tiny)) if near is None else x
        return _assess(pencil, v, s, np.inf)
    for step in range(MAX_NEWTON_STEPS):
        if step in (1, 2):  # Later steps change too little to need new factors.
            try:
                factor = factorise(pencil.minus(s), v, fixed)
            except NoPositiveSolution:
                return _assess(pencil, v, s, np.inf)
        with np.errstate(over="ignore", invalid="ignore"):  # A failed step is detected below.
            change, ds = _newton(pencil, factor, v, s, anchor)
        size = float(np.abs(change).max(initial=0.0))
        if not np.isfinite(size) or (size >= correction and correction < 1e-6):
            break
        correction = size
        # A relative change below -1 has no logarithm, so the step is limited.
        v[factor.unknown] += np.log1p(np.maximum(change, -0.5))
        s += ds
        if correction <= SMALL_CORRECTION:
            break
    rows = pencil.minus(s)
    try:
        rounding = factorise(rows, v, fixed).rounding_error(rows, v)
    except NoPositiveSolution:
        rounding = np.inf
    return _assess(pencil, v, s, max(correction, rounding))


def _assess(pencil: Pencil, v: np.ndarray, s: float, error: float) -> Vector:
    left = pencil.minus(s).ratio(v)
    residual = float(np.abs(left).max())
    return Vector(v, s, pencil.bracket(v), residual if np.isfinite(residual) else np.inf, error)


def _newton(
    pencil: Pencil, factor: Factor, v: np.ndarray, s: float, anchor: int
) -> tuple[np.ndarray, float]:
    """Solves for a relative change of `e` and a change of `s`, with `e(anchor)` fixed."""
    rows = pencil.minus(s)
    residual, weight = rows.ratio(v), pencil.weight(v)
    plain = factor.relative(v, -residual[factor.unknown])
    slope = factor.relative(v, weight[factor.unknown])
    at_anchor = rows.row == anchor
    flow = rows.scaled_weight(v)[at_anchor]
    column = rows.column[at_anchor]
    spread = np.zeros((2, rows.n))
    spread[:, factor.unknown] = plain, slope
    enters_plain, enters_slope = spread[:, column] @ flow
    ds = (residual[anchor] - enters_plain) / (weight[anchor] + enters_slope)
    return plain + ds * slope, float(ds)


def _locate(pencil: Pencil) -> tuple[float, np.ndarray]:
    """Approximates the eigenvalue (from below) and its vector by Noda's iteration."""
    scale, x = np.exp(pencil.rows.log_scale), np.ones(pencil.rows.n)
    lower, _ = pencil.bracket(np.zeros(x.size))
    for _ in range(MAX_LOCATING_STEPS):
        # The shift must differ from the eigenvalue, where the matrix is singular.
        s = lower - MARGIN * abs(lower)
        if pencil.partner is not None:
            s = max(s, 0.0)  # M has an inverse, so 0 is a lower bound too.
        try:
            factor = factorise(pencil.minus(s))
        except NoPositiveSolution:
            break
        source = pencil.couple(x)
        y = factor.lu.solve(scale * source)
        if not np.isfinite(y).all() or y.min() < 0:
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            growth = source / pencil.couple(y)
        growth = growth[np.isfinite(growth)]
        y /= y.max()
        settled = float(np.abs(y - x).max()) < 1e-9
        x, lower = y, s + float(growth.min())
        if settled:
            break
    return lower, x
