"""The shaping table beside the published numbers."""

import numpy as np
import pytest

from drogo.statistics import Interval
from drogo_paper import published, shaping
from drogo_paper.agents.shaping_experiment import UNITS, Row


def test_only_methods_of_the_paper_are_compared():
    interval = Interval(1.0, 1.0, 1.0)
    row = Row(0.5, 1.0, interval, interval, 0, dict.fromkeys(UNITS, False))
    rows = dict.fromkeys(["none", "SR", "SR distance", "DR exact"], row)
    lines = shaping.lines_of("four-rooms", rows)
    assert [line[2] for line in lines] == ["none", "SR"] * 2


def test_published_numbers():
    """Spot checks against the printed table."""
    printed = published.shaping("steps_to_optimal", "grid-maze", "DR pixels")
    np.testing.assert_allclose(printed, (7470, 6020, 9100))
    np.testing.assert_allclose(
        published.shaping("low_reward_visits", "four-rooms", "SR"), (130, 127, 133)
    )
    assert published.shaping("steps_to_optimal", "grid-room", "SR") is None
    assert published.shaping("low_reward_visits", "mine", "SR") is None


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ((5, 4, 6), (5, 4.5, 5.5), "inside the published interval"),
        ((6, 5, 7), (5, 4.5, 5.5), "+20 %, intervals overlap"),
        ((4, 3.5, 4.2), (5, 4.5, 5.5), "-20 %, intervals apart"),
        ((np.inf,) * 3, (5, 4, 6), "does not converge here"),
        ((np.inf,) * 3, None, "no convergence in either"),
        ((5, 4, 6), None, "converges here, not in the paper"),
    ],
)
def test_verdicts(ours, theirs, words):
    as_interval = [None if x is None else Interval(*map(float, x)) for x in (ours, theirs)]
    assert published.verdict(*as_interval) == words
