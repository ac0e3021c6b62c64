"""Columns of an MDP of which a few rows changed, by the factors of the MDP that it was before.

With `K` the changed rows and `C` their difference, the new matrix is `M + E_K C`, where `E_K` has
the unit vectors of `K` as columns. `(M + E_K C) x = b` is solved by `x = inverse(M) (b - E_K t)`,
where `t` solves the small system `(I + C inverse(M) E_K) t = C inverse(M) b` (Woodbury). The small
matrix serves every goal. Its rows and columns are scaled by the size of the terms of `C x`, which
is `t`, so that `t` is accurate row by row.

Unlike elimination on an M-matrix, these formulas subtract. A goal that was reached through a door
that is a wall now loses all digits. Every column is therefore checked against the new matrix itself
(`certified`). If one is not accurate, the new matrix is factorised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError
from drogo.exact.certified import Found
from drogo.exact.columns import Columns, as_goals, fill, solve_columns
from drogo.exact.finite import check_finite
from drogo.exact.inverse_part import inverse_part, units
from drogo.exact.reach import Reach
from drogo.exact.rows import Rows, default_rows
from drogo.exact.scaled import Scaled
from drogo.mdp import MDP

FEW = 8
"""For so many rows, solving for whole columns of the inverse is fastest."""
SWEEPS = 2
"""How often the changed rows' own equations are used after the others."""
MOST_ROWS = 200
MOST_GOALS = 16
"""For more rows or goals, factorising is about as fast (measured at 100,000 states)."""


def update(columns: Columns, mdp: MDP, goals: npt.ArrayLike | None = None) -> Columns:
    """Computes columns again after a few states changed, without factorising the matrix again.

    Which rows of `R - P` changed is found by comparing. Costs, terminal states and transitions may
    change; the number of states and what they stand for must not. A new wall is a state that
    nothing leads to any more. It is terminal itself, because an MDP has no state without a way out,
    and the moves that led to it stay where they are (`GridWorld.mdp_with` makes such an MDP).

    An updated result can be updated again: it keeps the factorisation, and all rows that differ
    from it are counted. If there are so many changed rows (200) or goals (16) that factorising is
    about as fast, or if some column cannot be shown to be accurate, the matrix is factorised after
    all, and `method` of the result is `"factorised"` instead of `"updated"`.

    Args:
        columns: What `exact.solve_columns` or this function returned.
        mdp: The MDP as it is now.
        goals: The goals, as for `exact.solve_columns`. By default those of `columns`.

    Returns:
        The columns of the changed MDP, as accurate as if they had been computed anew.

    Raises:
        ArgumentError: The MDP has another number of states, or a goal is none of them.
        NotConverged: The column of a goal could not be computed.
    """
    before = columns.kept.rows
    if mdp.n_states != before.n:
        raise ArgumentError(
            f"mdp has {mdp.n_states} states, and the columns are those of an MDP with {before.n}.",
            remedy="Keep the numbers of the states: a wall is a terminal state that nothing leads "
            "to (GridWorld.mdp_with). For other states use exact.solve_columns.",
        )
    numbers = as_goals(mdp, columns.goals if goals is None else goals)
    check_finite(mdp, columns.lam)
    rows = default_rows(mdp, columns.lam, "zero-row", 1.0)
    changed = np.flatnonzero(_differ(before, rows))
    found = _updated(columns, rows, changed, numbers)
    if found is None:
        return solve_columns(mdp, columns.lam, numbers)
    return Columns(
        **found._asdict(),
        goals=numbers,
        lam=columns.lam,
        method="updated",
        changed=changed,
        terminal=np.flatnonzero(mdp.terminal),
        kept=columns.kept,
    )


