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
    m = len(data.observations)
    is_goal = np.isin(np.arange(m), data.state)
    is_goal[data.terminal_states] = True
    others = np.setdiff1d(np.flatnonzero(is_goal), data.terminal_states)
    room = max(0, most_goals - data.terminal_states.size)
    if others.size > room:
        others = np.random.default_rng(seed).choice(others, room, replace=False)
    goals = np.sort(np.concatenate([others, data.terminal_states]).astype(np.int64))
    size = 8 * m * goals.size
    check_memory(f"a table of {goals.size} goals and {m} states", size, "Give a lower most_goals.")
    found = sampled_columns(empirical(data, lam), goals)
    return Problem(goals, found.log_e, float(found.error.max()), bool(found.converged.all()))


@dataclass(frozen=True)
class ActionModel:
    """What each action was seen to lead to: distinct steps, those of a state and an action side by
    side."""

    state: Int[np.ndarray, " steps"]
    action: Int[np.ndarray, " steps"]
    next_state: Int[np.ndarray, " steps"]
    log_gain: Float[np.ndarray, " steps"]
    """The log of the default policy's probability of the action, times the share of this step among
    those of its state and action, times exp(r/lam)."""

    @classmethod
    def of(cls, data: Transitions, lam: float) -> ActionModel | None:
        """Returns the model of the data; None if there are no discrete actions.

        Args:
            data: The transitions, with the default policy's probabilities.
            lam: The temperature.
        """
        edges = data.edges
        if edges.action is None or edges.log_default is None:
            return None
        order = np.lexsort([edges.action, edges.state])
        state, action = edges.state[order].astype(np.int64), edges.action[order].astype(np.int64)
        number = np.cumsum(_begins(state, action)) - 1
        count = edges.count[order]
        share = np.log(count) - np.log(np.bincount(number, count))[number]
        log_gain = edges.log_default[order] + share + edges.reward[order] / lam
        return cls(state, action, edges.next_state[order].astype(np.int64), log_gain)

    def values(
        self, v: Float[np.ndarray, "*k distinct"], n_actions: int
    ) -> Float[np.ndarray, "*k distinct actions"]:
        """Returns x(s, a) = log d(a|s) + log E[exp(r/lam + v(s'))], and minus infinity for actions
        that were never seen.

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
