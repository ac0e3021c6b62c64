"""How often each action was taken in each part of the observations: a bounded table of counts."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt32

SLOTS = 2**18
"""Different parts share a slot of the table only by chance: one in a thousand if there are 256 of
them, one in ten if there are 26,000."""


class Visits(eqx.Module):
    """Counts of actions in *cells*: observations whose numbers, divided by the sides of a cell and
    rounded down, are the same. Cells are told apart by a hash."""

    count: Int[Array, "slots actions"]
    sides: Float[Array, " size"]
    """The side of a cell along each number of an observation."""
    multipliers: UInt32[Array, " size"]

    @classmethod
    def none(cls, sides: Float[Any, " size"], actions: int, slots: int = SLOTS) -> Visits:
        """Returns the table before the first visit.

        Args:
            sides: The side of a cell along each number of a flat observation.
            actions: The number of actions.
            slots: The number of rows of the table.
        """
        odd = np.random.default_rng(0).integers(2**31, size=sides.size, dtype=np.uint32) * 2 + 1
        count = jnp.zeros((slots, actions), jnp.int32)
        return cls(count, jnp.asarray(sides, jnp.float32), jnp.asarray(odd.astype(np.uint32)))

    def slot(self, observations: Shaped[Array, "n ..."]) -> UInt32[Array, " n"]:
        """Returns the row of the table for each observation."""
        shape = (len(observations), math.prod(observations.shape[1:]))
        flat = jnp.asarray(observations).reshape(shape).astype(jnp.float32)
        cells = jnp.floor(flat / self.sides[None]).astype(jnp.int32).astype(jnp.uint32)
        mixed = cells @ self.multipliers
        mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(0x2C1B3C6D)
        return (mixed ^ (mixed >> 12)) % jnp.uint32(self.count.shape[0])

    def add(
        self,
        observations: Shaped[Array, "n ..."],
        actions: Int[Array, " n"],
        chosen: Bool[Array, " n"],
    ) -> Visits:
        """Returns the table with some more visits.

        Args:
            observations: Where actions were taken.
            actions: The actions.
            chosen: Which of them to count.
        """
        more = chosen.astype(jnp.int32)
        count = self.count.at[self.slot(observations), actions].add(more)
        return eqx.tree_at(lambda visits: visits.count, self, count)

    def of(self, observations: Shaped[Array, "n ..."]) -> Int[Array, "n actions"]:
        """Returns how often each action was taken where these observations are."""
        return self.count[self.slot(observations)]

    def untried(
        self, observations: Shaped[Array, "n ..."], known_after: int
    ) -> Bool[Array, "n actions"]:
        """Returns which actions were not tried in the cells of some observations.

        Args:
            observations: A batch of observations.
            known_after: How many times an action must have been taken to count as tried.
        """
        return self.of(observations) < max(known_after, 1)

    def is_done(self, known_after: int) -> Bool[Array, ""]:
        """Returns whether every action was tried in all cells that were ever left.

        Args:
            known_after: How many times an action must have been taken to count as tried.
        """
        untried = self.count < max(known_after, 1)
        return ~(untried & (self.count > 0).any(axis=1, keepdims=True)).any()
