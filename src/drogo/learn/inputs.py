"""`Inputs`: what is done to observations before a network sees them. Kept with the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

LOOKED_AT = 100_000
"""Rows of a long table from which the range of its numbers is taken."""
NUMBERS_LOOKED_AT = 2**24
NARROW = 0.1
"""A number whose range is smaller than this is hard to tell apart; one of 2 or less is fine."""


@dataclass(frozen=True)
class Inputs:
    """Bytes become numbers in [-0.5, 0.5]; others stay as they are, or are shifted and scaled to
    that range. Hashable: compiled programs are kept by it."""

    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    chosen: tuple[int, ...] = ()
    """Of a flattened image, the numbers that are looked at; empty: all of them."""

    @classmethod
    def of(
        cls,
        observations: Shaped[np.ndarray, "n ..."],
        normalise: bool,
        flat: bool = False,
    ) -> Inputs:
        """`normalise` scales vectors of numbers whose ranges differ too much from [-1, 1]; those
        that fit already, as one-hot states and scaled coordinates do, are left alone. Images that
        will be `flat` are normalised by pixel: see `by_pixel`."""
        if observations.ndim == 4 and flat and normalise:
            return by_pixel(observations)
        vectors = observations.ndim == 2 and observations.dtype != np.uint8
        if not (normalise and vectors):
            return cls()
        most = max(1, min(LOOKED_AT, NUMBERS_LOOKED_AT // observations.shape[1]))
        every = -(-len(observations) // most)
        seen = np.asarray(observations[::every], dtype=np.float64)
        low, high = seen.min(axis=0), seen.max(axis=0)
        width = high - low
        moving = width > 0
        fits = (np.abs(seen).max() <= 1) and (width[moving] >= NARROW).all()
        if fits:
            return cls()
        middle = (low + high) / 2
        scale = np.divide(1.0, width, out=np.ones_like(width), where=moving)
        return cls(tuple(middle.tolist()), tuple(scale.tolist()))

    def __call__(self, observations: Any) -> Any:
        """Of NumPy or JAX arrays."""
        if self.chosen:
            flat = observations.reshape(len(observations), -1)[:, np.array(self.chosen)]
            return self._scaled(flat)
        if observations.dtype == np.uint8:
            return observations.astype(np.float32) / np.float32(255) - np.float32(0.5)
        if not self.shift:
            return observations.astype(np.float32) if observations.dtype == bool else observations
        return self._scaled(observations)

    def _scaled(self, observations: Any) -> Any:
        shift, scale = (np.array([part], dtype=np.float32) for part in (self.shift, self.scale))
        return (observations.astype(np.float32) - shift) * scale

    def as_json(self) -> dict[str, list[Any]]:
        return {name: list(part) for name, part in vars(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, list[Any]]) -> Inputs:
        return cls(**{name: tuple(part) for name, part in values.items()})


def by_pixel(images: Shaped[np.ndarray, "n height width channels"]) -> Inputs:
    """Numbers that ever change, each less its mean and divided by its range.

    Images of one scene differ in a few pixels before a background that is the same in all. A dense
    layer sees little but the background, and learns to tell them apart slowly; what is left here
    is what tells them apart.
    """
    size = int(np.prod(images.shape[1:], dtype=np.int64))
    low, high, total = np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size)
    for part in _pieces(images):
        rows = part.reshape(len(part), -1).astype(np.float64)
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        total += rows.sum(axis=0)
    chosen = np.flatnonzero(high > low)
    if not chosen.size:
        return Inputs()
    mean, width = total[chosen] / len(images), (high - low)[chosen]
    return Inputs(tuple(mean.tolist()), tuple((1 / width).tolist()), chosen=tuple(chosen.tolist()))


def _pieces(images: np.ndarray) -> Iterator[np.ndarray]:
    """Some images at a time: together they may be large."""
    for start in range(0, len(images), 1000):
        yield np.asarray(images[start : start + 1000])
