"""`EvenMap`: an `OnlineMap` that learns from all it has tried equally often, for deep discovery."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from drogo.errors import Flag, Share
from drogo.learn.methods import Drogo
from drogo.online import OnlineMap, OnlineState, StepBatch
from drogo.online.learner import OnlineSettings
from drogo.online.replay import Sampler


@dataclass(frozen=True)
class EvenSettings(OnlineSettings):
    """The settings of an `EvenMap`."""

    untried_share: Share = 0.0
    """The share of a batch that is sampled from steps that left a cell with an untried action."""
    evenly: Flag = False
    """Samples all pairs of a cell and an action equally often, however often they were tried: the
    equation of a pair involves no other."""

    def sampler(self, method: Drogo) -> Sampler:
        plain = super().sampler(method)
        return EvenSampler(**vars(plain), untried_share=self.untried_share, evenly=self.evenly)


class EvenMap(OnlineMap):
    """An `OnlineMap` with the settings of `EvenSettings` in place of `OnlineSettings`."""

    settings_kind = EvenSettings


@dataclass(frozen=True)
class EvenSampler(Sampler):
    """The sampling of `EvenSettings`, whose fields it has."""

    untried_share: float
    evenly: bool

    def sample(self, state: OnlineState, keys: Sequence[Array] | Array) -> StepBatch:
        steps = super().sample(state, keys)
        if not self.untried_share:
            return steps
        # The first steps are replaced by those that left a cell with an untried action.
        k, until = self._untried_steps, jnp.cumsum(self._left_untried(state))
        most, key = jnp.maximum(until[-1], 1) + 1, jax.random.fold_in(keys[0], 1)
        rare = state.replay.take(jnp.searchsorted(until, jax.random.randint(key, (k,), 1, most)))
        return jax.tree.map(
            lambda part, new: part.at[:k].set(jnp.where(until[-1] > 0, new, part[:k])), steps, rare
        )

    def other_actions(self, state: OnlineState, steps: StepBatch, key: Array) -> tuple[Array, ...]:
        """Returns untried actions where there are any, if there is an `untried_share`."""
        other, is_untried = super().other_actions(state, steps, key)
        if not self.untried_share:
            return other, is_untried
        untried = self.untried(state, steps)
        rank = jax.random.uniform(jax.random.fold_in(key, 1), untried.shape)
        some = jnp.where(untried, rank, -1.0).argmax(axis=1)
        other = jnp.where(untried.any(axis=1), some, other)
        return other, untried[jnp.arange(len(other)), other]

    def from_replay(self, state: OnlineState, key: Array, n: int) -> StepBatch:
        if not self.evenly:
            return super().from_replay(state, key, n)
        until = jnp.cumsum(self._rarity(state))
        rows = jnp.searchsorted(until, until[-1] * jax.random.uniform(key, (n,)), side="right")
        return state.replay.take(jnp.minimum(rows, jnp.maximum(state.replay.size - 1, 0)))

    def chance(self, state: OnlineState, steps: StepBatch) -> Float[Array, " n"]:
        chance, counts = super().chance(state, steps), state.visits.of(steps.observation)
        if self.evenly:
            times = jnp.take_along_axis(counts, steps.action[:, None], axis=1)[:, 0]
            chance = 1 / jnp.maximum(times, 1) / jnp.maximum(self._rarity(state).sum(), 1e-9)
        if self.untried_share > 0:
            share = self._untried_steps / (self.batch_size - self.terminal_steps)
            total = self._left_untried(state).sum()
            here = jnp.where(self.untried(state, steps).any(axis=1), 1 / total, 0.0)
            chance = jnp.where(total > 0, (1 - share) * chance + share * here, chance)
        return chance

    @property
    def _untried_steps(self) -> int:
        most = self.batch_size - self.terminal_steps
        return min(round(self.untried_share * self.batch_size), most)

    def _left_untried(self, state: OnlineState) -> Bool[Array, " capacity"]:
        """Returns which steps in the replay left a cell with an untried action."""
        untried = (state.visits.count[state.slots] == 0) & self.optimistic
        return untried.any(axis=1) & state.replay.is_filled

    def _rarity(self, state: OnlineState) -> Float[Array, " capacity"]:
        """Returns the probabilities of the steps in the replay under `evenly`, up to a factor."""
        times = state.visits.count[state.slots, state.replay.steps.action]
        return jnp.where(state.replay.is_filled, 1 / jnp.maximum(times, 1), 0.0)
