"""Means over seeds with bootstrap intervals."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LEVEL = 0.95
"""The coverage of every interval."""


class Interval(NamedTuple):
    """A mean over seeds and its bootstrap interval; all three are infinite if the mean is."""

    mean: float
    low: float
    high: float

    def overlaps(self, other: "Interval") -> bool:
        """Returns whether two intervals have a number in common."""
        return self.low <= other.high and other.low <= self.high


def bootstrap_mean(
    values: Float[np.ndarray, " seeds"], rng: np.random.Generator, *, resamples: int = 10_000
) -> Interval:
    """Computes a mean over seeds with its percentile bootstrap interval. If one value is infinite
    (a seed that did not reach the goal), so is the mean: others would be too favourable."""
    if not np.isfinite(values).all():
        return Interval(np.inf, np.inf, np.inf)
    mean = float(values.mean())
    if values.size == 1 or np.ptp(values) == 0:
        return Interval(mean, mean, mean)
    from scipy.stats import bootstrap  # takes a second

    options = {"confidence_level": LEVEL, "n_resamples": resamples, "method": "percentile"}
    low, high = bootstrap((values,), np.mean, rng=rng, **options).confidence_interval
    return Interval(mean, float(low), float(high))


def bootstrap_band(
    curves: Float[np.ndarray, "seeds points"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Computes the lower and upper edge of an interval around the mean of whole curves."""
    chosen = rng.integers(len(curves), size=(1000, len(curves)))
    share = np.stack([np.bincount(row, minlength=len(curves)) for row in chosen]) / len(curves)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(share @ curves, [tail, 1 - tail], axis=0)
    return low, high
