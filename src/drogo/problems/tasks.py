"""Policies, potentials and maps to new rewards that follow from a map to every goal.

With the reward r(T) of each terminal state T, exp(v(s)) is the sum over them of
exp(v(s, T) + r(T)/lam), so a new task needs no learning. A single goal is a task as well.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from drogo.data.arrays import as_batch
from drogo.data.index import ObservationIndex
from drogo.errors import ArgumentError
from drogo.learn.solution import Solution
from drogo.learn.value import Policy
from drogo.potential import Potential, mean_step
from drogo.problems.shared import MODEL, ActionModel, finite_values, make_potential
from drogo.public import checked


@checked
@dataclass(frozen=True, eq=False, repr=False)
class GoalTask:
    """The values of one task, or of several, by one seed of a solution of `Goals`."""

    solution: Solution
    goals: Shaped[np.ndarray, "goals ..."]
    """The observations of the goals: of a transfer, all terminal states."""
    terminal_rewards: Float[np.ndarray, "*tasks goals"]
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
        columns = [self.solution(batch, goal)[k] for goal in self.goals]
        return self._mixed(np.stack(columns, axis=-1))

    def potential(self, task: int = 0, *, normalised: bool = True) -> Potential:
        """Returns the values of a task as a potential, the lowest where they are minus infinity."""
        self._check(task)
        solution, name = self.solution, f"the potential of goals (seed {self.seed})"
        v = finite_values(np.atleast_2d(self.v)[task])
        scale = float(mean_step(v, solution.neighbours)) if normalised else 1.0

        def values(batch: np.ndarray) -> np.ndarray:
            raw = np.atleast_2d(self(batch))[task]
            return np.where(np.isneginf(raw), v.min(), raw)

        if solution.provenance["repeats"]:
            learned = None if solution.learner is None else values
            return make_potential(solution, v, learned, name, scale)
        return Potential(values, solution.observations.shape[1:], name=name).divided(scale)

    def policy(self, task: int = 0) -> Policy:
        """Returns the policy of a task: actions in proportion to exp(x(s, a))."""
        self._check(task)
        solution, k = self.solution, self.solution.index(self.seed)
        if solution.learner is not None and solution.method.per_action:

            def logits(batch: np.ndarray) -> np.ndarray:
                goals = self.goals[:, None]
                each = [solution.problem.action_values(solution, batch, goal)[k] for goal in goals]
                return np.reshape(self._mixed(np.stack(each, axis=-1)), (-1, *each[0].shape))[task]

            return Policy(logits, solution.observations.shape[1:])
        remedy = "Use drogo.Drogo(action_values=True) and network=drogo.learn.PairMLP()."
        if MODEL[0] not in solution.arrays or solution.n_actions is None:
            problem = "the outcomes of actions are not known: states do not repeat, or have no "
            remedy = f"Where there are discrete actions: {remedy}"
            raise ArgumentError(f"{problem}actions.", remedy=remedy)
        v, model = np.atleast_2d(self.v)[task], ActionModel(*(solution.arrays[k] for k in MODEL))
        x = model.values(v[model.next_state], (v.size, solution.n_actions))
        # Where no action leads on, as in a terminal state, none is better than another.
        x[np.isneginf(x).all(axis=1)] = 0.0
        index = ObservationIndex(solution.observations)

        def known_logits(batch: np.ndarray) -> np.ndarray:
            rows = index.rows(as_batch("this map", batch, solution.observations))
            if (rows < 0).any():
                place = f"observation {int((rows < 0).argmax())} of the batch"
                problem = f"{place} is not in the data, which alone show the outcomes of actions."
                raise ArgumentError(problem, remedy=remedy)
            return x[rows]

        return Policy(known_logits, solution.observations.shape[1:])

    def _mixed(self, columns: Float[np.ndarray, "*n goals"]) -> Float[np.ndarray, "*tasks n"]:
        """Returns the log of the sum over goals of exp(v(s, T) + r(T)/lam)."""
        with np.errstate(over="ignore"):
            values = self.terminal_rewards / self.solution.problem.lam
        of_task = values.reshape(*values.shape[:-1], *[1] * (columns.ndim - 1), -1)
        with np.errstate(invalid="ignore"):  # a table has NaN where nothing is known
            return np.logaddexp.reduce(columns + of_task, axis=-1)

    def _check(self, task: int) -> None:
        tasks = len(np.atleast_2d(self.terminal_rewards))
        if not 0 <= task < tasks:
            raise ArgumentError(f"task is {task}; give one from 0 to {tasks - 1}.", argument="task")
