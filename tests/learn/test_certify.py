"""Rollouts estimate values without bias, and a certificate says no more than they show."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest

import drogo
from drogo import Column, Drogo, GridWorld, Regression, certify, exact, fit, progress
from drogo.data.simulate import OfMDP, simulator
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.learn import Certificate, Effort
from drogo.learn.certify import Map, certify_maps
from drogo.worlds.control import walled_room_truth
from raising import refused
from small_data import ring

LAM, TOLERANCE = 20.0, 0.5
FOUR_ROOMS = GridWorld.load("four-rooms").mdp
TRUTH = exact.log_column(FOUR_ROOMS, LAM)
ENV = gymnasium.make("drogo/FourRooms-v0", observation="state")


@pytest.fixture(scope="module")
def data():
    return drogo.collect(ENV, 20_000, seed=0)


def map_of(vector, lam=LAM, **settings):
    return Map(lambda states: vector[np.asarray(states, dtype=int)], lam, TOLERANCE, **settings)


def certificate_of(vector, starts=20, default_policy=None, **effort):
    one = map_of(vector, default_policy=default_policy)
    return certify_maps([one], simulator(ENV), starts=starts, effort=Effort(**effort))


def at_starts(vector, certificate):
    return vector[certificate.observations.astype(int)]


def test_the_exact_vector_is_certified_and_a_wrong_map_is_not():
    certificate = certificate_of(TRUTH, starts=30)
    assert certificate.status == ("certified",)
    assert certificate.error[0] < 1e-9
    assert np.allclose(certificate.high, certificate.low)
    assert np.allclose(certificate.estimate, at_starts(TRUTH, certificate))
    assert certificate.ascents.all()
    short = certificate_of(TRUTH, starts=5, steps=2)  # rollouts do not arrive
    assert (short.status, short.known.any()) == (("undecided",), False)
    bumps = np.random.default_rng(0).normal(scale=0.3, size=TRUTH.size)
    certificate = certificate_of(TRUTH + bumps + 2.0, starts=40)
    assert certificate.status != ("certified",)
    values = at_starts(TRUTH, certificate)
    inside = (certificate.low[0] <= values) & (values <= certificate.high[0])
    assert inside.mean() >= 0.97  # the level is 0.05 for all of them together
    high = certificate_of(TRUTH + 2.0, starts=5)
    assert high.status == ("refuted",)
    assert np.allclose(high.estimate, at_starts(TRUTH, high), atol=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("low", [70, 26, 54])
def test_a_state_that_is_much_too_low_hides_nothing(low):
    """All other values are those of a world without it, so that every rollout agrees. Rollouts do
    not go there, and only the actions that they do not choose show it."""
    matrix = sum(part.toarray() for part in FOUR_ROOMS.transitions) / FOUR_ROOMS.n_actions
    matrix *= np.exp(FOUR_ROOMS.reward / LAM)[:, None]
    fixed = FOUR_ROOMS.terminal | (np.arange(TRUTH.size) == low)
    e = np.where(FOUR_ROOMS.terminal, np.exp(FOUR_ROOMS.reward / LAM), np.exp(TRUTH[low] - 25.0))
    rest = np.eye((~fixed).sum()) - matrix[np.ix_(~fixed, ~fixed)]
    e[~fixed] = np.linalg.solve(rest, matrix[np.ix_(~fixed, fixed)] @ e[fixed])
    certificate = certificate_of(np.log(e))
    assert np.abs(at_starts(np.log(e) - TRUTH, certificate)).max() > TOLERANCE
    assert certificate.status != ("certified",)


def test_a_region_that_is_too_high_is_detected_where_it_matters(unchecked):
    raised = TRUTH + 5.0 * (np.argsort(np.argsort(TRUTH)) < 10)
    certificate = certificate_of(raised, starts=15, rounds=1)
    off = at_starts(raised > TRUTH, certificate)
    assert off.any()
    assert not certificate.held[0][off].any()


class Coin(gymnasium.Env):
    """Heads ends it; its random numbers are its own, and a step from 1 costs more."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.random = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.at = 1 - self.at
        return self.at, -1.0, bool(self.random.random() < 0.5), False, {}


def test_copies_have_their_own_numbers_and_a_reward_may_depend_on_the_state_that_is_left():
    """e(0) = c0 (1/2 + e(1)/2), and the same the other way round."""
    costs = np.exp(-np.array([1.0, 5.0]) / 2.0)
    e = np.linalg.solve(np.eye(2) - np.array([[0, costs[0] / 2], [costs[1] / 2, 0]]), costs / 2)
    sim = simulator(Coin(), reward=lambda step: -5.0 if step.observation == 1 else -1.0)
    effort = Effort(rollouts=40, groups=10)
    certificate = certify_maps([map_of(np.log(e), 2.0)], sim, starts=4, effort=effort)
    assert certificate.status == ("certified",)
    assert (certificate.high - certificate.low > 0.01).all()


