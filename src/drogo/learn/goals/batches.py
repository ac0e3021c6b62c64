"""What an update sees: pairs of known value, or transitions whose goals were chosen afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.spatial import KDTree

from drogo.data import Transitions
from drogo.errors import ArgumentError
from drogo.learn.goals.config import GoalConfig
from drogo.learn.goals.networks import Pairs
from drogo.learn.goals.problem import ActionModel, Problem
from drogo.learn.learner import Batch

Reached = Callable[[np.ndarray, np.ndarray], Any]
"""From a batch of observations and a goal for each of them to whether it is reached there."""
NEGLIGIBLE = 10.0
"""How much less than its state an action is taken to be worth that does not lead to the goal, or of
which nothing is known. Its value is minus infinity, which a network cannot say; but unless it is
told something, it says anything. The policy takes such an action once in 20,000 steps."""
ASKED_AT_ONCE = 4096
"""How many observations a user's function is asked about at a time."""
NEAREST = 16
"""Goals that are near a state."""


class Device(eqx.Module):
    """What batches are put together from, on the device. Without a second column of states, values
    are known."""

    features: Float[Array, "distinct size"]
    lam: Float[Array, ""]

    def batch(self, draw: Draw) -> Batch:
        """Returns the batch of a draw.

        Args:
            draw: What was drawn for one update.
        """
        n, next_state = draw.state.size, draw.next_state
        pairs = self._pairs(draw.state, draw.goal)
        after = None if next_state is None else self._pairs(next_state, draw.goal)
        return Batch(
            pairs,
            after,
            None,
            None,
            jnp.zeros(n) if draw.reward is None else draw.reward,
            draw.known,
            draw.value * self.lam,
            draw.weight,
            draw.action,
            draw.log_default,
        )

    def _pairs(self, state: Int[Array, " n"], goal: Int[Array, " n"]) -> Pairs:
        if len(self.features) <= state.size:
            return Pairs(self.features, self.features, state, goal)
        return Pairs(self.features[state], self.features[goal])  # a table would cost more


class Draw(NamedTuple):
    """What was drawn for some updates; on the device, for one."""

    state: Int[Any, "*updates n"]
    goal: Int[Any, "*updates n"]
    value: Float[Any, "*updates n"]
    """The value of the pair, or of the next state and the goal, where it is known."""
    known: Bool[Any, "*updates n"]
    weight: Float[Any, "*updates n"]
    action: Int[Any, "*updates n"] | None = None
    next_state: Int[Any, "*updates n"] | None = None
    reward: Float[Any, "*updates n"] | None = None
    log_default: Float[Any, "*updates n"] | None = None


Sampler = Callable[[int, int, int], Draw]
"""`sampler(seed, first, count)` draws what so many updates from the first on see."""


@dataclass(frozen=True)
class KnownPairs:
    """Pairs of a state and a goal whose value is known, drawn uniformly."""

    state: Int[np.ndarray, " pairs"]
    goal: Int[np.ndarray, " pairs"]
    value: Float[np.ndarray, " pairs"]
    action: Int[np.ndarray, " pairs"] | None
    batch_size: int

    @classmethod
    def of(cls, problem: Problem, model: ActionModel | None, n: int, config: GoalConfig) -> Any:
        """Returns the pairs of a solved problem whose value is finite.

        Args:
            problem: The problem.
            model: What actions lead to, for an output for each action.
            n: The number of actions.
            config: The settings.
        """
        values = problem.v.copy()
        if config.objective == "q":
            assert model is not None
            values = model.values(problem.v, n)
            of_state = np.broadcast_to(problem.v[..., None], values.shape)
            useless = np.isneginf(values) & np.isfinite(of_state)
            values[useless] = of_state[useless] - NEGLIGIBLE
        # In the goal itself the value is 0 and no action follows, whatever is learned.
        values[np.arange(problem.goals.size), problem.goals] = -np.inf
        where = np.nonzero(np.isfinite(values))
        actions = where[2].astype(np.int32) if len(where) == 3 else None
        goal, state = problem.goals[where[0]].astype(np.int32), where[1].astype(np.int32)
        return cls(state, goal, values[where].astype(np.float32), actions, config.batch_size)

    def __call__(self, seed: int, first: int, count: int) -> Draw:
        rng = np.random.default_rng([seed, first])
        size = (count, min(self.batch_size, self.state.size))
        if size[1] == self.state.size:
            rows = np.broadcast_to(np.arange(size[1]), size)
        else:
            rows = rng.integers(self.state.size, size=size)
        weight = np.full(size, 1 / size[1], dtype=np.float32)
        known = np.ones(size, dtype=bool)
        action = None if self.action is None else self.action[rows]
        return Draw(self.state[rows], self.goal[rows], self.value[rows], known, weight, action)


