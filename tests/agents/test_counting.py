"""Agents with bonuses: their updates by hand, and what is left to chance."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from drogo import ArgumentError
from drogo.agents.counting import Drawn, run_counting
from drogo.errors import NumericalError
from drogo.use.counts import DefaultCounts, SuccessorCounts
from drogo.worlds import river_swim, six_arms

RIGHT, LEFT = 0, 1
RIVER = river_swim()


@dataclass
class Scripted:
    """Chance that was decided before: actions, with those of the updates between them."""

    acts: list
    moves: list
    first: int = 5
    seen: list = field(default_factory=list)

    def start(self):
        return np.array([self.first])

    def act(self, values):
        self.seen.append(values[0].tolist())
        return np.array([self.acts.pop(0)])

    def move(self, state, action):
        return np.array([self.moves.pop(0)])


def test_sarsa_by_hand():
    """10,000 for staying at the end, then nothing, then nothing and no bootstrap."""
    chance = Scripted([RIGHT, RIGHT, RIGHT, LEFT, LEFT, RIGHT], [5, 5, 4])
    runs = run_counting(RIVER, chance, step_size=0.5, discount=0.9, steps=3)
    # 1: half of 10,000 + 0.9 * 0. 2: 5,000 + (10,000 + 0.9 * 0 - 5,000)/2, of the action left.
    assert runs.q[0, 5].tolist() == [7500, 0]
    assert runs.returns.tolist() == [20_000]
    assert runs.visits[0].sum(axis=0).tolist() == [2, 1]
    assert chance.seen[1] == [0, 0]  # the action of the update is drawn before the update,
    assert chance.seen[2] == [5000, 0]  # and the next one after it


def test_q_learning_bootstraps_from_the_best():
    chance = Scripted([RIGHT, RIGHT, RIGHT, LEFT, LEFT, RIGHT], [5, 5, 4])
    runs = run_counting(RIVER, chance, step_size=0.5, discount=0.9, steps=3, target="q-learning")
    # The second target is 10,000 + 0.9 * 5,000.
    assert runs.q[0, 5, RIGHT] == 5000 + (14_500 - 5000) / 2


def test_the_bonus_is_learned_with_the_value_but_not_earned():
    chance = Scripted([LEFT, LEFT, LEFT, LEFT], [4, 3])
    counts = SuccessorCounts(6, discount=0.5, step_size=0.5, weight=3.0)
    runs = run_counting(RIVER, chance, step_size=0.5, counts=counts, steps=2)
    assert runs.returns.tolist() == [0]
    assert runs.q[0, [5, 4], LEFT].tolist() == [3, 3]  # half of 3 / (1/2)


def lanes_of(count):
    best = {"best": 1e4, "unit": 1e4}
    counts = DefaultCounts(6, 2, lam=1.0, step_size=0.5, weight=100.0, lanes=count, **best)
    rngs = [np.random.default_rng([5, lane]) for lane in range(count)]
    return run_counting(RIVER, Drawn(RIVER, 0.1, rngs), step_size=0.25, counts=counts, steps=100)


def test_a_lane_does_not_depend_on_others():
    one, three = lanes_of(1), lanes_of(3)
    np.testing.assert_array_equal(one.q[0], three.q[0])
    assert one.returns[0] == three.returns[0]
    assert (three.visits.sum(axis=(1, 2)) == 100).all()
    assert (three.q[0] != three.q[1]).any()


def test_choices_among_equals_and_exploration():
    lanes, world = 3000, six_arms()
    values = np.tile([0.0, 2.0, 1.0, 2.0, -1.0, 0.0], (lanes, 1))

    def share(epsilon):
        chance = Drawn(world, epsilon, [np.random.default_rng([1, k]) for k in range(lanes)])
        return np.bincount(chance.act(values), minlength=6) / lanes

    np.testing.assert_allclose(share(0.0), [0, 0.5, 0, 0.5, 0, 0], atol=0.03)
    np.testing.assert_allclose(share(1.0), np.full(6, 1 / 6), atol=0.03)
    np.testing.assert_allclose(share(0.3), np.array([1, 8, 1, 8, 1, 1]) / 20, atol=0.03)


def test_moves_and_starts_follow_their_probabilities():
    lanes = 3000
    chance = Drawn(RIVER, 0.0, [np.random.default_rng([2, k]) for k in range(lanes)])
    start = np.bincount(chance.start(), minlength=6) / lanes
    np.testing.assert_allclose(start, RIVER.start, atol=0.03)
    reached = chance.move(np.full(lanes, 2), np.full(lanes, RIGHT))
    share = np.bincount(reached, minlength=6) / lanes
    np.testing.assert_allclose(share, [0, 0.1, 0.6, 0.3, 0, 0], atol=0.03)


def test_errors_say_what_is_wrong():
    rngs = [np.random.default_rng(0)]
    wrong = SuccessorCounts(6, discount=0.5, step_size=0.5, weight=1.0, lanes=2)
    with pytest.raises(ArgumentError, match="counts has 2 lanes, and there are 1"):
        run_counting(RIVER, Drawn(RIVER, 0.1, rngs), step_size=0.1, counts=wrong)
    with pytest.raises(ArgumentError, match="target is 'expected'"):
        run_counting(RIVER, Drawn(RIVER, 0.1, rngs), step_size=0.1, target="expected")
    huge = SuccessorCounts(6, discount=0.5, step_size=0.5, weight=np.inf)
    with pytest.raises(NumericalError, match="not finite"):
        run_counting(RIVER, Drawn(RIVER, 0.1, rngs), step_size=0.1, counts=huge, steps=3)
