"""Tabular options: their problems solved by hand, and against value iteration."""

import numpy as np
import pytest

from drogo.errors import ArgumentError
from drogo_paper.agents.options import best_values, solve_option, sum_along
from raising import raises

CHAIN = np.array([[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]])
"""Five states in a row; left and right, and a blocked move stays."""
LEFT, RIGHT = 0, 1
VALLEY = np.array([2.0, 0.0, -1.0, 0.0, 8.0])


def test_an_option_crosses_a_valley():
    """With a discount of 1/2, from state 1: left gains 2; right gains -1 + 1/2 + 8/4 = 1.5.
    From state 2: right gains 1 + 8/2 = 5, left 1 + 2/2 = 2. From state 0, right gains
    -2 + (2 by going back)/2 = -1 at best: it ends there."""
    option = solve_option(CHAIN, VALLEY, discount=0.5)
    assert option.value.tolist() == [0, 2, 5, 8, 0]
    assert option.action[1:4].tolist() == [LEFT, RIGHT, RIGHT]
    assert option.ends.tolist() == [True, False, False, False, True]
    patient = solve_option(CHAIN, VALLEY, discount=0.9)
    # -2 - 0.9 + 0.81 + 0.729 * 8 = 3.742 from state 0.
    np.testing.assert_allclose(patient.value, [3.742, 6.38, 8.2, 8, 0])
    assert patient.ends.tolist() == [False] * 4 + [True]


def test_a_summit_that_cannot_be_stayed_on():
    """A triangle whose moves never stay. As published, going on for ever from the summit loses
    1 and gains 1, later: V = -1 + 0.9 (1 + 0.9 V), so V = -0.1/0.19. With an end, it is 0."""
    triangle = np.array([[1, 2], [0, 2], [0, 1]])
    e = np.array([1.0, 0.0, 0.0])
    endless = solve_option(triangle, e, discount=0.9, may_end=False)
    assert endless.value[0] == pytest.approx(-0.1 / 0.19)
    assert endless.value[1] == pytest.approx(1 - 0.9 * 0.1 / 0.19)
    ending = solve_option(triangle, e, discount=0.9)
    np.testing.assert_allclose(ending.value, [0, 1, 1])
    assert endless.ends.tolist() == ending.ends.tolist() == [True, False, False]


def test_actions_that_were_not_tried_and_runs():
    """The right summit is out of reach in the second run, in which nobody went right from 3."""
    tried = np.ones((2, 5, 2), dtype=bool)
    tried[1, 3, RIGHT] = False
    both = solve_option(CHAIN, np.stack([VALLEY, VALLEY]), discount=0.5, tried=tried)
    assert both.value.tolist() == [[0, 2, 5, 8, 0], [0, 2, 2, 0, 0]]


def test_wrong_use():
    with raises(ArgumentError, "values"):
        solve_option(CHAIN, np.array([0.0, np.nan, 0.0, 0.0, 0.0]))
    with raises(ArgumentError, "discount"):
        solve_option(CHAIN, VALLEY, discount=1.0)


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
    runs, states, actions = 4, 12, 3
    moves = rng.integers(states, size=(states, actions))
    gain = rng.normal(size=(actions, runs, states))
    goes_on = rng.random((actions, runs, states)) < 0.7
    options = {"discount": discount, "tolerance": 1e-11, "may_end": may_end}
    q = best_values(moves, gain, goes_on, **options)
    value = np.zeros((runs, states))
    for _ in range(4000):
        ahead = np.stack([value[:, moves[:, a]] for a in range(actions)])
        swept = gain + np.where(goes_on, discount * ahead, 0.0)
        value = swept.max(axis=0)
        value = np.maximum(value, 0.0) if may_end else value
    np.testing.assert_allclose(q, swept, atol=1e-9)
