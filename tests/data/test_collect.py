"""`collect`: samples from an MDP, and steps of any environment; and copies of environments."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from drogo import MDP, GridWorld, collect
from drogo.data.simulate import OfMany, OfMDP, simulator
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.worlds.control import STARTS
from raising import refused
from small_data import world_env

FOUR_ROOMS, make = GridWorld.load("four-rooms"), partial(gymnasium.make, "drogo/FourRooms-v0")
PINNED = {
    "uniform": ([39, 19, 80, 97, 88, 2], [38, 18, 81, 96, 88, 1], 147),
    "reset": ([85, 66, 41, 64, 45, 64], [96, 67, 31, 58, 35, 65], 7),
}
SLIPS = [[0.5, 0.2, 0.3, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.9, 0.1, 0.0], [0.0] * 4]
SHARES = [[0.2, 0.8], [1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]


@pytest.mark.parametrize("kind", ["state", "coordinates", "one-hot", "pixels"])
def test_uniform_transitions_follow_the_world(kind):
    data, world = collect(make(observation=kind), 20_000, seed=0), FOUR_ROOMS
    assert np.array_equal(data.observations, world.observations(kind))
    reachable = {(s, t) for s in range(world.n_states) for t in world.next_state[s]}
    assert {*zip(data.state.tolist(), data.next_state.tolist(), strict=True)} <= reachable
    assert np.array_equal(data.reward, world.reward[data.state])
    assert np.array_equal(data.terminated, world.terminal[data.next_state])
    assert not world.terminal[data.state].any()
    counts = np.bincount(data.state, minlength=104)[~world.terminal]
    assert abs(counts / 20_000 * 103 - 1).max() < 0.35  # five standard deviations


@pytest.mark.parametrize("start", PINNED)
def test_a_seed_keeps_its_meaning(start):
    """The data of published results are sampled again from their seed alone."""
    data = collect(make(), 20_000, seed=0, start=start)
    tail = data.state[-6:].tolist(), data.next_state[-6:].tolist()
    assert (*tail, int(data.terminated.sum())) == PINNED[start]
    assert not np.array_equal(data.state[:500], collect(make(), 500, seed=2, start=start).state)


def test_episodes_start_where_the_map_says_and_are_truncated_by_the_step_limit():
    data = collect(make(observation="state"), 20_000, seed=0, start="reset")
    assert set(data.state[:100]) == {FOUR_ROOMS.start.argmax()}  # a hundred walkers, 200 steps each
    assert np.array_equal(data.terminated, FOUR_ROOMS.terminal[data.next_state])
    world = GridWorld.parse("step-limit: 2\n\n#####\n#S.G#\n#####")
    data = collect(world_env(world), 4000, seed=0, start="reset")
    assert set(zip(data.truncated, data.terminated, strict=True)) == {(0, 0), (0, 1), (1, 0)}


def test_a_policy_is_followed_from_the_same_states_without_an_end_of_time():
    random_action = lambda observation, rng: int(rng.integers(4))  # noqa: E731
    env = make(observation="state", start="uniform")
    default, sampled = (collect(env, 600, seed=0, policy=act) for act in (None, random_action))
    assert default.state[0] == sampled.state[0]
    assert not (default.truncated | sampled.truncated).any()
    assert np.array_equal(sampled.reward, FOUR_ROOMS.reward[sampled.observations[sampled.state]])


class Slippery(gymnasium.Env):
    """An environment that is no more than its MDP: two first states, two actions, one slips."""

    step_limit = 5
    mdp = MDP.from_arrays([np.eye(4, k=1), SLIPS], [-1.0, -2.0, -3.0, -7.0], [3],
                          start=[0.75, 0.25, 0.0, 0.0], default_policy=SHARES)  # fmt: skip

    def all_observations(self):
        return np.arange(4) * 10.0


@pytest.mark.parametrize("start", ["uniform", "reset"])
def test_a_stochastic_mdp_is_sampled_under_its_default_policy(start):
    data, mdp = collect(Slippery(), 40_000, seed=0, start=start), Slippery.mdp
    counts = np.zeros((4, 4))
    np.add.at(counts, (data.state, data.next_state), 1)
    visits = counts.sum(axis=1, keepdims=True)[:3]
    assert np.abs(counts[:3] / visits - mdp.P.toarray()[:3]).max() < 5 * 0.5 / visits.min() ** 0.5
    assert (counts[:3] > 0).sum() == mdp.P.nnz
    assert np.array_equal(data.reward, mdp.reward[data.state])
    assert set(data.terminal_reward[data.terminated]) == {-7.0}
    assert not data.terminal_reward[~data.terminated].any()


def test_first_states_follow_the_start_and_a_step_cost_replaces_the_reward():
    data = collect(Slippery(), 5_000, seed=0, start="reset")
    first = data.state[:1000]  # of a thousand episodes side by side
    assert (set(first.tolist()), (first == 0).mean()) == ({0, 1}, pytest.approx(0.75, abs=0.07))
    assert data.truncated.any()
    first = collect(make(start="uniform"), 20_000, seed=0, start="reset").state[:100]
    assert np.unique(first).size > 50
    in_zero = lambda env, rng: env.reset(options={"state": 0})[0]  # noqa: E731
    data = collect(make(observation="state"), 50, seed=0, start=in_zero)
    assert not data.terminated.any()
    assert len(data.observations) <= 3
    env = gymnasium.make("MountainCar-v0", max_episode_steps=50)
    assert collect(env, 300, seed=0, start=STARTS["MountainCar-v0"]).terminated.any()
    assert not collect(env, 300, seed=0, start="reset").terminated.any()
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    for reward, expected in ((None, {0.0, 1.0}), (-1.0, {-1.0})):
        data = collect(env, 200, seed=0, start="reset", reward=reward)
        assert set(data.reward) <= expected
        assert data.observations.dtype == np.int64


def test_wrong_arguments(unchecked):
    given = {"env": gymnasium.make("MountainCar-v0"), "n": 10, "seed": 0}
    wrong = {"n": [0, 2**70], "start": ["everywhere", "uniform"], "seed": [-1], "reward": [1.0],
             "terminal_reward": [10**400], "behaviour": [lambda step: 1.0]}  # fmt: skip
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        refused(ArgumentError, name, collect, **given | {name: value})
    for name, value in {"reward": "cheap", "keys": "image", "env": "CartPole-v1"}.items():
        refused(ArgumentTypeError, name, collect, **given | {name: value})


def test_copies_leave_the_environment_where_it_was_and_start_where_start_says():
    assert isinstance(simulator(gymnasium.make("drogo/FourRooms-v0")), OfMDP)
    assert isinstance(simulator(gymnasium.make("drogo/Room-Wall-v0").unwrapped), OfMany)

    class Stuck(gymnasium.Wrapper):
        def __deepcopy__(self, memo):
            raise AssertionError  # as Box2D's do

    error = refused(ArgumentError, "env", simulator, Stuck(gymnasium.make("CartPole-v1")))
    assert "(AssertionError())" in str(error)
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
