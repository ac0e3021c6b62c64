"""`TerminalValues`: values of known terminal states, looked up by observation inside JAX."""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped, UInt32


class TerminalValues(eqx.Module):
    """A table of observations and values that replaces a network's values where it applies.

    Observations are found by a linear hash of their bits among the sorted hashes of the known ones,
    and compared bit for bit, so a lookup costs little however many are known.
    """

    most_alike: int = eqx.field(static=True)
    """The most known observations that share one hash."""
    multipliers: UInt32[Array, " words"]
    hashes: UInt32[Array, " known"]
    words: UInt32[Array, "known words"]
    values: Float[Array, " known"]

    def __call__(
        self, observations: Shaped[Array, "n ..."], values: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """Returns the values, replaced where an observation is known.

        Args:
            observations: A batch of observations.
            values: The network's values there.
        """
        if self.hashes.size == 0:
            return values
        words = _words(observations)
        hashes = words @ self.multipliers
        first = jnp.searchsorted(self.hashes, hashes)
        for k in range(self.most_alike):
            place = jnp.minimum(first + k, self.hashes.size - 1)
            known = (self.words[place] == words).all(axis=1)
            values = jnp.where(known, self.values[place].astype(values.dtype), values)
        return values


def terminal_values(
    observations: Shaped[np.ndarray, "known ..."], values: Float[np.ndarray, " known"]
) -> TerminalValues:
    """Returns the lookup of some known values.

    Args:
        observations: The observations of the terminal states, all different.
        values: The value of each.
    """
    words = np.asarray(_words(jnp.asarray(observations)))
    multipliers = np.random.default_rng(0).integers(2**32, size=words.shape[1], dtype=np.uint32)
    hashes = (words * (multipliers | np.uint32(1))[None]).sum(axis=1, dtype=np.uint32)
    order = np.argsort(hashes)
    return TerminalValues(
        int(np.unique(hashes, return_counts=True)[1].max(initial=0)),
        jnp.asarray(multipliers | np.uint32(1)),
        jnp.asarray(hashes[order]),
        jnp.asarray(words[order]),
        jnp.asarray(values[order], dtype=jnp.float32),
    )


def _words(observations: Shaped[Array, "n ..."]) -> UInt32[Array, "n words"]:
    """Returns the bits of each observation as whole numbers."""
    shape = (len(observations), math.prod(observations.shape[1:]))
    flat = jnp.asarray(observations).reshape(shape)
    # Numbers of 8 bytes become two words each, where JAX uses double precision.
    word = {1: jnp.uint8, 2: jnp.uint16}.get(flat.dtype.itemsize, jnp.uint32)
    return flat.view(word).astype(jnp.uint32)
