"""`Inputs`: what is done to observations before a network sees them. Kept with the fit."""

from __future__ import annotations

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

    @classmethod
    def of(cls, observations: Shaped[np.ndarray, "n ..."], normalise: bool) -> Inputs:
        """`normalise` scales vectors of numbers whose ranges differ too much from [-1, 1]; those
        that fit already, as one-hot states and scaled coordinates do, are left alone."""
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
        if observations.dtype == np.uint8:
            return observations.astype(np.float32) / np.float32(255) - np.float32(0.5)
        if not self.shift:
            return observations.astype(np.float32) if observations.dtype == bool else observations
        shift, scale = (np.array([part], dtype=np.float32) for part in (self.shift, self.scale))
        return (observations.astype(np.float32) - shift) * scale

    def as_json(self) -> dict[str, list[float]]:
        return {"shift": list(self.shift), "scale": list(self.scale)}

    @classmethod
    def from_json(cls, values: dict[str, list[float]]) -> Inputs:
        return cls(tuple(values["shift"]), tuple(values["scale"]))
