"""Positive solutions of linear systems and eigenproblems, of any magnitude, in the log domain.

**Systems.** Given a Z-matrix `M` and some entries, `log_solve` computes the others from
`(M e)(s) = 0`. Elimination on the diagonal of an M-matrix only adds positive terms (Alfa, Xue and
Ye, 2002), so that *every* entry in the range of a double has nearly full relative precision. With a
guess `u` of `log e`, it is solved for `y` in `e = exp(u) y`. Where `y` underflows, the guess is
continued from the solved entries along shortest paths, and the system is solved again.

**Eigenvectors.** `positive_eigenvector` finds the smallest `s` for which `M e = s J e` has a
positive `e`, where `(J e)(i)` is `e(i)`, or `e(i) + e(partner(i))` for the symmetrised inverse.
Noda's iteration locates `s` and the largest entry of `e`; with these fixed, `log_solve` gives the
other entries; and Newton's method on `(log e, s)` polishes both.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from drogo.errors import NotConverged
from drogo.exact.rows import Mask, Rows, Values

SMALLEST = 1e-280  # An entry of y below this may have lost terms to underflow.
MIN_STEP_COST = 1e-3  # So that a longer path never costs less in a guess.
CAUTION = 0.97  # A factor on the rate of a guess, which overflows if it is too low.
MAX_PASSES, MAX_REFINEMENTS, MAX_LOCATING_STEPS, MAX_NEWTON_STEPS = 60, 10, 100, 25
MARGIN = 1e-7  # The relative distance of the shift of an inverse iteration below the eigenvalue.
SMALL_CORRECTION = 1e-13  # Newton's method stops after a relative correction below this.
TOLERANCE = 1e-9
"""The largest residual, and estimated error of a log entry, of a converged solution."""


def tolerance_at(largest: Any) -> Any:
    """Returns the tolerance for logs of a given size: 1e-8 for a log of 1e8."""
    return TOLERANCE + 8 * np.finfo(float).eps * largest


Same = TypeVar("Same", bound="InLogs")


class InLogs:
    """A result in logs whose accuracy is estimated."""

    log_e: np.ndarray
    lam: float
    residual: Any
    error: Any
    definition: str
    causes: ClassVar[str] = ""
    remedies: ClassVar[dict[str, str]]

    @property
    def tolerance(self) -> Any:
        """The largest residual and error of a converged solution."""
        finite = self.log_e[np.isfinite(self.log_e)]
        return tolerance_at(float(np.abs(finite).max(initial=0.0)))

    @property
    def converged(self) -> Any:
        """Whether every entry is accurate; of several vectors, for each."""
        return (self.residual <= self.tolerance) & (self.error <= self.tolerance)

    @property
    def status(self) -> Literal["converged", "inaccurate"]:
        """Whether every entry is accurate."""
        return "converged" if np.all(self.converged) else "inaccurate"

    def checked(self: Same) -> Same:
        """Returns this solution, or raises `NotConverged` if some entry is not accurate."""
        if self.status != "converged":
            problem = f"the {self.definition} vector at lam = {self.lam:g} is not accurate: "
            problem += f"residual {self.residual:.1e}, error {self.error:.1e} of "
            raise NotConverged(f"{problem}{self.tolerance:.1g}.{self.causes}", **self.remedies)
        return self


class Vector(NamedTuple):
    """The result of a solver; `definitions.LogVector` documents the fields."""

    log_e: Values
    eigenvalue: Any
    bracket: Any
    residual: float
    error: float


class NoPositiveSolution(NotConverged):
    """The matrix over the unknown entries is not an M-matrix, or the scaling did not succeed."""


@dataclass(frozen=True)
class Factor:
    """LU factors of the unknown block of `diag(exp(-u)) M diag(exp(u))`."""

    lu: Any
    u: Float[np.ndarray, " unknown"]
    unknown: Int[np.ndarray, " unknown"]
    inflow: np.ndarray
    """The contribution of the fixed entries, which are `exp(u)`, to each scaled row."""

    def relative(self, v: Values, right: np.ndarray) -> np.ndarray:
        """Solves with the matrix scaled by `exp(v)` instead of `exp(u)`."""
        factor = np.exp(v[self.unknown] - self.u)
        return self.lu.solve(factor * right) / factor

    def rounding_error(self, rows: Rows, v: Values) -> float:
        """Estimates the largest relative change of an entry by rounding in each row."""
        terms = np.abs(rows.diagonal) + np.bincount(rows.row, rows.scaled_weight(v), rows.n)
        amount = np.finfo(float).eps * terms[self.unknown]
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.abs(self.relative(v, amount)).max(initial=0.0)
        return float(moved) if np.isfinite(moved) else np.inf


def factorise(rows: Rows, u: Values | None = None, fixed: Mask | None = None) -> Factor:
    """Factorises a matrix scaled by `exp(u)`, without the `fixed` entries, on its diagonal."""
    u = np.zeros(rows.n) if u is None else u
    fixed = np.zeros(rows.n, dtype=bool) if fixed is None else fixed
    weight, unknown, states = rows.scaled_weight(u), np.flatnonzero(~fixed), np.arange(rows.n)
    places = np.concatenate([rows.row, states]), np.concatenate([rows.column, states])
    entries = np.concatenate([-weight, rows.diagonal])
    matrix = sp.csc_array((entries, places), shape=(rows.n, rows.n))
    if fixed.any():
        matrix = matrix[:, unknown][unknown]
    enters = fixed[rows.column]
    inflow = np.bincount(rows.row[enters], weight[enters], rows.n)[unknown]
    symmetric = {"SymmetricMode": True, "Equil": False}
    try:
        lu = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)
    except RuntimeError as error:  # SuperLU: "Factor is exactly singular"
        raise NoPositiveSolution("the equations are singular up to rounding.") from error
    return Factor(lu, u[unknown], unknown, inflow)


def log_solve(rows: Rows, fixed: Mask, values: Values) -> tuple[Values, Factor]:
    """Returns `log e`, which is `values` where `fixed`, and the factors of the last pass."""
    u = np.where(fixed, values, values[fixed].max())
    v, solved = u, fixed
    # The guess must decrease at a rate between these: slower underflows, faster overflows. At rate
    # 1 it follows the best path alone, which is never above the solution.
    slow, fast, rate = 0.0, 1.0, 1.0
    for _ in range(MAX_PASSES):
        factor = factorise(rows, u, fixed)
        y = factor.lu.solve(factor.inflow)
        if not np.isfinite(y).all():
            fast, rate = rate, (slow + rate) / 2
            u = _continue_guess(rows, solved, v, rate)
            continue
        if y.min(initial=0.0) < -SMALLEST:
            raise NoPositiveSolution("elimination gave a negative entry: this is not an M-matrix.")
        in_range = y > SMALLEST
        v = u.copy()
        v[factor.unknown[in_range]] += np.log(y[in_range])
        if in_range.all():
            return v, factor
        now_solved = fixed.copy()
        now_solved[factor.unknown[in_range]] = True
        if now_solved.sum() > solved.sum() or solved is fixed:
            slow, fast = 0.0, 1.0
            rate = CAUTION * _rate(rows, now_solved, now_solved & ~fixed, v)
        elif fast - rate > 1e-6:
            slow, rate = rate, fast if fast == 1.0 else (rate + fast) / 2
        else:
            lost = np.flatnonzero(~now_solved)
            problem = f"{lost.size} entries remain out of range, the first in state {lost[0]}."
            raise NoPositiveSolution(problem)
        solved = now_solved
        u = _continue_guess(rows, solved, v, rate)
    raise NoPositiveSolution(f"the scaling did not converge in {MAX_PASSES} passes.")


def refined_solve(rows: Rows, fixed: np.ndarray, values: np.ndarray) -> Vector:
    """Solves `(M e)(s) = 0` for the entries that are not fixed, and refines the solution."""
    v, factor = log_solve(rows, fixed, values)
    correction = np.inf
    for _ in range(MAX_REFINEMENTS):
        change = factor.relative(v, -rows.ratio(v)[factor.unknown])
        size = float(np.abs(change).max(initial=0.0))
        if not size < 0.5 * correction:
            break
        v = v.copy()
        v[factor.unknown] += np.log1p(np.maximum(change, -0.5))
        correction = size
    residual = float(np.abs(rows.ratio(v)[factor.unknown]).max(initial=0.0))
    return Vector(v, None, None, residual, max(correction, factor.rounding_error(rows, v)))


def _cost(rows: Rows) -> np.ndarray:
    """Returns the cost `log(diagonal / w)` of each step, as if it were the only one of its row."""
    diagonal = np.maximum(rows.diagonal, np.finfo(float).tiny)
    return np.maximum(np.log(diagonal)[rows.row] - rows.log_weight, MIN_STEP_COST)


def _rate(rows: Rows, solved: np.ndarray, free: np.ndarray, v: np.ndarray) -> float:
    """Estimates the decrease of `log e` per unit of cost, from the lower half of its entries."""
    if not free.any():
        return 1.0
    usable = (free & (v <= np.median(v[free])))[rows.row] & solved[rows.column]
    row = rows.row[usable]
    rise = v[rows.column[usable]] - v[row]
    steepest = np.full(rows.n, -np.inf)
    np.maximum.at(steepest, row, rise)
    along = (rise == steepest[row]) & (rise > 0)
    if not along.any():
        return 1.0
    return float(min(1.0, np.median(rise[along] / _cost(rows)[usable][along])))


def _continue_guess(rows: Rows, solved: np.ndarray, v: np.ndarray, rate: float) -> np.ndarray:
    """Keeps `v` where it is solved; elsewhere it decreases at `rate` along the cheapest path."""
    hub = rows.n
    unsolved = ~solved[rows.row]
    row, column = rows.row[unsolved], rows.column[unsolved]
    border = np.unique(column[solved[column]])
    top = v[border].max()
    cost = np.concatenate([rate * _cost(rows)[unsolved], top - v[border] + 1.0])
    edges = np.concatenate([column, np.full(border.size, hub)]), np.concatenate([row, border])
    graph = sp.csr_array((cost, edges), shape=(hub + 1, hub + 1))
    distance = csgraph.dijkstra(graph, directed=True, indices=hub)[:hub]
    return np.where(solved, v, top + 1.0 - distance)


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
        scale, states = shifted.log_scale, np.arange(shifted.n)
        more = {"row": states, "column": self.partner, "log_weight": np.log(s) + scale}
        joined = {name: np.append(getattr(shifted, name), part) for name, part in more.items()}
        return replace(shifted, **joined, total=shifted.total - s * np.exp(scale))

    def couple(self, x: Values) -> Values:
        """Returns `J x`."""
        return x if self.partner is None else x + x[self.partner]

    def weight(self, v: Values) -> Values:
        """Returns `(J exp(v)) / exp(v)`, scaled like the rows."""
        scale = np.exp(self.rows.log_scale)
        if self.partner is None:
            return scale
        return scale + np.exp(self.rows.log_scale + v[self.partner] - v)

    def bracket(self, v: Values) -> tuple[float, float]:
        """Returns the Collatz-Wielandt bounds of the eigenvalue, valid for any positive vector."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotients = self.rows.ratio(v) / self.weight(v)
        quotients = quotients[~np.isnan(quotients)]
        return float(quotients.min()), float(quotients.max())


