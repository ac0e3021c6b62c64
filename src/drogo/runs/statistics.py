"""Statistics over seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import bootstrap

RESAMPLES = 10_000


class Interval(NamedTuple):
    """A mean over seeds and its bootstrap interval. Not finite: it has none."""

    mean: float
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


def bootstrap_mean(
    values: Float[np.ndarray, " seeds"],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """Percentile bootstrap over seeds. One infinite value (a seed that never got there) and the
    mean is infinite: a mean over the others would flatter."""
    if not np.isfinite(values).all():
        return Interval(np.inf, np.inf, np.inf)
    mean = float(values.mean())
    if values.size == 1 or np.ptp(values) == 0:
        return Interval(mean, mean, mean)
    found = bootstrap(
        (values,),
        np.mean,
        confidence_level=level,
        n_resamples=resamples,
        method="percentile",
        rng=rng,
    ).confidence_interval
    return Interval(mean, float(found.low), float(found.high))


def bootstrap_band(
    curves: Float[np.ndarray, "seeds points"],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = 1000,
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Lower and upper edge around a mean curve: seeds are resampled as whole curves."""
    chosen = rng.integers(len(curves), size=(resamples, len(curves)))
    share = np.stack([np.bincount(row, minlength=len(curves)) for row in chosen]) / len(curves)
    means = share @ curves
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return low, high