@dataclass(frozen=True)
class LowRank:
    """Solves with a matrix of which some rows differ from those that were factorised."""

    lu: Any
    changed: Int[np.ndarray, " k"]
    """The rows."""
    flow: sp.csr_array
    """Their negated off-diagonals, as they are now."""
    diagonal: Float[np.ndarray, " k"]
    """Their diagonals, as they are now."""
    change: sp.csr_array
    """By how much they differ."""
    small: Float[np.ndarray, "k k"]
    """The matrix of the small system."""
    whole: Float[np.ndarray, "n k"] | None
    """The columns of the inverse for these rows, if there are few of them."""

    @classmethod
    def of(
        cls,
        lu: Any,
        u: Float[np.ndarray, " n"],
        changed: Int[np.ndarray, " k"],
        before: Rows,
        rows: Rows,
    ) -> LowRank:
        """Forms the small matrix, of two matrices that are scaled by `exp(u)`."""
        diagonal, identity = rows.diagonal[changed], np.eye(changed.size)
        flow, flow_before = _flow(rows, changed, u), _flow(before, changed, u)
        rest = sp.csr_array(
            (diagonal - before.diagonal[changed], (np.arange(changed.size), changed)), flow.shape
        )
        change = sp.csr_array(rest - (flow - flow_before))
        if changed.size <= FEW:
            whole = lu.solve(units(lu.shape[0], changed))
            return cls(lu, changed, flow, diagonal, change, identity + change @ whole, whole)
        concerned = np.union1d(change.indices, changed)
        part = change[:, concerned] @ inverse_part(lu, concerned, changed)
        return cls(lu, changed, flow, diagonal, change, identity + part, None)

    def __call__(
        self,
        right: Float[np.ndarray, "n vectors"],
        near: Float[np.ndarray, "n vectors"] | None,
    ) -> Float[np.ndarray, "n vectors"]:
        """Solves for some right-hand sides; see `certified.Solver`."""
        y = self.lu.solve(right)
        inflow = self.change @ y
        scale = abs(self.change) @ np.abs(y if near is None else near)
        scale[scale == 0] = 1.0
        stack = self.small * scale.T[:, None, :] / scale.T[:, :, None]
        try:
            t = scale * np.linalg.solve(stack, (inflow / scale).T[:, :, None])[:, :, 0].T
        except np.linalg.LinAlgError:
            return np.full_like(right, np.nan)
        if self.whole is not None:
            x = y - self.whole @ t
        else:
            corrected = right.copy()
            corrected[self.changed] -= t
            x = self.lu.solve(corrected)
        # A state that became costly may be worth a tiny part of what it was, and then all digits of
        # its entry are lost. Its own equation gives it by the entries around it.
        for _ in range(SWEEPS):
            inflow = right[self.changed] + self.flow @ x
            x[self.changed] = inflow / self.diagonal[:, None]
        return x


def _updated(
    columns: Columns,
    rows: Rows,
    changed: Int[np.ndarray, " changed"],
    goals: Int[np.ndarray, " goals"],
) -> Found | None:
    """Returns all columns by low-rank updates, or None where these do not help."""
    served_by = np.full(rows.n, -1)
    for number, part in enumerate(columns.kept.parts):
        # A goal that was not solved for before is tried with the matrix that is not scaled.
        served_by[part.goals if part.u.any() else slice(None)] = number
    many = changed.size > MOST_ROWS or goals.size > MOST_GOALS
    if many or (served_by[goals] < 0).any():
        return None
    reach, found = Reach(rows), Found.none(goals.size, rows.n)
    for number, part in enumerate(columns.kept.parts):
        places = np.flatnonzero(served_by[goals] == number)
        if not places.size:
            continue
        if part.u.any() and not np.isfinite(rows.scaled_weight(part.u)).all():
            return None
        solver = LowRank.of(part.lu, part.u, changed, columns.kept.rows, rows)
        if not fill(found, places, Scaled.of(rows, part.u), solver, goals, reach).all():
            return None
    return found


def _differ(a: Rows, b: Rows) -> Bool[np.ndarray, " n"]:
    """Returns which rows of two matrices differ in any bit."""
    differ = (a.diagonal != b.diagonal) | (a.total != b.total)
    differ |= np.bincount(a.row, minlength=a.n) != np.bincount(b.row, minlength=b.n)
    # Entries are in the order of their rows, so those of the other rows are in the same places.
    in_a, in_b = ~differ[a.row], ~differ[b.row]
    wrong = (a.column[in_a] != b.column[in_b]) | (a.log_weight[in_a] != b.log_weight[in_b])
    differ[a.row[in_a][wrong]] = True
    return differ


def _flow(rows: Rows, chosen: Int[np.ndarray, " k"], u: Float[np.ndarray, " n"]) -> sp.csr_array:
    """Returns the negated off-diagonals of some rows of the matrix scaled by `exp(u)`."""
    place = np.full(rows.n, -1)
    place[chosen] = np.arange(chosen.size)
    entry = place[rows.row] >= 0
    row, column = rows.row[entry], rows.column[entry]
    weight = np.exp(rows.log_weight[entry] + u[column] - u[row])
    return sp.csr_array((weight, (place[row], column)), shape=(chosen.size, rows.n))
