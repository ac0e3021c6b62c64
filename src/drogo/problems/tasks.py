"""`GoalTask`: new rewards of the terminal states, from a map to every goal.

With the reward r(T) of each terminal state T, exp(v(s)) is the sum over them of
exp(v(s, T) + r(T)/lam), so a new task needs no learning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from drogo.data.arrays import as_batch
from drogo.data.index import ObservationIndex
from drogo.errors import ArgumentError
from drogo.learn.solution import Solution
from drogo.learn.value import Policy
from drogo.potential import Potential, mean_step
from drogo.problems.action_model import ActionModel


@dataclass(frozen=True, eq=False, repr=False)
class GoalTask:
    """The values of one task, or of several, by one seed of a solution of `Goals`."""

    solution: Solution
    terminal_rewards: Float[np.ndarray, "*tasks terminals"]
    seed: int

    def __repr__(self) -> str:
        tasks = "" if self.terminal_rewards.ndim == 1 else f"{len(self.terminal_rewards)} tasks, "
        return f"GoalTask({tasks}{self.solution!r}, seed {self.seed})"

    @cached_property
    def v(self) -> Float[np.ndarray, "*tasks distinct"]:
        """The value of each observation of the data in each task."""
        return self(self.solution.observations)

    def __call__(self, observations: Any) -> Float[np.ndarray, "*tasks batch"]:
        """Returns the values at any observations."""
        batch = as_batch("this map", observations, self.solution.observations)
        k = self.solution.index(self.seed)
        columns = [self.solution(batch, goal)[k] for goal in self._terminals]
        return self._mixed(np.stack(columns, axis=-1))

    def potential(self, task: int = 0, *, normalised: bool = True) -> Potential:
        """Returns the values of a task as a potential for `PotentialShaping`."""
        self._check(task)
        return make_potential(
            self.solution,
            lambda batch: np.atleast_2d(self(batch))[task],
            name=f"the potential of a task (seed {self.seed})",
            normalised=normalised,
        )

    def policy(self, task: int = 0) -> Policy:
        """Returns the policy of a task: actions in proportion to exp(x(s, a))."""
        self._check(task)
        solution, k = self.solution, self.solution.index(self.seed)
        if solution.learner is None or not solution.method.per_action:
            return make_policy(solution, np.atleast_2d(self.v)[task])

        def logits(batch: np.ndarray) -> np.ndarray:
            goals = self._terminals[:, None]
            each = [solution.problem.action_values(solution, batch, goal)[k] for goal in goals]
            return np.reshape(self._mixed(np.stack(each, axis=-1)), (-1, *each[0].shape))[task]

        return Policy(logits, solution.observations.shape[1:])

    @property
    def _terminals(self) -> np.ndarray:
        return self.solution.observations[self.solution.terminal_states]

    def _mixed(self, columns: Float[np.ndarray, "*n terminals"]) -> Float[np.ndarray, "*tasks n"]:
        """Returns the log of the sum over terminal states of exp(v(s, T) + r(T)/lam)."""
        values = self.terminal_rewards / self.solution.problem.lam
        of_task = values.reshape(*values.shape[:-1], *[1] * (columns.ndim - 1), -1)
        with np.errstate(invalid="ignore"):  # a table has NaN where nothing is known
            return np.logaddexp.reduce(columns + of_task, axis=-1)

    def _check(self, task: int) -> None:
        tasks = len(np.atleast_2d(self.terminal_rewards))
        if not 0 <= task < tasks:
            raise ArgumentError(
                f"task is {task}; the tasks run from 0 to {tasks - 1}.", argument="task"
            )


def make_potential(
    solution: Solution,
    values: Callable[[np.ndarray], Float[np.ndarray, " batch"]],
    *,
    name: str,
    normalised: bool,
) -> Potential:
    """Returns values as a potential. Where they are not finite, they are the lowest that is."""
    known = values(solution.observations)
    finite = np.isfinite(known)
    lowest = float(known[finite].min(initial=0.0))
    known = np.where(finite, known, lowest)
    scale = float(mean_step(known, solution.neighbours)) if normalised else 1.0

    def unseen(batch: np.ndarray) -> np.ndarray:
        raw = values(as_batch("this map", batch, solution.observations))
        return np.where(np.isneginf(raw), lowest, raw) / scale

    network = Potential(unseen, solution.observations.shape[1:], name=name)
    if not solution.provenance["repeats"]:
        return network
    otherwise = None if solution.learner is None else network
    table = solution.observations
    return Potential.from_states(table, known / scale, name=name, otherwise=otherwise)


def make_policy(solution: Solution, v: Float[np.ndarray, " distinct"]) -> Policy:
    """Returns the policy that follows from the values of all observations of the data."""
    names = [f"step_{name}" for name in ActionModel.__dataclass_fields__]
    if names[0] not in solution.arrays or solution.n_actions is None:
        raise ArgumentError(
            "the outcomes of actions are not known: states do not repeat, or the data have no "
            "discrete actions.",
            remedy="Where there are discrete actions, use drogo.Drogo(action_values=True) and "
            "network=drogo.learn.PairMLP().",
        )
    model = ActionModel(*(solution.arrays[name] for name in names))
    x = model.values(v, solution.n_actions)
    # Where no action leads on, as in a terminal state, none is better than another.
    x[np.isneginf(x).all(axis=1)] = 0.0
    index = ObservationIndex(solution.observations)

    def logits(batch: np.ndarray) -> np.ndarray:
        rows = index.rows(as_batch("this map", batch, solution.observations))
        if (rows < 0).any():
            raise ArgumentError(
                f"observation {int((rows < 0).argmax())} of the batch does not occur in the data, "
                "so that the outcomes of its actions are not known.",
                remedy="Use drogo.Drogo(action_values=True) and network=drogo.learn.PairMLP().",
            )
        return x[rows]

    return Policy(logits, solution.observations.shape[1:])
