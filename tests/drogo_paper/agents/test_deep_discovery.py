"""Deep option discovery, with an exact map and with a network."""

import gymnasium
import numpy as np
import pytest

from drogo import Column, OnlineTable
from drogo.errors import ArgumentError, DataError
from drogo_paper.agents import Cycle, discover_deep
from ledge import FALL, LAST, NETWORK, Ledge
from raising import raises


def discover_with_a_table():
    options = {"problem": Column(lam=5.0), "until_found": False, "every": 1}
    cycle = Cycle(4, steps=25, p_option=0.5)
    return discover_deep(Ledge, cycle, make_map=OnlineTable, **options)


def test_an_exact_map_discovers_everything_and_knows_no_end():
    result = discover_with_a_table()
    assert result.visited.tolist()[-1] == LAST + 1  # the terminal place does not count
    assert (np.diff(result.visited) >= 0).all()
    seen_steps = result.online.seen()
    assert result.online.steps == 100
    assert not seen_steps.terminated.any()
    falls = np.isclose(seen_steps.reward, -1 + FALL)
    assert falls.sum() == 1  # one kind of step
    assert result.deaths.sum() == seen_steps.count[falls].sum() > 0
    assert result.reward.mean() == pytest.approx(-1 + FALL * result.deaths.sum() / 100)
    assert result.begun > 0
    again = discover_with_a_table()
    assert again.visited.tolist() == result.visited.tolist()
    walk = discover_deep(Ledge, Cycle(2, p_option=0.0))
    assert (walk.online, list(walk.options), walk.begun) == (None, [], 0)


@pytest.mark.slow
def test_a_network_discovers_and_is_the_same_again():
    cycle = Cycle(3, steps=20, p_option=0.5)
    runs = [
        discover_deep(Ledge, cycle, seed=3, reward=reward, updates_per_step=0.5, **NETWORK)
        for reward in (None, None, lambda step: -1.0)
    ]
    assert runs[0].visited.tolist() == runs[1].visited.tolist()
    assert runs[0].reward.tolist() == runs[1].reward.tolist()
    assert runs[2].online.steps == 60
    assert len(runs[0].options) == 1
    assert 0 < runs[0].online.updates <= 60 * 0.5


def test_errors_of_deep_discovery():
    with raises(DataError):
        discover_deep(lambda: gymnasium.make("CartPole-v1"), Cycle(1, steps=10))
    with raises(ArgumentError):
        discover_deep(Ledge, Cycle(1), reward=1.0)
    with raises(ArgumentError, "iterations"):
        Cycle(iterations=0)
