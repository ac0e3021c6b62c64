"""Intervals over seeds."""

import numpy as np
import pytest

from drogo_paper.statistics import Interval, bootstrap_band, bootstrap_mean


def test_covers_the_mean_about_as_often_as_it_says():
    """Of 20 normal numbers, the percentile bootstrap covers a little less than 95 %."""
    rng = np.random.default_rng(0)
    intervals = [bootstrap_mean(rng.normal(size=20), rng, resamples=400) for _ in range(300)]
    assert 0.88 <= np.mean([low <= 0 <= high for _, low, high in intervals]) <= 0.98


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


@pytest.mark.parametrize(("edges", "meet"), [("0213", 1), ("0123", 0), ("0312", 1), ("0112", 1)])
def test_overlap(edges, meet):
    low, high, other_low, other_high = map(float, edges)
    one, other = Interval(low, low, high), Interval(other_low, other_low, other_high)
    assert one.overlaps(other) is other.overlaps(one) is bool(meet)


def test_band_of_curves():
    curves = np.array([[0.0, 1.0, 5.0], [0.0, 3.0, 5.0]])
    low, high = bootstrap_band(curves, np.random.default_rng(0))
    np.testing.assert_allclose([low, high], [[0, 1, 5], [0, 3, 5]])
