"""Intervals over seeds."""

import numpy as np
import pytest

from drogo.statistics import Interval, bootstrap_band, bootstrap_mean


def test_covers_the_mean_about_as_often_as_it_says():
    """Of 20 normal numbers, the percentile bootstrap covers a little less than 95 %."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        interval = bootstrap_mean(rng.normal(size=20), rng, resamples=400)
        hits += interval.low <= 0 <= interval.high
    assert 0.88 <= hits / 300 <= 0.98


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0], (0.5, 0.0, 1.0)),  # a resampled mean is 0, 1/2 or 1 with odds 1 : 2 : 1
        ([3.0] * 10, (3.0, 3.0, 3.0)),
        ([1.0, np.inf], (np.inf, np.inf, np.inf)),  # one seed that never arrives leaves no mean
    ],
)
def test_means_by_hand(values, expected):
    assert bootstrap_mean(np.array(values), np.random.default_rng(0)) == expected


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [((0, 2), (1, 3), True), ((0, 1), (2, 3), False), ((0, 3), (1, 2), True), ((0, 1), (1, 2), True)],
)  # fmt: skip
def test_overlap(first, second, meet):
    one, other = (Interval(float(np.mean(ends)), *map(float, ends)) for ends in (first, second))
    assert one.overlaps(other) is meet
    assert other.overlaps(one) is meet


def test_band_of_curves():
    curves = np.array([[0.0, 1.0, 5.0], [0.0, 3.0, 5.0]])
    low, high = bootstrap_band(curves, np.random.default_rng(0))
    np.testing.assert_allclose([low, high], [[0, 1, 5], [0, 3, 5]])