@dataclass(frozen=True)
class Relabelled:
    """Transitions of a world whose states do not repeat, each with a goal that is drawn for it.

    A goal may depend on the state that is left, and not on the one that is reached: among the
    transitions of a state and a goal, those that reach it would otherwise come too often, and every
    value would be too high.
    """

    data: Transitions
    goals: Int[np.ndarray, " goals"]
    nearest: Int[np.ndarray, "n few"]
    """For each transition, the goals that are near the state that it leaves."""
    reached: Reached
    missed: float
    """The value of a goal that is missed for good, because an episode is over."""
    config: GoalConfig

    @classmethod
    def of(
        cls, data: Transitions, goals: np.ndarray, numbers: np.ndarray, *rest: Any
    ) -> Relabelled:
        """Returns the sampler of some transitions.

        Args:
            data: The transitions.
            goals: The rows of the table of observations that goals are drawn from.
            numbers: The normalised observations.
            *rest: The last three fields.
        """
        flat = numbers.reshape(len(numbers), -1)
        tree = KDTree(flat[goals])
        few = min(NEAREST, goals.size)
        nearest = tree.query(flat[data.state], few)[1].reshape(len(data), few)
        return cls(data, goals, goals[nearest], *rest)

    def __call__(self, seed: int, first: int, count: int) -> Draw:
        data, config = self.data, self.config
        rng = np.random.default_rng([seed, first])
        size = (count, config.batch_size)
        rows = rng.integers(len(data), size=size)
        near = self.nearest[rows, rng.integers(self.nearest.shape[1], size=size)]
        goal = np.where(rng.random(size) < config.near, near, rng.choice(self.goals, size))
        state, after = data.state[rows], data.next_state[rows]
        arrived = self._reached(after, goal)
        over = data.terminated[rows] & ~arrived  # an episode that is over never reaches its goal
        weight = data.weight[rows] * ~self._reached(state, goal)
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-9)
        by_action = config.objective == "q"
        assert not by_action or (data.action is not None and data.log_default is not None)
        return Draw(
            state=state,
            goal=goal.astype(np.int32),
            value=np.where(over, self.missed, 0.0).astype(np.float32),
            known=arrived | over,
            weight=(weight / total).astype(np.float32),
            action=data.action[rows] if by_action else None,  # pyright: ignore
            next_state=after,
            reward=data.reward[rows].astype(np.float32),
            log_default=data.log_default[rows].astype(np.float32) if by_action else None,  # pyright: ignore
        )

    def _reached(self, state: np.ndarray, goal: np.ndarray) -> Bool[np.ndarray, "updates n"]:
        table, flat = self.data.observations, (state.ravel(), goal.ravel())
        slices = [slice(k, k + ASKED_AT_ONCE) for k in range(0, state.size, ASKED_AT_ONCE)]
        answers = [ask(self.reached, *(table[rows[part]] for rows in flat)) for part in slices]
        return np.concatenate(answers).reshape(state.shape)


def ask(reached: Reached, observations: np.ndarray, goals: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Returns what a user's function says about observations and goals, checked.

    Args:
        reached: The function.
        observations: The observations.
        goals: A goal for each.
    """
    answer = np.asarray(reached(observations, goals))
    if answer.shape != (len(observations),) or answer.dtype != bool:
        raise ArgumentError(
            f"reached returned {answer.dtype} of shape {answer.shape} for {len(observations)} "
            "observations and goals; it is called with two batches and must return True or False "
            f"for each: shape ({len(observations)},)."
        )
    return answer
