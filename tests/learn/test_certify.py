"""Rollouts estimate values without bias, and a certificate says no more than they tell."""

import gymnasium
import numpy as np
import pytest

from drogo import ArgumentError, GridWorld, certify, collect, exact, fit
from drogo.data.simulate import OfMany, OfMDP, simulator
from drogo.learn.certify import Certificate, certify_maps
from drogo.mdp import MDP
from drogo.worlds.control import STARTS, walled_room_truth

LAM = 20.0
ALLOWED = np.array([0.5])


@pytest.fixture(scope="module")
def four_rooms():
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    return env, exact.log_column(GridWorld.load("four-rooms").mdp, LAM)


def certificate_of(vector, env, **options):
    sim = simulator(env, reward=options.pop("reward", None))
    maps = [lambda states: vector[np.asarray(states, dtype=int)]]
    options = {"lam": LAM, "tolerance": ALLOWED, "seeds": (0,), "steps": 1000, **options}
    return certify_maps(maps, sim, **options)


def test_the_exact_vector_is_certified_with_intervals_of_no_width(four_rooms):
    env, truth = four_rooms
    made = certificate_of(truth, env, starts=30)
    assert made.status == ("certified",)
    assert made.error[0] < 1e-9
    assert np.allclose(made.high, made.low)
    assert np.allclose(made.estimate, truth[made.observations.astype(int)])
    assert made.ascents.all()


def test_a_wrong_map_is_not_certified_and_the_true_values_are_in_the_intervals(four_rooms):
    env, truth = four_rooms
    bumps = np.random.default_rng(0).normal(scale=0.3, size=truth.size)
    made = certificate_of(truth + bumps + 2.0, env, starts=40)
    assert made.status != ("certified",)
    known = truth[made.observations.astype(int)]
    inside = (made.low[0] <= known) & (known <= made.high[0])
    assert inside.mean() >= 0.97  # the level is 0.05 for all of them together


def test_a_map_that_is_too_high_everywhere_is_refuted(four_rooms):
    env, truth = four_rooms
    made = certificate_of(truth + 2.0, env, starts=5)
    assert made.status == ("refuted",)
    assert np.allclose(made.estimate, truth[made.observations.astype(int)], atol=0.5)


def test_a_region_behind_which_the_map_is_too_high_is_found_where_it_matters(four_rooms, unchecked):
    env, truth = four_rooms
    raised = truth.copy()
    raised[np.argsort(truth)[:10]] += 5.0
    made = certificate_of(raised, env, starts=15, rounds=1)
    off = np.isin(made.observations.astype(int), np.argsort(truth)[:10])
    assert off.any()
    assert not made.held[0][off].any()


@pytest.mark.slow
@pytest.mark.parametrize("low", [70, 26, 54])
def test_a_state_that_is_much_too_low_hides_nothing(four_rooms, low):
    """All other values are those of a world without it, so that every rollout agrees. Rollouts do
    not go there, and only the actions that they do not choose tell it."""
    env, truth = four_rooms
    mdp = GridWorld.load("four-rooms").mdp
    matrix = sum(part.toarray() for part in mdp.transitions) / mdp.n_actions
    matrix *= np.exp(mdp.reward / LAM)[:, None]
    fixed = mdp.terminal | (np.arange(truth.size) == low)
    e = np.where(mdp.terminal, np.exp(mdp.reward / LAM), np.exp(truth[low] - 25.0))
    rest = np.eye((~fixed).sum()) - matrix[np.ix_(~fixed, ~fixed)]
    e[~fixed] = np.linalg.solve(rest, matrix[np.ix_(~fixed, fixed)] @ e[fixed])
    made = certificate_of(np.log(e), env)
    off = np.abs(np.log(e) - truth)[made.observations.astype(int)]
    assert off.max() > ALLOWED
    assert made.status != ("certified",)


def test_rollouts_that_do_not_arrive_tell_nothing(four_rooms):
    env, truth = four_rooms
    made = certificate_of(truth, env, starts=5, steps=2)
    assert made.status == ("undecided",)
    assert "of 5 that is not decided" in repr(made)


