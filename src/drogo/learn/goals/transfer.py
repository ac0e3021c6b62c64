"""`GoalTask`: what a map to every goal says about new rewards of the terminal states.

With the reward r(T) of each terminal state T, exp(v(s)) is the sum over them of
exp(v(s, T) + r(T)/lam), so a new task needs no learning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError
from drogo.learn.policy import Policy
from drogo.potential import Potential, mean_step

if TYPE_CHECKING:
    from drogo.learn.goals.result import GoalMap


@dataclass(frozen=True, eq=False, repr=False)
class GoalTask:
    """The values of one task, or of several, by one seed of a `GoalMap`."""

    of: GoalMap
    terminal_rewards: Float[np.ndarray, "*tasks terminals"]
    seed: int

    def __repr__(self) -> str:
        tasks = "" if self.terminal_rewards.ndim == 1 else f"{len(self.terminal_rewards)} tasks, "
        return f"GoalTask({tasks}{self.of!r}, seed {self.seed})"

    @cached_property
    def v(self) -> Float[np.ndarray, "*tasks distinct"]:
        """The value of each observation of the data in each task."""
        return self(self.of.observations)

    def __call__(self, observations: Any) -> Float[np.ndarray, "*tasks batch"]:
        """Returns the values at any observations.

        Args:
            observations: A batch of observations.
        """
        batch, lane = self.of.as_batch(observations), self.of.lane(self.seed)
        columns = [self.of(batch, goal)[lane] for goal in self._terminals]
        return self._mixed(np.stack(columns, axis=-1))

    def potential(self, task: int = 0, *, normalised: bool = True) -> Potential:
        """Returns the values of a task as a potential for `PotentialShaping`.

        Args:
            task: The task, if there are several.
            normalised: Whether to divide by the mean difference between neighbours in the data.
        """
        self._check(task)
        return make_potential(
            self.of,
            lambda batch: np.atleast_2d(self(batch))[task],
            name=f"the potential of a task (seed {self.seed})",
            normalised=normalised,
        )

    def policy(self, task: int = 0) -> Policy:
        """Returns the policy of a task: actions in proportion to exp(x(s, a)).

        Args:
            task: The task, if there are several.
        """
        self._check(task)
        learner, lane = self.of.learner, self.of.lane(self.seed)
        if learner is None or not learner.objective.per_action:
            return make_policy(self.of, np.atleast_2d(self.v)[task])

        def logits(batch: np.ndarray) -> np.ndarray:
            goals = self._terminals[:, None]
            each = [self.of.action_values(batch, goal)[lane] for goal in goals]
            return np.reshape(self._mixed(np.stack(each, axis=-1)), (-1, *each[0].shape))[task]

        return Policy(logits, self.of.shape)

    @property
    def _terminals(self) -> np.ndarray:
        return self.of.observations[self.of.terminal_states]

    def _mixed(self, columns: Float[np.ndarray, "*n terminals"]) -> Float[np.ndarray, "*tasks n"]:
        """Returns the log of the sum over terminal states of exp(v(s, T) + r(T)/lam)."""
        values = self.terminal_rewards / self.of.config.lam
        of_task = values.reshape(*values.shape[:-1], *[1] * (columns.ndim - 1), -1)
        with np.errstate(invalid="ignore"):  # a table has NaN where nothing is known
            return np.logaddexp.reduce(columns + of_task, axis=-1)

    def _check(self, task: int) -> None:
        tasks = len(np.atleast_2d(self.terminal_rewards))
        if not 0 <= task < tasks:
            raise ArgumentError(f"task is {task}; the tasks run from 0 to {tasks - 1}.")


def make_potential(
    goals: GoalMap,
    values: Callable[[np.ndarray], Float[np.ndarray, " batch"]],
    *,
    name: str,
    normalised: bool,
) -> Potential:
    """Returns values as a potential. Where they are not finite, they are the lowest that is.

    Args:
        goals: The map that they come from.
        values: The values of a batch of observations.
        name: How error messages call the potential.
        normalised: Whether to divide by the mean difference between neighbours in the data.
    """
    known = values(goals.observations)
    finite = np.isfinite(known)
    lowest = float(known[finite].min(initial=0.0))
    known = np.where(finite, known, lowest)
    scale = float(mean_step(known, goals.neighbours)) if normalised else 1.0

    def unseen(batch: np.ndarray) -> np.ndarray:
        found = values(goals.as_batch(batch))
        return np.where(np.isneginf(found), lowest, found) / scale

    network = Potential(unseen, goals.shape, name=name)
    if not goals.repeats:
        return network
    otherwise = None if goals.learner is None else network
    return Potential.from_states(goals.observations, known / scale, name=name, otherwise=otherwise)


def make_policy(goals: GoalMap, v: Float[np.ndarray, " distinct"]) -> Policy:
    """Returns the policy that follows from the values of all observations of the data.

    Args:
        goals: The map that they come from.
        v: The values.
    """
    if goals.model is None or goals.n_actions is None:
        raise ArgumentError(
            "what actions lead to is not known: states do not repeat, or the data have no discrete "
            "actions.",
            remedy="Where there are discrete actions, use network='mlp' and objective='q'.",
        )
    x = goals.model.values(v, goals.n_actions)
    # Where no action leads on, as in a terminal state, none is better than another.
    x[np.isneginf(x).all(axis=1)] = 0.0

    def logits(batch: np.ndarray) -> np.ndarray:
        rows = goals.rows_of(goals.as_batch(batch))
        if (rows < 0).any():
            raise ArgumentError(
                f"observation {int((rows < 0).argmax())} of the batch does not occur in the data, "
                "so it is not known what actions lead to there. Use network='mlp' and "
                "objective='q'."
            )
        return x[rows]

    return Policy(logits, goals.shape)
