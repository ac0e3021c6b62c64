"""Batches of a state and a goal: pairs of known value, or transitions with sampled goals.

The outputs of networks for any pairs are computed here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.spatial import KDTree

from drogo.data import Transitions
from drogo.device import to_device
from drogo.errors import ArgumentError
from drogo.learn.batches import LONGEST_CHUNK
from drogo.learn.learner import Batch, Learner
from drogo.learn.pairs import Pairs
from drogo.problems.shared import filled

Reached = Callable[[np.ndarray, np.ndarray], Any]
"""From a batch of observations and a goal for each of them to whether it is reached there."""
NEGLIGIBLE = 10.0
"""The amount by which an action is worth less than its state if it does not lead to the goal, or if
nothing is known of it. Its true value is minus infinity, which a network cannot represent. The
policy takes such an action once in 20,000 steps."""
ASKED_AT_ONCE = 4096
"""The number of observations that a user's function is called with at a time."""
NEAREST = 16
"""The number of goals that count as near a state."""
PAIRS_AT_ONCE = 4**7
"""The number of pairs that a network evaluates at a time."""


class PairDraw(NamedTuple):
    """Sampled pairs of some updates; on the device, of one."""

    state: Int[Any, "*updates n"]
    goal: Int[Any, "*updates n"]
    value: Float[Any, "*updates n"]
    """The value of the pair, or of the next state and the goal, where it is known."""
    known: Bool[Any, "*updates n"]
    weight: Float[Any, "*updates n"]
    action: Int[Any, "*updates n"] | None = None
    next_state: Int[Any, "*updates n"] | None = None
    """None where all values are known."""
    reward: Float[Any, "*updates n"] | None = None
    log_default: Float[Any, "*updates n"] | None = None


class PairData(eqx.Module):
    """Assembles batches of pairs on the device."""

    features: Float[Array, "distinct size"]

    def batch(self, learner: Learner, draw: PairDraw) -> Batch:
        """Returns the batch of a draw."""
        n, next_state = draw.state.size, draw.next_state
        pairs = self._pairs(draw.state, draw.goal)
        after = None if next_state is None else self._pairs(next_state, draw.goal)
        reward = jnp.zeros(n) if draw.reward is None else draw.reward
        terminal_reward = draw.value * learner.objective.problem.lam
        rest = (reward, draw.known, terminal_reward, draw.weight, draw.action, draw.log_default)
        return Batch(pairs, after, None, None, *rest)

    def _pairs(self, state: Int[Array, " n"], goal: Int[Array, " n"]) -> Pairs:
        if len(self.features) <= state.size:
            return Pairs(self.features, self.features, state, goal)
        return Pairs(self.features[state], self.features[goal])  # a table would cost more


