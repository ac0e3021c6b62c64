"""`GoalMap`: how well any state reaches any goal, and whether learning that worked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.data.arrays import as_batch, as_type
from drogo.data.table import row_bytes
from drogo.errors import ArgumentError
from drogo.exact.columns import as_rewards
from drogo.learn.goals.batches import Reached, ask
from drogo.learn.goals.config import GoalConfig
from drogo.learn.goals.evaluate import pair_outputs, pair_values
from drogo.learn.goals.problem import ActionModel
from drogo.learn.goals.transfer import GoalTask, make_policy, make_potential
from drogo.learn.learner import Learner
from drogo.learn.policy import Policy
from drogo.potential import Potential, mean_step

GoalValue = Callable[[Any, Any], Float[np.ndarray, " batch"]]
"""From a batch of observations and one of goals to a number for each pair."""


@dataclass(frozen=True, eq=False, repr=False)
class GoalMap:
    """The learned v(s, g), one for each seed: how well a state s reaches a goal g."""

    v: Float[np.ndarray, "seeds goals distinct"]
    """v(s, g) at the goals and observations of the data. It is 0 where s is g, and minus infinity
    where the data do not lead from s to g, which a network cannot say. A table has NaN where s was
    seen but never left, so that nothing is known of it."""
    goals: Int[np.ndarray, " goals"]
    """The rows of `observations` that are the goals of `v`."""
    observations: Shaped[np.ndarray, "distinct ..."]
    """The distinct observations of the data; where states do not repeat, some of them."""
    terminal_states: Int[np.ndarray, " terminals"]
    """The rows of `observations` that are terminal states."""
    status: tuple[str, ...]
    """For each seed:

    - "converged": every value is within the tolerance of the exact solution of the data.
    - "unverified": the values were not compared with anything, because states do not repeat; or
      they agree with the solution of the data, but these do not tell all: some states were never
      left or never lead to a goal, or some actions were never taken.
    - "max_updates": some value is off by more than the tolerance.
    - "diverged": a number became infinite.
    """
    error: Float[np.ndarray, " seeds"]
    """The largest difference of a value of `v` from the exact solution of the data, over all pairs.
    It is infinite where that is not known, because states do not repeat."""
    diverged_at: tuple[int | None, ...]
    """For each seed the update at which it diverged, or None."""
    history: tuple[Mapping[str, np.ndarray], ...]
    """For each seed the logged numbers of `update`s, and the mean `loss` and the `error` there."""
    config: GoalConfig
    seeds: tuple[int, ...]
    neighbours: Int[np.ndarray, "pairs 2"]
    """Rows of `observations` that are one step apart, by which a potential is normalised."""
    model: ActionModel | None = field(repr=False)
    """What actions lead to, where states repeat and actions are known."""
    learner: Learner | None = field(repr=False)
    """What was trained; None for a table."""
    params: Any = field(repr=False)
    """The parameters of all seeds."""
    n_actions: int | None
    repeats: bool
    """Whether states repeat in the data."""
    radius: float | None
    """Where states do not repeat: the distance of normalised observations at which a goal is
    reached, if it was given."""
    reached: Reached | None = field(repr=False)
    """Where states do not repeat: whether a goal is reached."""
    notes: tuple[str, ...]
    """Sentences about the data: what was taken for granted, and what they do not tell."""
    data_digest: str
    """Identifies the transitions that it was trained on."""
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.status.count(s)} {s}" for s in sorted(set(self.status)))
        return (
            f"GoalMap({len(self.seeds)} seed(s), {self.goals.size} goals, "
            f"{len(self.observations)} observations, {self.config.network}, lam "
            f"{self.config.lam:g}, status: {counts})"
        )

    def __call__(
        self, observations: Any, goal_observations: Any
    ) -> Float[np.ndarray, "seeds batch"]:
        """Returns v(s, g) at any observations, also unseen ones.

        Args:
            observations: A batch of observations.
            goal_observations: As many goals, or a single one for all observations.
        """
        batch = self.as_batch(observations)
        goals = self._as_goals(goal_observations, len(batch))
        if not len(batch):
            return np.zeros((len(self.seeds), 0))
        state, goal = self.rows_of(batch), self.rows_of(goals)
        place = np.where(goal < 0, -1, self._place[goal])
        if self.learner is None:
            self._check_known((state >= 0) & (place >= 0))
            return self.v[:, place, state]
        rows = np.arange(len(batch))
        v = pair_values(self.learner, self.params, batch, goals, rows, rows)
        v = np.where(self._never(state, goal, place), -np.inf, v)
        return np.where(self._arrived(batch, goals), 0.0, v)

    def potential(
        self, goal_observation: Any, seed: int = 0, *, normalised: bool = True
    ) -> Potential:
        """Returns the map to one goal as a potential for `PotentialShaping`.

        States from which the goal is not reached get the lowest value of those from which it is.

        Args:
            goal_observation: The goal.
            seed: One of the seeds of this map.
            normalised: Whether to divide by the mean difference between neighbours in the data.
        """
        k = self.lane(seed)
        return make_potential(
            self,
            lambda batch: self(batch, goal_observation)[k],
            name=f"the potential of a goal (seed {seed})",
            normalised=normalised,
        )

    def value(self, seed: int = 0, *, normalised: bool = True) -> GoalValue:
        """Returns v(s, g) of one seed as a function of observations and goals, for `GoalShaping`.

        States from which a goal is not reached get the lowest value of all.

        Args:
            seed: One of the seeds of this map.
            normalised: Whether to divide by the mean difference between neighbours in the data
                from which a goal is reached, over all goals.
        """
        k = self.lane(seed)
        v = self.v[k]
        lowest, scale = float(v[np.isfinite(v)].min()), 1.0
        if normalised:
            before, after = (v[:, ends] for ends in self.neighbours.T)
            both = np.isfinite(before) & np.isfinite(after)
            pairs = np.arange(2 * both.sum()).reshape(2, -1).T
            scale = float(mean_step(np.concatenate([before[both], after[both]]), pairs))

        def of_pairs(observations: Any, goals: Any) -> Float[np.ndarray, " batch"]:
            found = self(observations, goals)[k]
            # A table has NaN where nothing is known. That of a network is an error.
            unknown = np.isneginf(found) | (np.isnan(found) & (self.learner is None))
            return np.where(unknown, lowest, found) / scale

        return of_pairs

    def policy(self, goal_observation: Any, seed: int = 0) -> Policy:
        """Returns the policy to one goal: actions in proportion to exp(x(s, a, g)).

        At observations of the data it follows from the values of the next states; with
        objective="q" it is that of the network, at any observation.

        Args:
            goal_observation: The goal.
            seed: One of the seeds of this map.
        """
        k, goal = self.lane(seed), self._as_goals(goal_observation, 1)
        if self.learner is not None and self.learner.objective.per_action:
            return Policy(lambda batch: self.action_values(batch, goal)[k], self.shape)
        return make_policy(self, self(self.observations, goal[0])[k])

    def transfer(self, terminal_rewards: npt.ArrayLike, seed: int = 0) -> GoalTask:
        """Returns the map to new rewards of the terminal states, without learning anything.

        Args:
            terminal_rewards: A reward for each of `terminal_states`, of shape (terminals,), or
                several such tasks, of shape (tasks, terminals). Minus infinity stands for a
                terminal state that is worth nothing.
            seed: One of the seeds of this map.
        """
        if not self.repeats:
            raise ArgumentError(
                "where states do not repeat, terminal states are places that overlap, and their "
                "rewards cannot be added up. Use fit with terminal_reward in the data."
            )
        values = as_rewards(terminal_rewards, self.terminal_states.size, "terminal_rewards")
        self.lane(seed)
        return GoalTask(self, values, seed)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the map to one `.npz` file, without objects.

        Args:
            path: The file.
            overwrite: Whether to replace a file that is there.
        """
        from drogo.learn.goals.files import save

        save(self, Path(path), overwrite=overwrite)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.observations.shape[1:]

    def lane(self, seed: int) -> int:
        """Returns the place of a seed in `seeds`, which must not have diverged."""
        if seed not in self.seeds:
            raise ArgumentError(f"seed {seed} is none of this map's seeds: {list(self.seeds)}.")
        lane = self.seeds.index(seed)
        if self.status[lane] == "diverged":
            raise ArgumentError(
                f"seed {seed} diverged at update {self.diverged_at[lane]} and cannot be used. Use "
                "another seed, or train again with a smaller step_size."
            )
        return lane

    def as_batch(self, observations: Any) -> Shaped[np.ndarray, "batch ..."]:
        """Returns observations in the type of the data, and checks their shape."""
        return as_batch("this map", observations, self.observations)

    def rows_of(self, batch: Shaped[np.ndarray, "n ..."]) -> Int[np.ndarray, " n"]:
        """Returns the rows of `observations` that are these bit for bit, and -1 for others."""
        return np.array([self._known.get(key, -1) for key in row_bytes(batch).tolist()], dtype=int)

    def action_values(
        self, batch: np.ndarray, goals: np.ndarray
    ) -> Float[np.ndarray, "seeds batch actions"]:
        """Returns x(s, a, g) by the network, for one goal or one for each observation."""
        assert self.learner is not None
        rows = np.arange(len(batch))
        places = rows if len(goals) == len(batch) else np.zeros_like(rows)
        given = (self.learner, self.params, self.as_batch(batch), goals, rows, places)
        return pair_outputs(*given)

    def _as_goals(self, given: Any, n: int) -> Shaped[np.ndarray, "n ..."]:
        goals = as_type("this map", given, self.observations.dtype)
        if goals.shape == self.shape:
            goals = np.broadcast_to(goals, (n, *self.shape))
        if goals.shape != (n, *self.shape):
            raise ArgumentError(
                f"the goals have shape {goals.shape}. Give one goal of shape {self.shape}, or one "
                f"for each of {n} observation(s)."
            )
        return goals

    def _arrived(self, batch: np.ndarray, goals: np.ndarray) -> Bool[np.ndarray, " n"]:
        same = row_bytes(batch) == row_bytes(goals)
        return same if self.reached is None else same | ask(self.reached, batch, goals)

    def _never(
        self, state: np.ndarray, goal: np.ndarray, place: np.ndarray
    ) -> Bool[np.ndarray, " n"]:
        """Returns which states never reach the goal, as far as the data tell: where states do not
        repeat, that is not known of any."""
        if not self.repeats:
            return np.zeros(state.size, dtype=bool)
        known = (state >= 0) & (place >= 0)
        unreachable = known & np.isneginf(self.v[0, place, state])
        return unreachable | np.isin(state, self.terminal_states)

    def _check_known(self, known: Bool[np.ndarray, " n"]) -> None:
        if not known.all():
            raise ArgumentError(
                f"pair {int(known.argmin())} has an observation that does not occur in the data, "
                "or a goal that is none of theirs, and a table knows no other. Use "
                "network='quasimetric' or 'mlp', or a higher most_goals."
            )

    @cached_property
    def _known(self) -> dict[bytes, int]:
        return {key: k for k, key in enumerate(row_bytes(self.observations).tolist())}

    @cached_property
    def _place(self) -> Int[np.ndarray, " distinct"]:
        """The place of each observation among the goals, or -1."""
        place = np.full(len(self.observations), -1)
        place[self.goals] = np.arange(self.goals.size)
        return place