class Coin(gymnasium.Env):
    """Heads ends it; its random numbers are its own, and a step from 1 costs more."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.own, self.at = np.random.default_rng(0), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.at = 1 - self.at
        return self.at, -1.0, bool(self.own.random() < 0.5), False, {}


def test_copies_draw_their_own_numbers_and_a_reward_may_depend_on_the_state_that_is_left():
    lam, costs = 2.0, np.exp(-np.array([1.0, 5.0]) / 2.0)
    # e(0) = c0 (1/2 + e(1)/2), and the same the other way round
    e = np.linalg.solve(np.eye(2) - np.array([[0, costs[0] / 2], [costs[1] / 2, 0]]), costs / 2)
    sim = simulator(Coin(), reward=lambda step: -5.0 if step.observation == 1 else -1.0)
    made = certify_maps([lambda states: np.log(e)[np.asarray(states, dtype=int)]], sim, lam=lam,
                        tolerance=ALLOWED, seeds=(0,), starts=4, rollouts=40, groups=10)  # fmt: skip
    assert made.status == ("certified",)
    assert (made.high - made.low > 0.01).all()


def test_copies_leave_the_environment_where_it_was():
    env = gymnasium.make("CliffWalking-v1").unwrapped
    sim = simulator(env, reward=-1.0)
    states, _ = sim.start(3, np.random.default_rng(0))
    before = [env.s for env, _ in states]
    sim.step(states, np.array([0, 1, 2]), np.random.default_rng(0))
    assert [env.s for env, _ in states] == before


def test_the_first_state_may_be_chosen():
    env = gymnasium.make("MountainCar-v0").unwrapped
    sim = simulator(env, start=STARTS["MountainCar-v0"], reward=-1.0)
    states, seen = sim.start(50, np.random.default_rng(0))
    assert np.ptp(seen[:, 0]) > 1.0
    after = sim.step(states, np.full(50, 2), np.random.default_rng(0))
    assert (after.reward == -1.0).all()
    assert (after.observations[:, 1] != seen[:, 1]).all()


@pytest.mark.slow
def test_a_walled_room_is_certified_with_its_truth_and_not_with_a_leak(unchecked):
    env = gymnasium.make("drogo/Room-Wall-v0").unwrapped
    sim, truth = simulator(env), walled_room_truth("wall", LAM)
    assert isinstance(sim, OfMany)

    def leaking(places):
        values = truth(places.astype(np.float64))
        return np.where(places[:, 0] < 0.5, np.maximum(values, -7.0), values)

    maps = [lambda places: truth(places.astype(np.float64)), leaking]
    made = certify_maps(maps, sim, lam=LAM, tolerance=np.ones(2), seeds=(0, 1), starts=2, rounds=1)
    assert made.status[0] == "certified"
    assert made.status[1] != "certified"


def test_a_fit_is_certified_or_refuted_by_its_own_environment():
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    assert isinstance(simulator(env), OfMDP)
    data = collect(env, 20_000, seed=0)
    good = fit(data)
    made = certify(good, env, starts=3, tolerance=0.2)
    assert good.status == ("converged",)
    assert made.status == ("certified",)
    assert made.error[0] < 0.2
    assert "certified; 3 of 3" in repr(made)
    early = fit(data, updates=3)
    assert certify(early, env, starts=2, steps=60).status != ("certified",)


def test_a_default_policy_of_ones_own_must_be_given_again(four_rooms):
    env, _ = four_rooms
    chances = [0.4, 0.3, 0.2, 0.1]
    fitted = fit(collect(env, 4000, seed=0), lam=LAM, default_policy=chances, updates=2)
    with pytest.raises(ArgumentError, match="Give the same default_policy="):
        certify(fitted, env)
    with pytest.raises(ArgumentError, match="must add up to 1"):
        certify(fitted, env, default_policy=[0.5, 0.5])
    mdp = GridWorld.load("four-rooms").mdp
    policy = np.tile(chances, (mdp.n_states, 1))
    other = MDP.from_arrays(mdp.transitions, mdp.reward, mdp.terminal, default_policy=policy)
    truth = exact.log_column(other, LAM)
    made = certificate_of(truth, env, default_policy=chances, starts=5)
    assert np.allclose(made.high, truth[made.observations.astype(int)])
    assert certificate_of(truth, env, starts=5).error[0] > 0.1


def test_few_groups_that_agree_by_chance_are_not_believed():
    made = Certificate(
        np.zeros((1, 2)), (0,), ALLOWED, *(np.zeros((1, 1)) for _ in range(4)),
        np.array([[1.0]]), np.zeros((1, 1)), np.zeros((1, 1)), np.array([[8]]), np.ones((1, 1), dtype=bool),
    )  # fmt: skip
    assert made.status == ("undecided",)
    assert np.isinf(made.error[0])


def test_what_cannot_be_certified_is_an_error():
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    data = collect(env, 2000, seed=0)
    other = fit(data, objective="log_gdo", preset="fast", updates=2)
    with pytest.raises(ArgumentError, match="Only drogo and q do"):
        certify(other, env)
    made = fit(data, updates=2)
    for wrong in ({"starts": 0}, {"groups": 2}, {"candidates": 0}, {"tolerance": -1.0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            certify(made, env, **wrong)

    class Stuck(gymnasium.Wrapper):
        def __deepcopy__(self, memo):
            raise TypeError("a socket")

    with pytest.raises(ArgumentError, match="cannot be copied"):
        certify(made, Stuck(gymnasium.make("CartPole-v1")))