@pytest.mark.slow
def test_a_walled_room_is_certified_with_its_truth_and_not_with_a_leak(unchecked):
    truth = walled_room_truth("wall", LAM)

    def values(places, least):
        v = truth(places.astype(np.float64))
        return np.where(places[:, 0] < 0.5, np.maximum(v, least), v)

    maps = [Map(partial(values, least=k), LAM, 1.0) for k in (-np.inf, -7.0)]
    sim = simulator(gymnasium.make("drogo/Room-Wall-v0").unwrapped)
    certificate = certify_maps(maps, sim, starts=2, effort=Effort(rounds=1))
    assert certificate.status[0] == "certified" != certificate.status[1]


def test_a_fit_is_certified_or_refuted_by_its_own_environment(data):
    """By default a twentieth of the depth from the 5th to the 95th percentile is tolerated."""
    good = fit(data, Column(LAM), Regression())
    certificate = certify(good, ENV, starts=3, tolerance=0.2)
    assert (good.status, certificate.status) == (("converged",), ("certified",))
    assert certificate.held.all()
    assert certificate.error[0] < 0.2
    early = fit(data, Column(LAM), Regression(updates=3), seeds=2)
    doubtful = certify(early, ENV, starts=2, effort=Effort(steps=60))
    assert "certified" not in doubtful.status
    live = np.setdiff1d(np.arange(TRUTH.size), early.terminal_states)
    depth = np.diff(np.percentile(early.v[:, live], [5, 95], axis=1), axis=0)[0]
    assert np.allclose(doubtful.tolerance, np.maximum(0.05 * depth, 0.1))


def test_ctrl_c_returns_what_was_measured(monkeypatch):
    """The first map is done, and rollouts of the second are on their way."""
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    step, calls = OfMDP.step, []

    def press(*arguments):
        calls.append(arguments)
        if len(calls) == 400:
            raise KeyboardInterrupt
        return step(*arguments)

    whole = certificate_of(TRUTH, starts=5)
    monkeypatch.setattr(OfMDP, "step", press)
    maps = [map_of(TRUTH, name=name) for name in range(3)]
    certificate = certify_maps(maps, simulator(ENV), starts=5)
    assert certificate.interrupted
    assert certificate.status == ("certified", "undecided", "undecided")
    assert np.array_equal(certificate.estimate[0], whole.estimate[0])
    assert (certificate.groups > 0).all(axis=1).tolist() == [True, True, False]
    assert certificate.lines()[-1] == "The rollouts were stopped early."


def test_a_limit_of_seconds_leaves_the_rest_undecided():
    maps = [map_of(TRUTH, name=name) for name in range(2)]
    certificate = certify_maps(maps, simulator(ENV), starts=5, effort=Effort(seconds=1e-9))
    assert certificate.interrupted
    assert certificate.status == ("undecided", "undecided")
    whole = certify_maps(maps, simulator(ENV), starts=5, effort=Effort(seconds=1e3))
    assert (whole.interrupted, whole.status) == (False, ("certified", "certified"))
    refused(ArgumentError, "seconds", Effort, seconds=-1.0)


def test_the_default_policy_is_that_of_the_problem(data):
    chances = np.array([0.4, 0.3, 0.2, 0.1])
    policy = np.tile(chances, (FOUR_ROOMS.n_states, 1))
    truth = exact.log_column(replace(FOUR_ROOMS, default_policy=policy), LAM)
    certificate = certificate_of(truth, default_policy=chances, starts=5)
    assert np.allclose(certificate.high, at_starts(truth, certificate))
    assert certificate_of(truth, starts=5).error[0] > 0.1
    solution = fit(data, Column(LAM, default_policy=chances), Regression())
    certificate = certify(solution, ENV, starts=3)
    assert certificate.status == ("certified",)
    assert np.allclose(certificate.estimate, at_starts(truth, certificate), atol=0.2)


def test_few_groups_that_agree_by_chance_are_not_believed():
    zeros = np.zeros((1, 1))
    rest = (zeros + 1, zeros, zeros, np.array([[8]]), np.ones((1, 1), dtype=bool))
    certificate = Certificate(np.zeros((1, 2)), (0,), np.array([0.5]), *[zeros] * 4, *rest)
    assert (certificate.status, certificate.error[0]) == (("undecided",), np.inf)


def test_what_cannot_be_certified_is_an_error(data, unchecked):
    policy = Column(default_policy=lambda observations, actions: np.full(len(actions), 0.25))
    endless = fit(ring()[0], drogo.Continuing(2.0), Drogo(updates=2))
    linear = fit(data, Column(), drogo.LogGDO(updates=2))
    skewed = fit(data, policy, Drogo(updates=2))
    exactly = (drogo.solve(data, problem) for problem in (Column(), drogo.Goals()))
    for wrong in (linear, skewed, endless, *exactly):
        refused(ArgumentError, "solution", certify, wrong, ENV)
    refused(ArgumentTypeError, "solution", certify, 3, ENV)
    call = partial(certify, fit(data, Column(), Drogo(updates=2)), ENV)
    effort = dict.fromkeys(("candidates", "steps", "rounds", "rollouts"), 0) | {"groups": 2}
    for function, wrong in ((call, {"starts": 0, "tolerance": -1.0, "seed": -1}), (Effort, effort)):
        for name, value in wrong.items():
            refused(ArgumentError, name, function, **{name: value})
