"""The state of an online map and the sampling of batches from it, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped, UInt32

from drogo.learn.learner import State
from drogo.use.shaping import StepBatch

SLOTS = 2**18
"""The rows of the table of visits. Of 26,000 different cells, one in ten shares its row."""


class Replay(eqx.Module):
    """The last steps, as many as there is room for."""

    steps: StepBatch
    added: Int[Array, ""]  # The number of steps that were ever added.

    @classmethod
    def empty(cls, capacity: int, observation: Shaped[Any, ...]) -> Replay:
        """Returns a replay for `capacity` steps, with observations like the one given."""
        observations = jnp.zeros((capacity, *observation.shape), observation.dtype)
        zeros, actions = jnp.zeros(capacity), jnp.zeros(capacity, jnp.int32)
        rest = (zeros, observations, jnp.zeros(capacity, bool), zeros)
        return cls(StepBatch(observations, actions, *rest), jnp.zeros((), jnp.int32))

    @property
    def capacity(self) -> int:
        return self.steps.reward.shape[0]

    @property
    def size(self) -> Int[Array, ""]:
        """The number of steps that it holds."""
        return jnp.minimum(self.added, self.capacity)

    @property
    def is_filled(self) -> Bool[Array, " capacity"]:
        """The places that hold a step."""
        return jnp.arange(self.capacity) < self.size

    def places(self, chosen: Bool[Array, " n"]) -> Int[Array, " n"]:
        """Returns the places of the chosen steps, and one beyond the end for the others."""
        place = (self.added + jnp.cumsum(chosen) - 1) % self.capacity
        return jnp.where(chosen, place, self.capacity)

    def add(self, steps: StepBatch, chosen: Bool[Array, " n"]) -> Replay:
        """Returns the replay with the chosen steps, at most as many as there is room for, in place
        of the oldest ones if it is full."""
        place = self.places(chosen)

        def put(old: Array, new: Any) -> Array:
            return old.at[place].set(jnp.asarray(new, old.dtype), mode="drop")

        count = self.added + chosen.sum(dtype=jnp.int32)
        return Replay(jax.tree.map(put, self.steps, steps), count)

    def sample(self, key: Array, n: int) -> StepBatch:
        """Returns steps that are sampled with replacement. There must be at least one."""
        return self.take(jax.random.randint(key, (n,), 0, jnp.maximum(self.size, 1)))

    def take(self, rows: Int[Array, " n"]) -> StepBatch:
        """Returns the steps at some places."""
        return jax.tree.map(lambda part: part[rows], self.steps)


class Visits(eqx.Module):
    """Counts of actions in *cells*: observations whose numbers, divided by its sides and rounded
    down, are the same. A hash of the cell is its row in a bounded table."""

    count: Int[Array, "slots actions"]
    sides: Float[Array, " size"]  # The side of a cell along each number of a flat observation.
    multipliers: UInt32[Array, " size"]

    @classmethod
    def none(cls, sides: Float[Any, " size"], actions: int) -> Visits:
        """Returns the table before the first visit."""
        odd = np.random.default_rng(0).integers(2**31, size=sides.size, dtype=np.uint32) * 2 + 1
        count = jnp.zeros((SLOTS, actions), jnp.int32)
        return cls(count, jnp.asarray(sides, jnp.float32), jnp.asarray(odd.astype(np.uint32)))

    def slot(self, observations: Shaped[Array, "n ..."]) -> UInt32[Array, " n"]:
        """Returns the row of the table for each observation."""
        cells = jnp.floor(flat(observations) / self.sides[None])
        mixed = cells.astype(jnp.int32).astype(jnp.uint32) @ self.multipliers
        mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(0x2C1B3C6D)
        return (mixed ^ (mixed >> 12)) % jnp.uint32(self.count.shape[0])

    def add(self, observations: Array, actions: Int[Array, " n"], chosen: Array) -> Visits:
        """Returns the table with the chosen visits."""
        place = (self.slot(observations), actions)
        count = self.count.at[place].add(chosen.astype(jnp.int32))
        return eqx.tree_at(lambda visits: visits.count, self, count)

    def of(self, observations: Shaped[Array, "n ..."]) -> Int[Array, "n actions"]:
        """Returns the count of each action in the cells of some observations."""
        return self.count[self.slot(observations)]

    def is_done(self, known_after: int) -> Bool[Array, ""]:
        """Returns whether every action was tried in all cells that were ever left."""
        was_left = (self.count > 0).any(axis=1, keepdims=True)
        return ~((self.count < known_after) & was_left).any()


class OnlineState(eqx.Module):
    """Everything that changes while a map is learned."""

    training: State
    average: PyTree[Array]
    """A running mean of the parameters, which gives the potential: single updates are noisy."""
    replay: Replay
    terminal: Replay  # The last steps into terminal states.
    visits: Visits
    slots: UInt32[Array, " capacity"]  # The row of `visits` for each step in the replay.
    low: Float[Array, " size"]
    high: Float[Array, " size"]
    mean: Float[Array, " size"]
    """The range so far of each number of an observation, and its mean over all steps."""
    best: Float[Array, ""]  # The best reward of a terminal state; minus infinity before the first.
    mean_step: Float[Array, ""]
    """A running mean of the differences of the map between the two states of a step."""
    key: Array

    @property
    def steps(self) -> Int[Array, ""]:
        """The number of steps that were observed."""
        return self.replay.added

    @property
    def has_terminal(self) -> Bool[Array, ""]:
        """Whether a terminal state was reached."""
        return self.terminal.added > 0


class Sampler(NamedTuple):
    """The sampling of batches, and the weight of each step in them.

    Steps into terminal states are rare, and a map learns nothing without them, so a share of each
    batch is sampled from these alone. They then weigh less, by the ratio of the probabilities.
    """

    batch_size: int
    terminal_steps: int
    """The number of steps of a batch that are sampled from those into terminal states."""
    known_after: int
    untried_share: float
    evenly: bool
    """As in `OnlineSettings`; `known_after` is 0 for no optimism. Pairs of a cell and an action may
    be sampled `evenly` because the equation of a pair involves no other."""

    def sample(self, state: OnlineState, keys: Sequence[Array] | Array) -> StepBatch:
        """Returns the steps of a batch, from a state with at least one step and three keys."""
        n = self.terminal_steps
        steps = self._from_replay(state, keys[0], self.batch_size - n)
        others, rare = self._from_replay(state, keys[1], n), state.terminal.sample(keys[2], n)
        rare = jax.tree.map(lambda a, b: jnp.where(state.has_terminal, a, b), rare, others)
        steps = jax.tree.map(lambda *parts: jnp.concatenate(parts), steps, rare)
        if not self.untried_share:
            return steps
        # The first steps are replaced by those that left a cell with an untried action.
        k, until = self._untried_steps, jnp.cumsum(self._left_untried(state))
        most, key = jnp.maximum(until[-1], 1) + 1, jax.random.fold_in(keys[0], 1)
        rare = state.replay.take(jnp.searchsorted(until, jax.random.randint(key, (k,), 1, most)))
        return jax.tree.map(
            lambda part, new: part.at[:k].set(jnp.where(until[-1] > 0, new, part[:k])), steps, rare
        )

    def weights(self, state: OnlineState, steps: StepBatch) -> Float[Array, " n"]:
        """Returns the weight of each step of a batch."""
        terminal = jnp.maximum(state.replay.steps.terminated.sum(), 1)
        share, chance = self.terminal_steps / self.batch_size, self._chance(state, steps)
        rare = chance / ((1 - share) * chance + share * (1 / terminal))
        return jnp.where(steps.terminated & state.has_terminal, rare, 1 / (1 - share))

    def other_actions(
        self, state: OnlineState, steps: StepBatch, key: Array
    ) -> tuple[Array, Array]:
        """Returns an action for each step of a batch, and whether it was not tried where the step
        began. With `untried_share` it is an untried one, where there is one."""
        untried = state.visits.of(steps.observation) < self.known_after
        n, actions = untried.shape
        other = jax.random.randint(key, (n,), 0, actions)
        if self.untried_share > 0:
            rank = jax.random.uniform(jax.random.fold_in(key, 1), untried.shape)
            some = jnp.where(untried, rank, -1.0).argmax(axis=1)
            other = jnp.where(untried.any(axis=1), some, other)
        return other, untried[jnp.arange(n), other]

    @property
    def _untried_steps(self) -> int:
        most = self.batch_size - self.terminal_steps
        return min(round(self.untried_share * self.batch_size), most)

    def _left_untried(self, state: OnlineState) -> Bool[Array, " capacity"]:
        """Returns which steps in the replay left a cell with an untried action."""
        untried = state.visits.count[state.slots] < self.known_after
        return untried.any(axis=1) & state.replay.is_filled

    def _rarity(self, state: OnlineState) -> Float[Array, " capacity"]:
        """Returns the probabilities of the steps in the replay under `evenly`, up to a factor."""
        times = state.visits.count[state.slots, state.replay.steps.action]
        return jnp.where(state.replay.is_filled, 1 / jnp.maximum(times, 1), 0.0)

    def _from_replay(self, state: OnlineState, key: Array, n: int) -> StepBatch:
        """Returns steps of the replay, sampled uniformly or `evenly`."""
        if not self.evenly:
            return state.replay.sample(key, n)
        until = jnp.cumsum(self._rarity(state))
        rows = jnp.searchsorted(until, until[-1] * jax.random.uniform(key, (n,)), side="right")
        return state.replay.take(jnp.minimum(rows, jnp.maximum(state.replay.size - 1, 0)))

    def _chance(self, state: OnlineState, steps: StepBatch) -> Float[Array, " n"]:
        """Returns the probability of some steps where terminal states are not asked for."""
        counts = state.visits.of(steps.observation)
        chance = jnp.broadcast_to(1 / jnp.maximum(state.replay.size, 1), steps.reward.shape)
        if self.evenly:
            times = jnp.take_along_axis(counts, steps.action[:, None], axis=1)[:, 0]
            chance = 1 / jnp.maximum(times, 1) / jnp.maximum(self._rarity(state).sum(), 1e-9)
        if self.untried_share > 0:
            share = self._untried_steps / (self.batch_size - self.terminal_steps)
            total = self._left_untried(state).sum()
            here = jnp.where((counts < self.known_after).any(axis=1), 1 / total, 0.0)
            chance = jnp.where(total > 0, (1 - share) * chance + share * here, chance)
        return chance


def flat(observations: Shaped[Any, "n ..."]) -> Float[Array, "n size"]:
    """Returns observations as vectors of single precision."""
    shape = (len(observations), math.prod(observations.shape[1:]))
    return jnp.asarray(observations).reshape(shape).astype(jnp.float32)