@dataclass(frozen=True)
class PairSampler:
    """Samples pairs for every seed.

    Args:
        seeds: The seeds.
        draws: `draws(seed, first, count)` samples the pairs of some updates of one seed.
    """

    seeds: list[int]
    draws: Callable[[int, int, int], PairDraw]
    longest: int = LONGEST_CHUNK
    kept: dict[tuple[int, int], PairDraw] = field(default_factory=dict, repr=False)
    """The last block of each seed."""

    def draw(self, update: int, count: int) -> PairDraw:
        """Returns the draws of `count` updates from `update` on, as `Sampler.draw` does."""
        of_seeds = [self._of_seed(seed, update, count) for seed in self.seeds]

        def padded(*parts: np.ndarray) -> Array:
            stacked = np.stack(parts, axis=1)
            rest = np.zeros((self.longest - count, *stacked.shape[1:]), dtype=stacked.dtype)
            return to_device(np.concatenate([stacked, rest]))

        return jax.tree.map(padded, *of_seeds)

    def _of_seed(self, seed: int, update: int, count: int) -> PairDraw:
        """Returns the draws of one seed. They are sampled in blocks, so that they do not depend on
        where a fit was interrupted or logged."""
        size = self.longest
        blocks = range(update // size, (update + count - 1) // size + 1)
        parts = [self._block(seed, block) for block in blocks]
        whole = jax.tree.map(lambda *columns: np.concatenate(columns), *parts)
        begin = update - blocks[0] * size
        return jax.tree.map(lambda column: column[begin : begin + count], whole)

    def _block(self, seed: int, block: int) -> PairDraw:
        if (seed, block) not in self.kept:
            for key in [key for key in self.kept if key[0] == seed]:
                del self.kept[key]
            self.kept[seed, block] = self.draws(seed, block * self.longest, self.longest)
        return self.kept[seed, block]


@dataclass(frozen=True)
class KnownPairs:
    """Pairs of a state and a goal whose value is known, sampled uniformly.

    Args:
        v: The exact values over goals and states.
        goals: The rows of the goals.
        action_values: The exact values of actions, for an output for each action.
        batch_size: The number of pairs in an update.
    """

    v: Float[np.ndarray, "goals distinct"]
    goals: Int[np.ndarray, " goals"]
    action_values: Float[np.ndarray, "goals distinct actions"] | None
    batch_size: int

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """The state, goal, value and action of every pair of known value."""
        values = self.v.copy()
        if self.action_values is not None:
            values = self.action_values.copy()
            of_state = np.broadcast_to(self.v[..., None], values.shape)
            useless = np.isneginf(values) & np.isfinite(of_state)
            values[useless] = of_state[useless] - NEGLIGIBLE
        # In the goal itself the value is 0 and no action follows, whatever is learned.
        values[np.arange(self.goals.size), self.goals] = -np.inf
        where = np.nonzero(np.isfinite(values))
        action = where[2].astype(np.int32) if len(where) == 3 else None
        goal, state = self.goals[where[0]].astype(np.int32), where[1].astype(np.int32)
        return state, goal, values[where].astype(np.float32), action

    def __call__(self, seed: int, first: int, count: int) -> PairDraw:
        state, goal, value, action = self._pairs
        rng = np.random.default_rng([seed, first])
        size = (count, min(self.batch_size, state.size))
        if size[1] == state.size:
            rows = np.broadcast_to(np.arange(size[1]), size)
        else:
            rows = rng.integers(state.size, size=size)
        weight = np.full(size, 1 / size[1], dtype=np.float32)
        known = np.ones(size, dtype=bool)
        taken = None if action is None else action[rows]
        return PairDraw(state[rows], goal[rows], value[rows], known, weight, taken)


@dataclass(frozen=True)
class Relabelled:
    """Transitions, each with a goal that is sampled for it.

    A goal may depend on the state that is left, and not on the one that is reached: among the
    transitions of a state and a goal, those that reach it would otherwise come too often, and every
    value would be too high.

    Args:
        data: The transitions.
        goals: The rows of the table of observations that goals are sampled from.
        numbers: The preprocessed observations, by which goals are near a state.
        reached: Whether a goal is reached.
        missed: The value of a goal that is missed for good, because an episode is over.
        near: The share of pairs whose goal is one of the nearest of the state.
        batch_size: The number of pairs in an update.
        per_action: Whether there is an output for each action.
    """

    data: Transitions
    goals: Int[np.ndarray, " goals"]
    numbers: np.ndarray
    reached: Reached | None
    missed: float
    near: float
    batch_size: int
    per_action: bool

    @cached_property
    def _nearest(self) -> Int[np.ndarray, "n few"]:
        """For each transition, the goals that are near the state that it leaves."""
        flat, few = self.numbers.reshape(len(self.numbers), -1), min(NEAREST, self.goals.size)
        nearest = KDTree(flat[self.goals]).query(flat[self.data.state], few)[1]
        return self.goals[nearest.reshape(len(self.data), few)]

    def __call__(self, seed: int, first: int, count: int) -> PairDraw:
        data, rng = self.data, np.random.default_rng([seed, first])
        size = (count, self.batch_size)
        rows = rng.integers(len(data), size=size)
        near = self._nearest[rows, rng.integers(self._nearest.shape[1], size=size)]
        goal = np.where(rng.random(size) < self.near, near, rng.choice(self.goals, size))
        state, after = data.state[rows], data.next_state[rows]
        arrived = self._reached(after, goal)
        over = data.terminated[rows] & ~arrived  # an episode that is over never reaches its goal
        weight = data.weight[rows] * ~self._reached(state, goal)
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-9)
        action = log_default = None
        if self.per_action:
            assert data.action is not None
            assert data.log_default is not None
            action, log_default = data.action[rows], data.log_default[rows].astype(np.float32)
        return PairDraw(
            state=state,
            goal=goal.astype(np.int32),
            value=np.where(over, self.missed, 0.0).astype(np.float32),
            known=arrived | over,
            weight=(weight / total).astype(np.float32),
            action=action,
            next_state=after,
            reward=data.reward[rows].astype(np.float32),
            log_default=log_default,
        )

    def _reached(self, state: np.ndarray, goal: np.ndarray) -> Bool[np.ndarray, "updates n"]:
        if self.reached is None:
            return state == goal
        table, flat = self.data.observations, (state.ravel(), goal.ravel())
        slices = [slice(k, k + ASKED_AT_ONCE) for k in range(0, state.size, ASKED_AT_ONCE)]
        answers = [ask(self.reached, *(table[rows[part]] for rows in flat)) for part in slices]
        return np.concatenate(answers).reshape(state.shape)


def ask(reached: Reached, observations: np.ndarray, goals: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Returns the checked answer of a user's function about observations and goals."""
    answer = np.asarray(reached(observations, goals))
    if answer.shape != (len(observations),) or answer.dtype != bool:
        raise ArgumentError(
            f"reached returned {answer.dtype} of shape {answer.shape} for {len(observations)} "
            "observations and goals; it is called with two batches and must return True or False "
            f"for each: shape ({len(observations)},).",
            argument="reached",
        )
    return answer


def pair_outputs(
    learner: Learner,
    params: Any,
    tables: tuple[np.ndarray, np.ndarray],
    state: Int[np.ndarray, " n"],
    goal: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "runs n ..."]:
    """Returns the scaled outputs of every run for some pairs: v(s, g), or x(s, a, g) of every
    action.
    """
    both = [to_device(filled(np.asarray(learner.inputs(part)))) for part in tables]
    parts = []
    for begin in range(0, state.size, PAIRS_AT_ONCE):
        rows = [part[begin : begin + PAIRS_AT_ONCE].astype(np.int32) for part in (state, goal)]
        out = _outputs(learner, params, *both, *map(jnp.asarray, map(filled, rows)))
        parts.append(np.asarray(out, dtype=np.float64)[:, : rows[0].size])
    return np.concatenate(parts, axis=1)


def pair_values(learner: Learner, *arguments: Any) -> Float[np.ndarray, "runs n"]:
    """Returns v(s, g) of every run for some pairs; the arguments are those of `pair_outputs`."""
    raw = pair_outputs(learner, *arguments)
    return np.logaddexp.reduce(raw, axis=2) if learner.objective.method.per_action else raw


@eqx.filter_jit
def _outputs(
    learner: Learner, params: Any, observations: Array, goals: Array, state: Array, goal: Array
) -> Array:
    def of_run(run: Any) -> Array:
        network = learner.network(run)
        pairs = Pairs(network.features(observations), network.features(goals), state, goal)
        return learner.objective.scale * network.values(pairs)

    return jax.lax.map(of_run, params)
