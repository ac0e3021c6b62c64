"""Exploration bonuses: updates of agents and representations by hand, and random choices."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from drogo.errors import ArgumentError, NumericalError
from drogo_paper.agents import counting
from drogo_paper.continuing_worlds import river_swim
from raising import refused

RIGHT, LEFT = 0, 1
RIVER = river_swim()
run_counting = partial(counting.run_counting, RIVER)


@dataclass
class Scripted:
    """Chance that was decided before: actions, with those of the updates between them."""

    acts: list
    moves: list
    seen: list = field(default_factory=list)

    def start(self):
        return np.array([5])

    def act(self, values):
        self.seen.append(values[0].tolist())
        return np.array([self.acts.pop(0)])

    def move(self, state, action):
        return np.array([self.moves.pop(0)])


def test_sarsa_by_hand():
    """10,000 for staying at the end, then nothing, then nothing and no bootstrap."""
    chance = Scripted([RIGHT, RIGHT, RIGHT, LEFT, LEFT, RIGHT], [5, 5, 4])
    runs = run_counting(chance, step_size=0.5, discount=0.9, steps=3)
    # 1: half of 10,000 + 0.9 * 0. 2: 5,000 + (10,000 + 0.9 * 0 - 5,000)/2, of the action left.
    assert (runs.q[0, 5].tolist(), runs.returns.tolist()) == ([7500, 0], [20_000])
    assert chance.seen[1] == [0, 0]  # the action of the update is drawn before the update,
    assert chance.seen[2] == [5000, 0]  # and the next one after it
    # A bonus is learned with the value, but not earned.
    chance = Scripted([LEFT, LEFT, LEFT, LEFT], [4, 3])
    counts = counting.SuccessorCounts(6, discount=0.5, step_size=0.5, weight=3.0)
    runs = run_counting(chance, step_size=0.5, counts=counts, steps=2)
    assert runs.returns.tolist() == [0]
    assert runs.q[0, [5, 4], LEFT].tolist() == [3, 3]  # half of 3 / (1/2)


def test_a_run_does_not_depend_on_others():
    def runs_of(count):
        rngs = [np.random.default_rng([5, run]) for run in range(count)]
        chance = counting.SampledChance(RIVER, 0.1, rngs)
        counts = default(6, 2, lam=1.0, weight=100.0, best=1e4, unit=1e4, runs=count)
        return run_counting(chance, step_size=0.25, counts=counts, steps=100)

    one, three = runs_of(1), runs_of(3)
    np.testing.assert_array_equal(one.q[0], three.q[0])
    assert one.returns[0] == three.returns[0]
    assert (three.q[0] != three.q[1]).any()


def step(state, next_state, reward=-1.0, *, action=0, next_action=0, ended=False):
    parts = (state, action, reward, next_state, next_action, ended)
    return counting.CountedStep(*(np.array([part]) for part in parts))


def default(states=2, actions=1, **options):
    """With this lambda, a reward of -1 halves."""
    settings = {"lam": 1 / np.log(2), "step_size": 0.5, "weight": 3.0, **options}
    return counting.DefaultCounts(states, actions, **settings)


def test_updates_of_both_representations_and_the_closed_form():
    """Half of the way from (1, 0) to (1/2) ((1, 0) + (0, 1)) is (3/4, 1/4)."""
    counts = default()
    bonus = counts.update(step(0, 1))
    assert counts.table[0].tolist() == [[0.75, 0.25], [0, 1]]
    assert bonus == pytest.approx(3 * np.log(np.sqrt(0.75**2 + 0.25**2)))
    # From there and its row (0, 1) to (1/2) (3/4, 1/4 + 1): to (3/8, 5/8), half of the way.
    counts.update(step(1, 0))
    np.testing.assert_allclose(counts.table[0, 1], [3 / 16, 13 / 16])
    # The second of two actions of state 1 is pair 3. A reward of 6, of at most 10: (6 - 10)/4.
    counts = default(2, 2, best=10.0, unit=4.0)
    counts.update(step(1, 0, reward=6.0, action=1, next_action=1))
    assert counts.table[0, 3].tolist() == [0, 0.25, 0, 0.75]
    refused(ArgumentError, "best", counts.update, step(1, 0, reward=11.0))
    # (0, 0) goes half of the way to (1, 0); then (0, 0) half of the way to (1/4, 1).
    counts = counting.SuccessorCounts(2, discount=0.5, step_size=0.5, weight=3.0)
    assert counts.update(step(0, 1)) == pytest.approx(3 / 0.5)
    assert counts.update(step(1, 0)) == pytest.approx(3 / 0.625)
    assert counts.table[0].tolist() == [[0.5, 0], [0.125, 0.5]]
    assert counts.update(step(1, 0, ended=True)) == pytest.approx(3 / 0.8125)
    # Around a circle of three states with different costs.
    counts, reward = default(3), np.array([-1.0, -0.2, -2.0])
    for k in range(300):
        counts.update(step(k % 3, (k + 1) % 3, reward[k % 3]))
    P = np.eye(3)[[1, 2, 0]]
    np.testing.assert_allclose(counts.table[0], np.linalg.inv(np.diag(2**-reward) - P))


def test_errors():
    run = partial(run_counting, counting.SampledChance(RIVER, 0.1, [np.random.default_rng(0)]))
    counts = partial(counting.SuccessorCounts, 6, discount=0.5, step_size=0.5, weight=np.inf)
    refused(ArgumentError, "counts", run, step_size=0.1, counts=counts(runs=2))
    refused(ArgumentError, "target", run, step_size=0.1, target="expected")
    refused(NumericalError, None, run, step_size=0.1, counts=counts(), steps=3)
    for name, value in {"lam": 0.0, "unit": -1.0, "step_size": 2.0}.items():
        refused(ArgumentError, name, default, **{name: value})