def positive_eigenvector(pencil: Pencil, near: tuple[float, Values] | None = None) -> Vector:
    """Computes the positive eigenvector, from approximations `near` of its value and its log."""
    s, x = _locate(pencil) if near is None else near
    anchor = int(np.argmax(x))
    fixed = np.arange(pencil.rows.n) == anchor
    # A step fails where eigenvalues agree to all digits, because terminal states hardly interact.
    # The infinite error then marks the vector as inaccurate. The bracket is valid for any vector.
    v = np.log(np.maximum(x, np.finfo(float).tiny)) if near is None else x
    correction = error = np.inf
    with suppress(NoPositiveSolution):
        v, factor = log_solve(pencil.minus(s), fixed, np.zeros(pencil.rows.n))
        for step in range(MAX_NEWTON_STEPS):
            if step in (1, 2):  # Later steps change too little to need new factors.
                factor = factorise(pencil.minus(s), v, fixed)
            with np.errstate(over="ignore", invalid="ignore"):  # A failed step is detected below.
                # A relative change of e and a change of s, with e(anchor) fixed.
                rows = pencil.minus(s)
                residual, weight = rows.ratio(v), pencil.weight(v)
                plain = factor.relative(v, -residual[factor.unknown])
                slope = factor.relative(v, weight[factor.unknown])
                at_anchor = rows.row == anchor
                flow, column = rows.scaled_weight(v)[at_anchor], rows.column[at_anchor]
                spread = np.zeros((2, rows.n))
                spread[:, factor.unknown] = plain, slope
                enters_plain, enters_slope = spread[:, column] @ flow
                ds = (residual[anchor] - enters_plain) / (weight[anchor] + enters_slope)
                change = plain + ds * slope
            size = float(np.abs(change).max(initial=0.0))
            if not np.isfinite(size) or (size >= correction and correction < 1e-6):
                break
            correction = size
            # A relative change below -1 has no logarithm, so the step is limited.
            v[factor.unknown] += np.log1p(np.maximum(change, -0.5))
            s += float(ds)
            if correction <= SMALL_CORRECTION:
                break
        rows = pencil.minus(s)
        error = max(correction, factorise(rows, v, fixed).rounding_error(rows, v))
    residual = float(np.abs(pencil.minus(s).ratio(v)).max())
    return Vector(v, s, pencil.bracket(v), residual if np.isfinite(residual) else np.inf, error)


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
