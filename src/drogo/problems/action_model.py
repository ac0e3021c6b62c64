"""`ActionModel`: the observed outcomes of actions, and the values that follow from a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.data import Transitions


@dataclass(frozen=True)
class ActionModel:
    """The distinct steps of the data, grouped by state and action."""

    state: Int[np.ndarray, " steps"]
    action: Int[np.ndarray, " steps"]
    next_state: Int[np.ndarray, " steps"]
    log_gain: Float[np.ndarray, " steps"]
    """The log of the share of this step among all known ones of its state, times exp(r/lam). The
    share of an action is the default policy's probability of it among the actions that were seen,
    so that the values of actions add up to the value of the state."""

    @classmethod
    def of(cls, data: Transitions, lam: float) -> ActionModel | None:
        """Returns the model of the data; None if there are no discrete actions."""
        action = data.edges.action
        if action is None or data.edges.log_default is None:
            return None
        problem = data.empirical(lam)
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
