"""The shaping reward of a potential, and its mix with the original reward, worked out by hand."""

import numpy as np
import pytest

from drogo.errors import ArgumentError
from drogo.potential import mix, shaping_reward
from raising import raises


def test_the_shaping_reward_of_a_step():
    """0.9 * 5 - 3 = 1.5; in a terminal state 0.9 * 0 - 3 = -3, unless its potential is kept."""
    assert shaping_reward(3.0, 5.0, False, discount=0.9) == pytest.approx(1.5)
    assert shaping_reward(3.0, 5.0, True, discount=0.9) == -3
    assert shaping_reward(3.0, 5.0, True, discount=0.9, terminal="keep") == pytest.approx(1.5)
    batch = (np.array([3.0, 3.0]), np.array([5.0, np.inf]), np.array([False, True]))
    assert shaping_reward(*batch, discount=0.9) == pytest.approx([1.5, -3])
    with raises(ArgumentError, "terminal"):
        shaping_reward(3.0, 5.0, True, discount=0.9, terminal="last")


def test_the_mix_of_two_rewards():
    """0.75 * -1 + 0.25 * 2 = -0.25; without a weight -1 + 2 = 1."""
    assert mix(-1.0, 2.0, 0.25) == -0.25
    assert mix(-1.0, 2.0, None) == 1
    assert mix(np.array([-1.0, 0.0]), np.array([2.0, 4.0]), 0.5).tolist() == [0.5, 2]
