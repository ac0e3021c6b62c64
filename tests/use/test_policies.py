"""The best way through a table of moves, against sweeps of value iteration."""

import numpy as np
import pytest

from drogo.use.options.policies import best_values, sum_along
from drogo.use.options.tabular import solve_option


def test_sums_along_a_path_by_hand():
    """0 -> 1 -> 2 -> 2 with gains 1, 2 and 3: four steps from 0, halved each time."""
    after, gain = np.array([[1, 2, 2]]), np.array([[1.0, 2.0, 3.0]])
    total, reached = sum_along(after, gain, 0.5, 2)
    assert total[0].tolist() == [1 + 2 / 2 + 3 / 4 + 3 / 8, 2 + 3 / 2 + 3 / 4 + 3 / 8, 5.625]
    assert reached.tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("may_end", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
def test_the_best_of_all_policies(may_end, discount):
    rng = np.random.default_rng(3)
    lanes, states, actions = 4, 12, 3
    moves = rng.integers(states, size=(states, actions))
    gain = rng.normal(size=(actions, lanes, states))
    goes_on = rng.random((actions, lanes, states)) < 0.7
    q = best_values(
        moves, gain, goes_on, discount=discount, tolerance=1e-11, may_end=may_end
    )  # fmt: skip
    value = np.zeros((lanes, states))
    for _ in range(4000):
        ahead = np.stack([value[:, moves[:, a]] for a in range(actions)])
        swept = gain + np.where(goes_on, discount * ahead, 0.0)
        value = swept.max(axis=0)
        value = np.maximum(value, 0.0) if may_end else value
    np.testing.assert_allclose(q, swept, atol=1e-9)


@pytest.mark.parametrize("may_end", [False, True])
def test_an_option_in_what_was_tried(may_end):
    """As value iteration has it, in which an action that was not tried is worth 0."""
    rng = np.random.default_rng(5)
    moves, e = rng.integers(9, size=(9, 4)), rng.normal(size=(3, 9))
    tried = rng.random((3, 9, 4)) < 0.6
    found = solve_option(moves, e, tried=tried, may_end=may_end)
    value = np.zeros((3, 9))
    for _ in range(4000):
        gain = e[:, moves] - e[:, :, None] + 0.99 * value[:, moves]
        value = np.where(tried, gain, 0.0).max(axis=2)
        value = np.maximum(value, 0.0) if may_end else value
    np.testing.assert_allclose(found.value, value, atol=1e-9)
    np.testing.assert_array_equal(found.ends, value <= 1e-6 * np.ptp(e))
