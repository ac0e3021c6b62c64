"""`Drawing`: which steps an update of an online map learns from, and how much each of them counts.

Steps into terminal states are rare, and without them a map learns nothing, so a share of each batch
is drawn from these alone. They then count less, by how much more often they were drawn: what an
action leads to on average is as in the replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from drogo.use.online.state import OnlineState
from drogo.use.online.steps import Steps

TERMINAL_SHARE = 0.1
"""The share of a batch that is drawn from steps into terminal states."""


class Drawing(NamedTuple):
    """How the steps of a batch are drawn.

    Args:
        batch_size: How many there are.
        known_after: How many times an action must have been taken in a cell for it to count as
            tried there; 0 for no optimism.
        untried_share: The share that is drawn from steps that left a cell where an action was not
            tried.
        evenly: Whether all pairs of a cell and an action are drawn equally often. The equation of a
            pair involves no other, so pairs may be drawn at will.
    """

    batch_size: int
    known_after: int
    untried_share: float
    evenly: bool

    def draw(self, state: OnlineState, keys: Sequence[Array] | Array) -> Steps:
        """Returns the steps of a batch.

        Args:
            state: The state, in which at least one step was observed.
            keys: Three keys, which decide what is drawn.
        """
        ends = self._terminal_steps
        drawn = self._drawn(state, keys[0], self.batch_size - ends)
        others = self._drawn(state, keys[1], ends)
        rare = state.ends.draw(keys[2], ends)
        rare = jax.tree.map(lambda a, b: jnp.where(state.ended, a, b), rare, others)
        steps = jax.tree.map(lambda *parts: jnp.concatenate(parts), drawn, rare)
        if self.untried_share > 0:
            steps = self._with_untried(state, steps, jax.random.fold_in(keys[0], 1))
        return steps

    def weights(self, state: OnlineState, steps: Steps) -> Float[Array, " n"]:
        """Returns how much each step of a batch counts.

        Args:
            state: The state.
            steps: The steps.
        """
        ends = jnp.maximum(state.replay.steps.terminated.sum(), 1)
        share, chance = self._terminal_steps / self.batch_size, self._chance(state, steps)
        rare = chance / ((1 - share) * chance + share * (1 / ends))
        return jnp.where(steps.terminated & state.ended, rare, 1 / (1 - share))

    def other_actions(
        self, state: OnlineState, steps: Steps, key: Array
    ) -> tuple[Int[Array, " n"], Bool[Array, " n"]]:
        """Returns an action for each step of a batch, and whether it was not tried where the step
        began. With `untried_share` it is one that was not, where there is one.

        Args:
            state: The state.
            steps: The steps.
            key: Decides which action.
        """
        unknown = state.visits.of(steps.observation) < self.known_after
        n, actions = unknown.shape
        other = jax.random.randint(key, (n,), 0, actions)
        if self.untried_share > 0:
            drawn = jax.random.uniform(jax.random.fold_in(key, 1), unknown.shape)
            some = jnp.where(unknown, drawn, -1.0).argmax(axis=1)
            other = jnp.where(unknown.any(axis=1), some, other)
        return other, unknown[jnp.arange(n), other]

    @property
    def _terminal_steps(self) -> int:
        """How many steps of a batch are drawn from those into terminal states."""
        return round(TERMINAL_SHARE * self.batch_size)

    @property
    def _untried_steps(self) -> int:
        """How many steps of a batch are drawn from cells where an action was not tried."""
        return min(
            round(self.untried_share * self.batch_size), self.batch_size - self._terminal_steps
        )

    def _rarity(self, state: OnlineState) -> Float[Array, " capacity"]:
        """Returns the chances of the steps in the replay to be drawn evenly, up to a factor."""
        there = jnp.arange(state.replay.capacity) < state.replay.size
        times = state.visits.count[state.slots, state.replay.steps.action]
        return jnp.where(there, 1 / jnp.maximum(times, 1), 0.0)

    def _is_unknown(self, state: OnlineState) -> Bool[Array, " capacity"]:
        """Returns which steps in the replay left a cell where an action was not tried."""
        there = jnp.arange(state.replay.capacity) < state.replay.size
        return (state.visits.count[state.slots] < self.known_after).any(axis=1) & there

    def _chance(self, state: OnlineState, steps: Steps) -> Float[Array, " n"]:
        """Returns the probability with which each of some steps is drawn from the replay, in one of
        the draws that do not look for terminal states."""
        counts = state.visits.of(steps.observation)
        chance = jnp.broadcast_to(1 / jnp.maximum(state.replay.size, 1), steps.reward.shape)
        if self.evenly:
            times = jnp.take_along_axis(counts, steps.action[:, None], axis=1)[:, 0]
            chance = 1 / jnp.maximum(times, 1) / jnp.maximum(self._rarity(state).sum(), 1e-9)
        if self.untried_share > 0:
            share = self._untried_steps / (self.batch_size - self._terminal_steps)
            unknown = self._is_unknown(state).sum()
            here = jnp.where((counts < self.known_after).any(axis=1), 1 / unknown, 0.0)
            chance = jnp.where(unknown > 0, (1 - share) * chance + share * here, chance)
        return chance

    def _drawn(self, state: OnlineState, key: Array, n: int) -> Steps:
        """Returns steps of the replay, drawn alike or evenly."""
        if not self.evenly:
            return state.replay.draw(key, n)
        until = jnp.cumsum(self._rarity(state))
        rows = jnp.searchsorted(until, until[-1] * jax.random.uniform(key, (n,)), side="right")
        return state.replay.take(jnp.minimum(rows, jnp.maximum(state.replay.size - 1, 0)))

    def _with_untried(self, state: OnlineState, steps: Steps, key: Array) -> Steps:
        """Returns a batch whose first steps are from cells with actions that were not tried, if
        there are any."""
        n = self._untried_steps
        until = jnp.cumsum(self._is_unknown(state))
        rank = jax.random.randint(key, (n,), 1, jnp.maximum(until[-1], 1) + 1)
        rare = state.replay.take(jnp.searchsorted(until, rank))
        return jax.tree.map(
            lambda part, new: part.at[:n].set(jnp.where(until[-1] > 0, new, part[:n])),
            steps,
            rare,
        )
