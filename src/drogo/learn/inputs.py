"""`Inputs`: how observations are turned into the numbers that a network sees."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from drogo.errors import ArgumentError, DataError

ROWS_LOOKED_AT, NUMBERS_LOOKED_AT = 100_000, 2**24
"""How much of a long table the range of its numbers is taken from."""
IMAGES_AT_ONCE = 1000
NARROW = 0.1
"""A coordinate with a smaller range than this is hard for a network to tell apart."""

STEPS_OF_SINGLE_PRECISION = 2**18
"""Single precision has 24 bits; a range that is smaller than its distance from 0 by this factor has
fewer than 64 numbers in it."""


class Inputs(eqx.Module):
    """Turns bytes into numbers in [-0.5, 0.5], state numbers into rows of a table, and normalises
    other numbers if asked to.

    The statistics are arrays, so other statistics of the same shape compile nothing. They are of
    double precision, and are NumPy's: coordinates such as 1e8 + k differ only in digits that single
    precision does not have, so they must be shifted before they go to the device.
    """

    shift: Float[np.ndarray | Array, " size"] | None = None
    scale: Float[np.ndarray | Array, " size"] | None = None
    chosen: Int[np.ndarray | Array, " size"] | None = None
    """The pixels of a flattened image that are used, or None for all of them."""
    states: Int[np.ndarray | Array, " states"] | None = None
    """The state numbers whose rows a table has, sorted; None if the network is not a table."""

    def __check_init__(self) -> None:
        if (self.shift is None) != (self.scale is None):
            raise ArgumentError("a shift and a scale of inputs come together.")

    def __call__(self, observations: Any) -> Any:
        """Returns the numbers for a batch of observations, in NumPy or in JAX as it came."""
        if self.states is not None:
            return self._row(observations)
        if self.chosen is not None:
            flat = observations.reshape(len(observations), math.prod(observations.shape[1:]))
            return self._scaled(flat[:, self.chosen])
        if observations.dtype == np.uint8:
            return observations.astype(np.float32) / np.float32(255) - np.float32(0.5)
        if self.shift is None:
            short = observations.dtype in (bool, np.float16)
            return observations.astype(np.float32) if short else observations
        return self._scaled(observations)

    def prepare(self, observations: Shaped[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "n ..."]:
        """Returns observations as they go to the device, where `finish` does the rest.

        Numbers are normalised here, in double precision. Bytes stay bytes, which take less room.
        """
        return observations if self._stays(observations) else self(observations)

    def finish(self, prepared: Shaped[Array, "n ..."]) -> Shaped[Array, "n ..."]:
        """Returns the numbers for a batch of prepared observations."""
        return self(prepared) if self._stays(prepared) else prepared

    def _stays(self, observations: Any) -> bool:
        bare = self.shift is None and self.states is None
        return bare or observations.dtype == np.uint8

    def _row(self, numbers: Any) -> Any:
        """Returns the rows of state numbers. A number that is not known has none: it is an error,
        or inside a compiled program a row beyond the table, whose value is NaN."""
        library = np if isinstance(numbers, np.ndarray) else jnp
        states = library.asarray(self.states, numbers.dtype)
        row = library.searchsorted(states, numbers)
        known = states[library.minimum(row, len(states) - 1)] == numbers
        if library is np and not known.all():
            raise DataError(
                f"state {numbers[~known][0]} does not occur in the data, so a table has no value "
                "for it. Collect transitions that visit it."
            )
        return library.where(known, row, len(states)).astype(np.int32)

    def _scaled(self, numbers: Any) -> Any:
        library = np if isinstance(numbers, np.ndarray) else jnp
        precise = numbers.astype(np.result_type(float) if library is np else jnp.result_type(float))
        shift, scale = (library.asarray(part, precise.dtype) for part in (self.shift, self.scale))
        return ((precise - shift[None]) * scale[None]).astype(np.float32)


def fit_inputs(
    observations: Shaped[np.ndarray, "n ..."],
    *,
    normalise: bool,
    by_pixel: bool = False,
    by_state: bool = False,
) -> Inputs:
    """Returns the inputs that suit a table of observations."""
    if by_state:
        if observations.ndim != 1 or not np.issubdtype(observations.dtype, np.integer):
            raise ArgumentError(
                "a table needs state numbers as observations (observation='state'); these have "
                f"shape {observations.shape[1:]} and type {observations.dtype}.",
                argument="network",
            )
        return Inputs(states=np.unique(observations))
    if observations.ndim == 4 and by_pixel and normalise:
        return _by_pixel(observations)
    if observations.ndim != 2 or observations.dtype == np.uint8:
        return Inputs()
    most = max(1, min(ROWS_LOOKED_AT, NUMBERS_LOOKED_AT // observations.shape[1]))
    every = -(-len(observations) // most)
    seen = np.asarray(observations[::every], dtype=np.float64)
    low, high = seen.min(axis=0), seen.max(axis=0)
    width, largest = high - low, np.abs(seen).max(axis=0)
    varies = width > 0
    if not normalise:
        lost = varies & (largest > STEPS_OF_SINGLE_PRECISION * width)
        if lost.any():
            k = int(lost.argmax())
            raise DataError(
                f"number {k} of the observations lies between {low[k]!r} and {high[k]!r}, which "
                "single precision hardly distinguishes.",
                remedy="Use a network with normalise=True, or shift the numbers.",
            )
        return Inputs()
    if largest.max() <= 1 and (width[varies] >= NARROW).all():
        return Inputs()
    scale = np.divide(1.0, width, out=np.ones_like(width), where=varies)
    return Inputs((low + high) / 2, scale)


def _by_pixel(images: Shaped[np.ndarray, "n height width channels"]) -> Inputs:
    """Takes the pixels that ever change, each less its mean and divided by its range.

    Images of one scene differ in a few pixels before a background that they share. A dense layer
    that sees the background too learns to tell them apart only slowly.
    """
    size = math.prod(images.shape[1:])
    low, high, total = np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size)
    for begin in range(0, len(images), IMAGES_AT_ONCE):
        part = np.asarray(images[begin : begin + IMAGES_AT_ONCE])
        rows = part.reshape(len(part), -1).astype(np.float64)
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        total += rows.sum(axis=0)
    chosen = np.flatnonzero(high > low)
    if not chosen.size:
        return Inputs()
    mean, width = total[chosen] / len(images), (high - low)[chosen]
    return Inputs(mean, 1 / width, chosen.astype(np.int32))
