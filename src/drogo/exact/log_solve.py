"""Linear systems with positive answers of any magnitude, solved in the log domain.

Given a Z-matrix `M` (see `rows`) and the values of some entries, find the others from
`(M e)(s) = 0`. If the part of `M` over the unknown entries is an M-matrix, elimination on its
diagonal only ever adds positive terms (Alfa, Xue and Ye, 2002), so that double precision gives
*every* entry of `e` to nearly full relative precision, as long as it is a double at all.

Entries below 1e-308 are brought into range by scaling. With a guess `u` of `log e`, solve for `y`
in `e = exp(u) y`: the scaled matrix is an M-matrix again. The first guess is flat. Where `y`
underflows, the guess is continued from the entries already found, along shortest paths, and the
scaled system is solved anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from drogo.errors import NotConverged
from drogo.exact.rows import Rows

SMALLEST = 1e-280
"""An entry of `y` below this may have lost terms to underflow."""
SHORTEST_STEP = 1e-3
"""Least cost of a step in the guess, so that a path never gains by length."""
CAUTION = 0.97
"""A guess slightly too high underflows and is mended; one too low overflows and is lost."""
MOST_PASSES = 60


class NoPositiveSolution(NotConverged):
    """The matrix over the unknown entries is not an M-matrix, or the scaling did not succeed."""


@dataclass(frozen=True)
class Factor:
    """LU factors of the unknown block of `diag(exp(-u)) M diag(exp(u))`."""

    lu: Any
    u: Float[np.ndarray, " unknown"]
    unknown: Int[np.ndarray, " unknown"]

    def relative(
        self, v: Float[np.ndarray, " n"], right: Float[np.ndarray, " unknown"]
    ) -> Float[np.ndarray, " unknown"]:
        """Solve with the matrix scaled by `exp(v)` instead of `exp(u)`."""
        gap = np.exp(v[self.unknown] - self.u)
        return self.lu.solve(gap * right) / gap

    def rounding_error(self, rows: Rows, v: Float[np.ndarray, " n"]) -> float:
        """How far rounding in each row may have moved an entry, relatively.

        Large where two solutions are nearly as good: then a small residual proves nothing.
        """
        amount = np.finfo(float).eps * rows.magnitude(v)[self.unknown]
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.abs(self.relative(v, amount)).max(initial=0.0)
        return float(moved) if np.isfinite(moved) else np.inf


def factorise(rows: Rows, fixed: Bool[np.ndarray, " n"], u: Float[np.ndarray, " n"]) -> Factor:
    """Eliminate on the diagonal, in an order that keeps the factors sparse."""
    unknown = np.flatnonzero(~fixed)
    local = np.cumsum(~fixed) - 1
    inside = ~fixed[rows.row] & ~fixed[rows.column]
    row, column = local[rows.row[inside]], local[rows.column[inside]]
    weight = rows.scaled_weight(u)[inside]
    here = np.arange(unknown.size)
    matrix = sp.csc_array(
        (
            np.concatenate([-weight, rows.diagonal[unknown]]),
            (np.concatenate([row, here]), np.concatenate([column, here])),
        ),
        shape=(unknown.size, unknown.size),
    )
    try:
        lu = splu(
            matrix,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True, "Equil": False},
        )
    except RuntimeError as error:  # SuperLU: "Factor is exactly singular"
        raise NoPositiveSolution(str(error)) from error
    return Factor(lu, u[unknown], unknown)


def log_solve(
    rows: Rows, fixed: Bool[np.ndarray, " n"], values: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Factor]:
    """`log e` with `log e = values` where `fixed`, and the factors of the last pass."""
    u = np.where(fixed, values, values[fixed].max())
    v, known = u, fixed
    # Rates between which the guess must fall off: slower underflows, faster overflows. At rate 1 it
    # follows the best path alone, which is never above the answer.
    slow, fast, rate = 0.0, 1.0, 1.0
    for _ in range(MOST_PASSES):
        factor = factorise(rows, fixed, u)
        with np.errstate(over="ignore"):
            y = factor.lu.solve(_inflow(rows, fixed, values, u)[factor.unknown])
        if not np.isfinite(y).all():
            fast, rate = rate, (slow + rate) / 2
            u = _continue_guess(rows, known, v, rate)
            continue
        if y.min(initial=0.0) < -SMALLEST:
            raise NoPositiveSolution("elimination met a negative entry: not an M-matrix.")
        found = y > SMALLEST
        v = u.copy()
        v[factor.unknown[found]] += np.log(y[found])
        if found.all():
            return v, factor
        now_known = fixed.copy()
        now_known[factor.unknown[found]] = True
        if now_known.sum() > known.sum() or known is fixed:
            slow, fast = 0.0, 1.0
            rate = CAUTION * _rate(rows, now_known & ~fixed, now_known, v)
        elif fast - rate > 1e-6:
            slow, rate = rate, fast if fast == 1.0 else (rate + fast) / 2
        else:
            lost = np.flatnonzero(~now_known)
            raise NoPositiveSolution(
                f"{lost.size} entries stayed out of the range of double precision, the first of "
                f"them state {lost[0]}."
            )
        known = now_known
        u = _continue_guess(rows, known, v, rate)
    raise NoPositiveSolution(f"the scaling did not settle in {MOST_PASSES} passes.")


def _inflow(rows: Rows, fixed: np.ndarray, values: np.ndarray, u: np.ndarray) -> np.ndarray:
    """What the fixed entries contribute to each scaled row."""
    enters = fixed[rows.column] & ~fixed[rows.row]
    row, column = rows.row[enters], rows.column[enters]
    amount = np.exp(rows.log_weight[enters] + values[column] - u[row])
    return np.bincount(row, amount, rows.n)


def _cost(rows: Rows) -> np.ndarray:
    """Of stepping from a row's state to a neighbour, were it the only way: `log(diagonal / w)`."""
    diagonal = np.maximum(rows.diagonal, np.finfo(float).tiny)
    return np.maximum(np.log(diagonal)[rows.row] - rows.log_weight, SHORTEST_STEP)


