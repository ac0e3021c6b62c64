"""`simulator`: copies of environments from which rollouts start."""

import gymnasium
import numpy as np

from drogo.data.simulate import OfMany, OfMDP, simulator
from drogo.errors import ArgumentError
from drogo.worlds.control import STARTS
from raising import raises


def test_the_kind_follows_from_the_environment():
    assert isinstance(simulator(gymnasium.make("drogo/FourRooms-v0")), OfMDP)
    assert isinstance(simulator(gymnasium.make("drogo/Room-Wall-v0").unwrapped), OfMany)

    class Stuck(gymnasium.Wrapper):
        def __deepcopy__(self, memo):
            raise TypeError("a socket")

    with raises(ArgumentError):
        simulator(Stuck(gymnasium.make("CartPole-v1")))


def test_copies_leave_the_environment_where_it_was_and_start_where_start_says():
    sim = simulator(gymnasium.make("CliffWalking-v1").unwrapped, reward=-1.0)
    states, _ = sim.start(3, np.random.default_rng(0))
    before = [copy.s for copy, _ in states]
    sim.step(states, np.array([0, 1, 2]), np.random.default_rng(0))
    assert [copy.s for copy, _ in states] == before
    car = gymnasium.make("MountainCar-v0").unwrapped
    sim = simulator(car, start=STARTS["MountainCar-v0"], reward=-1.0)
    states, seen = sim.start(50, np.random.default_rng(0))
    assert np.ptp(seen[:, 0]) > 1.0
    after = sim.step(states, np.full(50, 2), np.random.default_rng(0))
    assert (after.reward == -1.0).all()
    assert (after.observations[:, 1] != seen[:, 1]).all()
