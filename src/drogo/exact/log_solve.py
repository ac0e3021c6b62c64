"""Solves linear systems with positive solutions of any magnitude, in the log domain.

Given a Z-matrix `M` (see `rows`) and the values of some entries, `log_solve` computes the others
from `(M e)(s) = 0`. If the part of `M` over the unknown entries is an M-matrix, elimination on its
diagonal only adds positive terms (Alfa, Xue and Ye, 2002), so that double precision gives *every*
entry of `e` to nearly full relative precision, as long as it is in the range of a double.

Scaling brings entries below 1e-308 into range. With a guess `u` of `log e`, the system is solved
for `y` in `e = exp(u) y`, where the scaled matrix is an M-matrix again. The first guess is
constant. Where `y` underflows, the guess is continued from the solved entries along shortest paths,
and the scaled system is solved again.
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
MIN_STEP_COST = 1e-3
"""The least cost of a step in the guess, so that a longer path never costs less."""
CAUTION = 0.97
"""A factor on the rate of a guess: one that is too high underflows and is corrected, whereas one
that is too low overflows."""
MAX_PASSES = 60


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

    def relative(
        self, v: Float[np.ndarray, " n"], right: Float[np.ndarray, " unknown"]
    ) -> Float[np.ndarray, " unknown"]:
        """Solves with the matrix scaled by `exp(v)` instead of `exp(u)`."""
        factor = np.exp(v[self.unknown] - self.u)
        return self.lu.solve(factor * right) / factor

    def rounding_error(self, rows: Rows, v: Float[np.ndarray, " n"]) -> float:
        """Estimates the largest relative change of an entry by rounding in each row.

        It is large where two solutions are nearly equally good and a small residual proves little.
        """
        amount = np.finfo(float).eps * rows.magnitude(v)[self.unknown]
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.abs(self.relative(v, amount)).max(initial=0.0)
        return float(moved) if np.isfinite(moved) else np.inf


def factorise(
    rows: Rows,
    u: Float[np.ndarray, " n"] | None = None,
    fixed: Bool[np.ndarray, " n"] | None = None,
) -> Factor:
    """Factorises a matrix scaled by `exp(u)`, without the `fixed` entries of the solution, by
    elimination on the diagonal, in an order that keeps the factors sparse."""
    u = np.zeros(rows.n) if u is None else u
    unknown = np.arange(rows.n) if fixed is None else np.flatnonzero(~fixed)
    weight = rows.scaled_weight(u)
    states = np.arange(rows.n)
    places = np.concatenate([rows.row, states]), np.concatenate([rows.column, states])
    entries = np.concatenate([-weight, rows.diagonal])
    matrix = sp.csc_array((entries, places), shape=(rows.n, rows.n))
    inflow = np.zeros(rows.n)
    if fixed is not None:
        matrix, enters = matrix[:, unknown][unknown], fixed[rows.column]
        inflow = np.bincount(rows.row[enters], weight[enters], rows.n)[unknown]
    try:
        lu = splu(
            matrix,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True, "Equil": False},
        )
    except RuntimeError as error:  # SuperLU: "Factor is exactly singular"
        raise NoPositiveSolution("the equations are singular up to rounding.") from error
    return Factor(lu, u[unknown], unknown, inflow)


def log_solve(
    rows: Rows, fixed: Bool[np.ndarray, " n"], values: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Factor]:
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
            raise NoPositiveSolution(
                f"{lost.size} entries remain out of the range of double precision, the first of "
                f"them in state {lost[0]}."
            )
        solved = now_solved
        u = _continue_guess(rows, solved, v, rate)
    raise NoPositiveSolution(f"the scaling did not converge in {MAX_PASSES} passes.")


def _cost(rows: Rows) -> np.ndarray:
    """Returns the cost `log(diagonal / w)` of each step, as if it were the only one of its row."""
    diagonal = np.maximum(rows.diagonal, np.finfo(float).tiny)
    return np.maximum(np.log(diagonal)[rows.row] - rows.log_weight, MIN_STEP_COST)


def _rate(rows: Rows, solved: np.ndarray, free: np.ndarray, v: np.ndarray) -> float:
    """Estimates the decrease of `log e` per unit of cost, from the lower half of its entries.

    Many paths lead to a goal, so `e` decreases more slowly than along the best of them.
    """
    if not free.any():
        return 1.0
    lower_half = free & (v <= np.median(v[free]))
    usable = lower_half[rows.row] & solved[rows.column]
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
