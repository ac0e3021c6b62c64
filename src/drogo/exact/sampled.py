"""The exact solution of the problem that sampled transitions describe.

Where states repeat, the data define an MDP: from each state, the observed next states with their
observed frequencies. Every learner of the column approaches its solution, so that it measures the
error that a learned vector has beyond that of its data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.exact.columns import Columns, solve_rows
from drogo.exact.growth import WeightedEdges
from drogo.exact.positive import refined_solve
from drogo.mdp.arrays import leads_to


@dataclass(frozen=True)
class Sampled:
    """Distinct transitions and their weights among those that leave the same state."""

    states: int
    state: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    log_cost: Float[np.ndarray, " n"]
    """`-r / lam`."""
    terminated: Bool[np.ndarray, " n"]
    log_terminal_value: Float[np.ndarray, " n"]
    """The value `v` of the next state if it is terminal."""

    @cached_property
    def usable(self) -> Bool[np.ndarray, " n"]:
        """The transitions whose next state is known; solutions leave the others out. A state is
        unknown if no transition leaves it, or only transitions to unknown states."""
        usable = np.ones(self.state.size, dtype=bool)
        while True:
            left = np.bincount(self.state[usable], minlength=self.states) > 0
            still = usable & (self.terminated | left[self.next_state])
            if still.sum() == usable.sum():
                return usable
            usable = still

    @cached_property
    def share(self) -> Float[np.ndarray, " usable"]:
        """The share of each usable transition among those that leave the same state."""
        state, weight = self.state[self.usable], self.weight[self.usable]
        return weight / np.bincount(state, weight, self.states)[state]

    @property
    def steps(self) -> WeightedEdges:
        """The usable transitions, with one additional state that stands for all terminal states."""
        used = self.usable
        state, terminated = self.state[used].astype(np.int64), self.terminated[used]
        next_state = np.where(terminated, self.states, self.next_state[used]).astype(np.int64)
        return WeightedEdges(self.states + 1, state, next_state, self.share, -self.log_cost[used])


def solve_sampled(data: Sampled, *, scaled: bool = True) -> Float[np.ndarray, " states"]:
    """Computes `v` from `exp(v(s)) = E[exp(r/lam + v(s'))]`, with the mean over the data.

    If not `scaled`, the equation is `E[exp(-r/lam)] exp(v(s)) = E[exp(v(s'))]`. The two agree where
    the reward depends on the state alone. An entry is NaN in an unknown state, and minus infinity
    where the data do not lead to any terminal state.
    """
    used, share = data.usable, data.share
    state, terminated, log_cost = data.state[used], data.terminated[used], data.log_cost[used]
    if not scaled:
        # The log of the mean of exp(-r/lam) in each state replaces that of each transition.
        largest = np.full(data.states, -np.inf)
        np.maximum.at(largest, state, log_cost)
        scaled_cost = np.exp(log_cost - largest[state])
        mean = np.bincount(state, share * scaled_cost, data.states)
        log_cost = largest[state] + np.log(mean[state])
    values, fixed = np.unique(data.log_terminal_value[used][terminated], return_inverse=True)
    column = data.next_state[used].astype(np.int64)
    column[terminated] = data.states + fixed
    v = np.full(data.states + values.size, np.nan)
    v[data.states :] = values
    v[state] = -np.inf
    arrives = leads_to(state, column, v.size, np.arange(data.states, v.size))
    rows = WeightedEdges(v.size, state, column, share, -log_cost).within(arrives)
    is_fixed = np.flatnonzero(arrives) >= data.states
    values = np.where(is_fixed, v[arrives], 0.0)
    v[arrives] = refined_solve(rows, is_fixed, values).log_e
    return v[: data.states]


def sampled_columns(data: Sampled, goals: Int[np.ndarray, " goals"]) -> Columns:
    """Computes the columns of some goals: `exp(v(s, g)) = E[exp(r/lam + v(s', g))]` for all s other
    than g, with the mean over the data.

    No state may be terminal in some transitions and left in others, and each goal must be terminal
    or left by a usable transition. Terminal values are not used. An entry is NaN in an unknown
    state, and minus infinity where the data do not lead to the goal.
    """
    used, share = data.usable, data.share
    state, column = data.state[used], data.next_state[used].astype(np.int64)
    edges = WeightedEdges(data.states, state, column, share, -data.log_cost[used])
    rows = edges.within(np.ones(data.states, dtype=bool))
    never_left = np.bincount(state, minlength=data.states) == 0  # a zero row of W
    rows = replace(rows, total=rows.total + never_left, diagonal=rows.diagonal + never_left)
    columns = solve_rows(rows, goals)
    unknown = never_left & ~np.isin(np.arange(data.states), data.next_state[data.terminated])
    columns.log_e[:, unknown] = np.nan
    return columns
