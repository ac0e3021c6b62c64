"""Norms that count: updates and bonuses by hand, and the fixed point of the default one."""

import numpy as np
import pytest

from drogo import ArgumentError
from drogo.use.counts import CountedStep, DefaultCounts, SuccessorCounts

HALVING = 1 / np.log(2)
"""With this lambda, a reward of -1 halves."""


def step(state, next_state, reward=-1.0, *, action=0, next_action=0, ended=False):
    whole = (np.array([number]) for number in (state, action))
    after = (np.array([number]) for number in (next_state, next_action))
    return CountedStep(*whole, np.array([reward]), *after, np.array([ended]))


def default(states=2, actions=1, **options):
    options = {"lam": HALVING, "step_size": 0.5, "weight": 3.0} | options
    return DefaultCounts(states, actions, **options)


def test_one_update_of_the_default_representation():
    """Half of the way from (1, 0) to (1/2) ((1, 0) + (0, 1)) is (3/4, 1/4)."""
    counts = default()
    bonus = counts.update(step(0, 1))
    assert counts.table[0].tolist() == [[0.75, 0.25], [0, 1]]
    assert bonus == pytest.approx(3 * np.log(np.sqrt(0.75**2 + 0.25**2)))
    # From there and its row (0, 1) to (1/2) (3/4, 1/4 + 1): to (3/8, 5/8), half of the way.
    counts.update(step(1, 0))
    np.testing.assert_allclose(counts.table[0, 1], [3 / 16, 13 / 16])


def test_nothing_follows_the_end():
    counts = default()
    assert counts.update(step(0, 1, ended=True)) == pytest.approx(3 * np.log(0.75))
    assert counts.table[0, 0].tolist() == [0.75, 0]


def test_pairs_and_rewards_that_are_positive():
    """Of two actions, the second of state 1 is pair 3. A reward of 6, of at most 10: (6 - 10)/4."""
    counts = default(2, 2, best=10.0, unit=4.0)
    counts.update(step(1, 0, reward=6.0, action=1, next_action=1))
    assert counts.table[0, 3].tolist() == [0, 0.25, 0, 0.75]
    with pytest.raises(ArgumentError, match="a reward is 11, and best is 10"):
        counts.update(step(1, 0, reward=11.0))


def test_it_tends_to_the_default_representation():
    """Around a circle of three states with different costs."""
    counts, reward = default(3), np.array([-1.0, -0.2, -2.0])
    for k in range(300):
        counts.update(step(k % 3, (k + 1) % 3, reward[k % 3]))
    P = np.eye(3)[[1, 2, 0]]
    np.testing.assert_allclose(counts.table[0], np.linalg.inv(np.diag(2**-reward) - P))


def test_two_updates_of_the_successor_representation():
    """(0, 0) goes half of the way to (1, 0); then (0, 0) half of the way to (1/4, 1)."""
    counts = SuccessorCounts(2, discount=0.5, step_size=0.5, weight=3.0)
    assert counts.update(step(0, 1)) == pytest.approx(3 / 0.5)
    assert counts.update(step(1, 0)) == pytest.approx(3 / 0.625)
    assert counts.table[0].tolist() == [[0.5, 0], [0.125, 0.5]]
    assert counts.update(step(1, 0, ended=True)) == pytest.approx(3 / 0.8125)


def test_wrong_settings_are_named():
    with pytest.raises(ArgumentError, match="lam is 0"):
        default(lam=0.0)
    with pytest.raises(ArgumentError, match="unit is -1"):
        default(unit=-1.0)
    with pytest.raises(ArgumentError, match="step_size is 2"):
        default(step_size=2.0)
