"""The exact solution of the problem that sampled transitions describe.

Where states were seen often, the data define an MDP of their own: from each state, the observed
next states with their observed frequencies. Its solution is what every learner of the column
approaches, so it tells how far a learned vector is from where its data lead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.exact.certified import Found
from drogo.exact.columns import solve_rows
from drogo.exact.definitions import refined_solve
from drogo.exact.growth import Steps, log_radius
from drogo.exact.reach import leads_to
from drogo.exact.rows import Rows


@dataclass(frozen=True)
class Sampled:
    """Distinct transitions, and how much each of them counts.

    Args:
        states: The number of states.
        state: The state that is left.
        next_state: The state that is reached.
        weight: How much the transition counts among those that leave the same state.
        log_cost: `-r / lam`.
        terminated: Whether the state that is reached is terminal.
        log_terminal_value: Its value `v` there.
    """

    states: int
    state: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    log_cost: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    log_terminal_value: Float[np.ndarray, " n"]

    @cached_property
    def known(self) -> Bool[np.ndarray, " n"]:
        """The transitions that do not lead to a state of which nothing is known, because it was
        never left, or only to such states. The others are left out of every solution."""
        known = np.ones(self.state.size, dtype=bool)
        while True:
            left = np.bincount(self.state[known], minlength=self.states) > 0
            still = known & (self.terminated | left[self.next_state])
            if still.sum() == known.sum():
                return known
            known = still

    @cached_property
    def share(self) -> Float[np.ndarray, " known"]:
        """The share of each known transition among those that leave the same state."""
        state, weight = self.state[self.known], self.weight[self.known]
        return weight / np.bincount(state, weight, self.states)[state]

    @property
    def steps(self) -> Steps:
        """The known transitions as steps, with one more state in which all terminal states are
        one."""
        used = self.known
        state, ends = self.state[used].astype(np.int64), self.terminated[used]
        next_state = np.where(ends, self.states, self.next_state[used]).astype(np.int64)
        return Steps(self.states + 1, state, next_state, self.share, -self.log_cost[used])


def solve_sampled(data: Sampled, *, scaled: bool = True) -> Float[np.ndarray, " states"]:
    """Computes `v` from `exp(v(s)) = E[exp(r/lam + v(s'))]`, the mean being over the data.

    Args:
        data: The transitions.
        scaled: If False, the equation is `E[exp(-r/lam)] exp(v(s)) = E[exp(v(s'))]`. The two agree
            where the reward depends on the state alone.

    Returns:
        One number per state. It is NaN in a state that no transition leaves, or whose transitions
        all lead to such states: transitions into these are left out. It is minus infinity in a
        state from which the data do not lead to any terminal state.
    """
    used, share = data.known, data.share
    state, terminated, log_cost = data.state[used], data.terminated[used], data.log_cost[used]
    if not scaled:
        log_cost = _log_mean_cost(state, share, log_cost, data.states)
    values, fixed = np.unique(data.log_terminal_value[used][terminated], return_inverse=True)
    column = data.next_state[used].astype(np.int64)
    column[terminated] = data.states + fixed
    v = np.full(data.states + values.size, np.nan)
    v[data.states :] = values
    v[state] = -np.inf
    arrives = leads_to(state, column, v.size, np.arange(data.states, v.size))
    counted = arrives[state]
    rows = _rows(state[counted], column[counted], share[counted], log_cost[counted], arrives)
    is_fixed = np.flatnonzero(arrives) >= data.states
    values = np.where(is_fixed, v[arrives], 0.0)
    v[arrives] = refined_solve(rows, is_fixed, values).log_e
    return v[: data.states]


def sampled_columns(data: Sampled, goals: Int[np.ndarray, " goals"]) -> Found:
    """Computes how well each state reaches each goal: `v(s, g)` with
    `exp(v(s, g)) = E[exp(r/lam + v(s', g))]` for all s other than g, the mean being over the data.

    Args:
        data: The transitions. No state may be terminal in some of them and left in others, and
            terminal values play no role.
        goals: The goals, which are terminal or were left by a known transition.

    Returns:
        The columns and their errors. As in `solve_sampled`, an entry is NaN in a state of which
        nothing is known. It is minus infinity where the data do not lead to the goal.
    """
    used, share = data.known, data.share
    state, column = data.state[used], data.next_state[used].astype(np.int64)
    everywhere = np.ones(data.states, dtype=bool)
    rows = _rows(state, column, share, data.log_cost[used], everywhere)
    left = np.bincount(state, minlength=data.states) > 0
    ends = ~left  # nothing leaves these states: a row of zeros in W
    rows = replace(rows, total=rows.total + ends, diagonal=rows.diagonal + ends)
    found, _ = solve_rows(rows, goals)
    unknown = ends & ~np.isin(np.arange(data.states), data.next_state[data.terminated])
    found.log_e[:, unknown] = np.nan
    return found


def sampled_log_radius(data: Sampled) -> float:
    """Computes the log of the spectral radius of the problem that transitions describe.

    The solution is finite if and only if it is negative.

    Args:
        data: The transitions.
    """
    steps = data.steps
    return log_radius(steps, np.arange(steps.n) < data.states)


def _log_mean_cost(
    state: np.ndarray, share: np.ndarray, log_cost: np.ndarray, states: int
) -> Float[np.ndarray, " n"]:
    """Returns for each transition the log of the mean of exp(-r/lam) in its state."""
    largest = np.full(states, -np.inf)
    np.maximum.at(largest, state, log_cost)
    mean = np.bincount(state, share * np.exp(log_cost - largest[state]), states)
    return largest[state] + np.log(mean[state])


def _rows(
    state: np.ndarray,
    column: np.ndarray,
    share: np.ndarray,
    log_cost: np.ndarray,
    arrives: np.ndarray,
) -> Rows:
    """Returns I - W, where W(s, s') is the sum of `share * exp(-log_cost)`, over the nodes from
    which a terminal state can be reached. What leads elsewhere contributes nothing."""
    n, place = int(arrives.sum()), np.cumsum(arrives) - 1
    row, weight = place[state], share * np.exp(-log_cost)
    off = arrives[column] & (column != state)
    lost = ~arrives[column]
    leaving = np.bincount(row[off], weight[off], n)
    # Of positive terms alone, so that nothing cancels where the cost of a step is tiny.
    total = np.bincount(row, -share * np.expm1(-log_cost), n)
    total += np.bincount(row[lost], weight[lost], n)
    log_weight = (np.log(share) - log_cost)[off]
    return Rows(row[off], place[column[off]], log_weight, total + leaving, total, np.zeros(n))
