"""The exact column and columns of weighted edges, such as those of data whose states repeat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from drogo.exact.columns import Columns, solve_rows
from drogo.exact.positive import refined_solve
from drogo.exact.rows import weighted_rows
from drogo.mdp import Edges
from drogo.mdp.arrays import leads_to


def solve_edges(edges: Edges, lam: float, *, scaled: bool = True) -> Float[np.ndarray, " states"]:
    """Computes `v` from `exp(v(s)) = E[exp(r/lam + v(s'))]`, with the mean over the edges.

    If not `scaled`, the equation is `E[exp(-r/lam)] exp(v(s)) = E[exp(v(s'))]`. The two agree where
    the reward depends on the state alone. An entry is NaN in an unknown state, and minus infinity
    where no edges lead to any terminal state.
    """
    edges = edges.known
    n, state, gain = edges.n, edges.state, edges.reward / lam
    if not scaled:
        # Minus the log of the mean of exp(-r/lam) in each state replaces that of each edge.
        largest = np.full(n, -np.inf)
        np.maximum.at(largest, state, -gain)
        mean = np.bincount(state, edges.share * np.exp(-gain - largest[state]), n)
        gain = -(largest[state] + np.log(mean[state]))
    terminal_values = edges.terminal_reward[edges.terminated] / lam
    values, fixed = np.unique(terminal_values, return_inverse=True)
    column = edges.next_state.astype(np.int64)
    column[edges.terminated] = n + fixed  # one more node for each value
    v = np.full(n + values.size, np.nan)
    v[n:] = values
    v[state] = -np.inf
    arrives = leads_to(state, column, v.size, np.arange(n, v.size))
    rows = weighted_rows(arrives, state, column, edges.share, gain)
    is_fixed = np.flatnonzero(arrives) >= n
    values = np.where(is_fixed, v[arrives], 0.0)
    v[arrives] = refined_solve(rows, is_fixed, values).log_e
    return v[:n]


def columns_of_edges(edges: Edges, lam: float, goals: Int[np.ndarray, " goals"]) -> Columns:
    """Computes the columns of some goals: `exp(v(s, g)) = E[exp(r/lam + v(s', g))]` for all s other
    than g, with the mean over the edges.

    No state may be terminal in some edges and left by others, and each goal must be terminal or
    left by a usable edge. Terminal values are not used. An entry is NaN in an unknown state, and
    minus infinity where no edges lead to the goal.
    """
    known, n = edges.known, edges.n
    parts = known.state, known.next_state, known.share, known.reward / lam
    rows = weighted_rows(np.ones(n, dtype=bool), *parts)
    never_left = np.bincount(known.state, minlength=n) == 0  # a zero row of W
    rows = replace(rows, total=rows.total + never_left, diagonal=rows.diagonal + never_left)
    columns = solve_rows(rows, goals)
    unknown = never_left & ~np.isin(np.arange(n), edges.next_state[edges.terminated])
    columns.log_e[:, unknown] = np.nan
    return columns
