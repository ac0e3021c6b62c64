"""Rollouts estimate values without bias, and a certificate says no more than they tell."""

import gymnasium
import numpy as np
import pytest

from drogo import ArgumentError, GridWorld, certify, collect, exact, fit
from drogo.data.simulate import Copies, OfMany, OfMDP, simulator
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


def test_a_wrong_map_is_refuted_and_the_true_value_is_in_every_believed_interval(four_rooms):
    env, truth = four_rooms
    bumps = np.random.default_rng(0).normal(scale=0.3, size=truth.size)
    made = certificate_of(truth + bumps + 2.0, env, starts=40)
    assert made.status == ("refuted",)
    known = truth[made.observations.astype(int)]
    inside = (made.low[0] <= known) & (known <= made.high[0])
    assert made.known[0].sum() >= 20
    assert inside.mean() >= 0.97  # the level is 0.05 for all of them together


def test_a_region_behind_which_the_map_is_too_high_is_found_where_it_matters(four_rooms):
    env, truth = four_rooms
    raised = truth.copy()
    raised[np.argsort(truth)[:10]] += 5.0
    made = certificate_of(raised, env, starts=40)
    off = np.isin(made.observations.astype(int), np.argsort(truth)[:10])
    assert not made.held[0][off].any()


def test_a_slippery_environment_that_is_only_copied_has_the_values_of_its_mdp():
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    truth = exact.log_column(MDP.from_gymnasium(env, reward=-1.0), 5.0)
    found = MDP.from_gymnasium(env, reward=-1.0)
    vector = np.zeros(16)
    vector[np.asarray(found.states, dtype=int)] = truth
    wrong = vector + np.random.default_rng(1).normal(scale=0.2, size=16)
    assert isinstance(simulator(env, reward=-1.0), Copies)
    made = certificate_of(wrong, env, starts=4, lam=5.0, reward=-1.0, rollouts=4)
    known = vector[made.observations.astype(int)]
    assert made.known.any()
    assert ((made.low[0] <= known) & (known <= made.high[0]))[made.known[0]].all()


def test_copies_leave_the_environment_where_it_was():
    env = gymnasium.make("CliffWalking-v1").unwrapped
    sim = simulator(env, reward=-1.0)
    states, _ = sim.start(3, np.random.default_rng(0))
    before = [one.s for one in states]
    sim.step(states, np.array([0, 1, 2]), np.random.default_rng(0))
    assert [one.s for one in states] == before


def test_the_first_state_may_be_chosen():
    env = gymnasium.make("MountainCar-v0").unwrapped
    sim = simulator(env, start=STARTS["MountainCar-v0"], reward=-1.0)
    states, seen = sim.start(50, np.random.default_rng(0))
    assert np.ptp(seen[:, 0]) > 1.0
    after = sim.step(states, np.full(50, 2), np.random.default_rng(0))
    assert (after.reward == -1.0).all()
    assert (after.observations[:, 1] != seen[:, 1]).all()


def test_a_walled_room_is_certified_with_its_truth_and_not_with_a_leak():
    env = gymnasium.make("drogo/Room-Wall-v0").unwrapped
    sim, truth = simulator(env), walled_room_truth("wall", LAM)
    assert isinstance(sim, OfMany)

    def leaking(places):
        values = truth(places.astype(np.float64))
        return np.where(places[:, 0] < 0.5, np.maximum(values, -7.0), values)

    maps = [lambda places: truth(places.astype(np.float64)), leaking]
    made = certify_maps(
        maps, sim, lam=LAM, tolerance=np.ones(2), seeds=(0, 1), starts=4, rollouts=4
    )
    assert made.status[0] == "certified"
    assert made.status[1] != "certified"


def test_a_fit_is_certified_or_refuted_by_its_own_environment():
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    assert isinstance(simulator(env), OfMDP)
    data = collect(env, 20_000, seed=0)
    good = fit(data)
    made = certify(good, env, starts=5, tolerance=0.2)
    assert good.status == ("converged",)
    assert made.status == ("certified",)
    assert made.error[0] < 0.2
    assert "certified; 5 of 5" in repr(made)
    early = fit(data, updates=3)
    assert certify(early, env, starts=5, steps=60).status != ("certified",)


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
        np.array([[1.0]]), 8, np.ones((1, 1), dtype=bool),
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