def _rate(rows: Rows, solved: np.ndarray, known: np.ndarray, v: np.ndarray) -> float:
    """How fast `log e` falls per unit of cost, in the lower half of what is known.

    Many paths lead to a goal, so that `e` falls more slowly than along the best of them.
    """
    if not solved.any():
        return 1.0
    lower_half = solved & (v <= np.median(v[solved]))
    usable = lower_half[rows.row] & known[rows.column]
    row = rows.row[usable]
    rise = v[rows.column[usable]] - v[row]
    steepest = np.full(rows.n, -np.inf)
    np.maximum.at(steepest, row, rise)
    along = (rise == steepest[row]) & (rise > 0)
    if not along.any():
        return 1.0
    return float(min(1.0, np.median(rise[along] / _cost(rows)[usable][along])))


def _continue_guess(rows: Rows, known: np.ndarray, v: np.ndarray, rate: float) -> np.ndarray:
    """Keep `v` where known; elsewhere fall off at `rate` along the cheapest way to there."""
    hub = rows.n
    leads_out = ~known[rows.row]
    row, column = rows.row[leads_out], rows.column[leads_out]
    border = np.unique(column[known[column]])
    top = v[border].max()
    graph = sp.csr_array(
        (
            np.concatenate([rate * _cost(rows)[leads_out], top - v[border] + 1.0]),
            (
                np.concatenate([column, np.full(border.size, hub)]),
                np.concatenate([row, border]),
            ),
        ),
        shape=(hub + 1, hub + 1),
    )
    distance = csgraph.dijkstra(graph, directed=True, indices=hub)[:hub]
    return np.where(known, v, top + 1.0 - distance)
