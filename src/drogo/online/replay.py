"""The state of an online map and the sampling of batches from it, as pure functions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped, UInt32

from drogo.learn.learner import State
from drogo.use.shaping import StepBatch as StepBatch

SLOTS = 2**18
"""The rows of the table of visits. Of 26,000 different cells, one in ten shares its row."""


class Replay(eqx.Module):
    """The last steps, as many as there is room for."""

    steps: StepBatch
    added: Int[Array, ""]  # The number of steps that were ever added.

    @classmethod
    def empty(cls, capacity: int, observation: Shaped[Any, "..."]) -> "Replay":
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

    def add(self, steps: StepBatch, chosen: Bool[Array, " n"]) -> "Replay":
        """Returns the replay with the chosen steps, which replace the oldest if it is full."""
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
    def none(cls, sides: Float[Any, " size"], actions: int) -> "Visits":
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

    def add(self, observations: Array, actions: Int[Array, " n"], chosen: Array) -> "Visits":
        """Returns the table with the chosen visits."""
        count = self.count.at[self.slot(observations), actions].add(chosen.astype(jnp.int32))
        return eqx.tree_at(lambda visits: visits.count, self, count)

    def of(self, observations: Shaped[Array, "n ..."]) -> Int[Array, "n actions"]:
        """Returns the count of each action in the cells of some observations."""
        return self.count[self.slot(observations)]

    @property
    def are_complete(self) -> Bool[Array, ""]:
        """Whether every action was tried in all cells that were ever left."""
        return ((self.count > 0).any(axis=1) == (self.count > 0).all(axis=1)).all()


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


@dataclass(frozen=True)
class Sampler:
    """The sampling of batches, and the weight of each step in them.

    Steps into terminal states are rare, and a map learns nothing without them, so a share of each
    batch is sampled from these alone. They then weigh less, by the ratio of the probabilities.
    """

    batch_size: int
    terminal_steps: int
    """The number of steps of a batch that are sampled from those into terminal states."""
    optimistic: bool  # Whether an action that was never tried leads to a terminal state.

    def sample(self, state: OnlineState, keys: Sequence[Array] | Array) -> StepBatch:
        """Returns the steps of a batch, from a state with at least one step and three keys."""
        n = self.terminal_steps
        steps = self.from_replay(state, keys[0], self.batch_size - n)
        others, rare = self.from_replay(state, keys[1], n), state.terminal.sample(keys[2], n)
        rare = jax.tree.map(lambda a, b: jnp.where(state.has_terminal, a, b), rare, others)
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), steps, rare)

    def from_replay(self, state: OnlineState, key: Array, n: int) -> StepBatch:
        """Returns steps of the replay, sampled uniformly."""
        return state.replay.sample(key, n)

    def chance(self, state: OnlineState, steps: StepBatch) -> Float[Array, " n"]:
        """Returns the probability of some steps where terminal states are not asked for."""
        return jnp.broadcast_to(1 / jnp.maximum(state.replay.size, 1), steps.reward.shape)

    def weights(self, state: OnlineState, steps: StepBatch) -> Float[Array, " n"]:
        """Returns the weight of each step of a batch."""
        terminal = jnp.maximum(state.replay.steps.terminated.sum(), 1)
        share, chance = self.terminal_steps / self.batch_size, self.chance(state, steps)
        rare = chance / ((1 - share) * chance + share * (1 / terminal))
        return jnp.where(steps.terminated & state.has_terminal, rare, 1 / (1 - share))

    def untried(self, state: OnlineState, steps: StepBatch) -> Bool[Array, "n actions"]:
        """Returns which actions count as untried where each step began."""
        return (state.visits.of(steps.observation) == 0) & self.optimistic

    def other_actions(self, state: OnlineState, steps: StepBatch, key: Array) -> tuple[Array, ...]:
        """Returns an action for each step of a batch, and whether it was not tried there."""
        untried = self.untried(state, steps)
        other = jax.random.randint(key, untried.shape[:1], 0, untried.shape[1])
        return other, untried[jnp.arange(len(other)), other]


def flat(observations: Shaped[Any, "n ..."]) -> Float[Array, "n size"]:
    """Returns observations as vectors of single precision."""
    shape = (len(observations), math.prod(observations.shape[1:]))
    return jnp.asarray(observations).reshape(shape).astype(jnp.float32)
