"""The exact solution of what the data describe, for every goal, and the values of actions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.data import Transitions
from drogo.data.empirical import empirical
from drogo.errors import DataError
from drogo.exact.sampled import sampled_columns
from drogo.files import check_memory


@dataclass(frozen=True)
class Problem:
    """Goals, and how well each state reaches them."""

    goals: Int[np.ndarray, " goals"]
    """Rows of the table of observations."""
    v: Float[np.ndarray, "goals distinct"]
    """Minus infinity where the goal is not reached, and NaN where the data do not tell."""
    error: float
    """A bound on the error of an entry."""
    accurate: bool


def solve(data: Transitions, lam: float, most_goals: int, seed: int) -> Problem:
    """Solves the problem of the data for many goals, with one factorisation.

    Args:
        data: The transitions, weighed like the default policy's. Their states repeat.
        lam: The temperature.
        most_goals: The most goals. All terminal states are among them, and the others are drawn.
        seed: The seed of the draw.
    """
    mixed = np.setdiff1d(data.terminal_states, data.pure_terminal_states[0])
    if mixed.size:
        raise DataError(
            f"observation {mixed[0]} of the table, and {mixed.size - 1} more, are terminal states "
            "in some transitions and ordinary states in others, so it is not known what follows "
            "when such a goal is reached. Use an observation that tells the two apart."
        )
    m, problem = len(data.observations), empirical(data, lam)
    others = np.setdiff1d(problem.state[problem.known], data.terminal_states)
    room = max(0, most_goals - data.terminal_states.size)
    if others.size > room:
        others = np.random.default_rng(seed).choice(others, room, replace=False)
    goals = np.sort(np.concatenate([others, data.terminal_states]).astype(np.int64))
    size = 8 * m * goals.size
    check_memory(f"a table of {goals.size} goals and {m} states", size, "Give a lower most_goals.")
    found = sampled_columns(problem, goals)
    return Problem(goals, found.log_e, float(found.error.max()), bool(found.converged.all()))


@dataclass(frozen=True)
class ActionModel:
    """What each action was seen to lead to: distinct steps, those of a state and an action side by
    side."""

    state: Int[np.ndarray, " steps"]
    action: Int[np.ndarray, " steps"]
    next_state: Int[np.ndarray, " steps"]
    log_gain: Float[np.ndarray, " steps"]
    """The log of the share of this step among all known ones of its state, times exp(r/lam). The
    share of an action in its state is the default policy's probability of it, among the actions
    that were seen there: the values of actions add up to the value of the state."""

    @classmethod
    def of(cls, data: Transitions, lam: float) -> ActionModel | None:
        """Returns the model of the data; None if there are no discrete actions.

        Args:
            data: The transitions, weighed like the default policy's.
            lam: The temperature.
        """
        action = data.edges.action
        if action is None or data.edges.log_default is None:
            return None
        problem = empirical(data, lam)
        used = problem.known
        order = np.lexsort([action[used], problem.state[used]])
        columns = (problem.state, action, problem.next_state)
        state, taken, next_state = (part[used][order].astype(np.int64) for part in columns)
        log_gain = np.log(problem.share) - problem.log_cost[used]
        return cls(state, taken, next_state, log_gain[order])

    def values(
        self, v: Float[np.ndarray, "*k distinct"], n_actions: int
    ) -> Float[np.ndarray, "*k distinct actions"]:
        """Returns x(s, a) = log d(a|s) + log E[exp(r/lam + v(s'))], and minus infinity for actions
        of which nothing is known.

        Args:
            v: The values of all states.
            n_actions: The number of actions.
        """
        starts = np.flatnonzero(_begins(self.state, self.action))
        sizes = np.diff(starts, append=self.state.size)
        terms = self.log_gain + v[..., self.next_state]
        top = np.maximum.reduceat(terms, starts, axis=-1)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            total = np.add.reduceat(np.exp(terms - np.repeat(top, sizes, axis=-1)), starts, axis=-1)
            found = top + np.log(total)
        x = np.full((*v.shape, n_actions), -np.inf)
        x[..., self.state[starts], self.action[starts]] = found
        return x


def _begins(state: np.ndarray, action: np.ndarray) -> Bool[np.ndarray, " steps"]:
    """Returns where another pair of a state and an action begins."""
    changes = (np.diff(state) != 0) | (np.diff(action) != 0)
    return np.concatenate([[True], changes])
