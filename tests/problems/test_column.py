"""`Column`: solved exactly, fitted to a network, values of actions, policies and potentials."""

from dataclasses import replace

import numpy as np
import pytest

import drogo
import needs
from drogo import Column, Drogo, Regression, collect, exact, fit, load, solve
from drogo.errors import ArgumentError, DataError
from drogo.learn import Optimiser, Table
from raising import refused
from small_data import CHAIN, FAST, ROOM, SMALL, data_of, line, mostly_right, table_of, world_env

EVERY = data_of(ROOM, "coordinates", 2000)


def test_the_exact_solution_of_an_mdp_and_of_data():
    truth = exact.log_column(ROOM.mdp, 20.0)
    of_world, of_data = solve(ROOM.mdp, Column()), solve(EVERY, Column())
    assert np.abs(of_world.v[0] - truth).max() < 1e-12
    assert of_world.error[0] < 1e-9
    assert np.abs(of_data.v[0] - truth).max() < 1e-9  # moves are certain, and all were seen
    for solution in (of_world, of_data):
        assert (solution.status, solution.seeds, solution.method) == (("converged",), (0,), None)
        rows = solution.observations[[3, 0]]
        assert np.array_equal(solution(rows), solution.v[:, [3, 0]])
        step = np.abs(np.diff(truth[EVERY.neighbours], axis=1)).mean()
        assert np.allclose(solution.potential()(solution.observations), truth / step)
        assert np.allclose(solution.potential(normalised=False)(rows), truth[[3, 0]])
        for view in (solution.value_fn, solution.policy, lambda: solution(rows + 7)):  # noqa: B023
            refused(ArgumentError, None, view)
    refused(ArgumentError, "goal", of_data.potential, goal=rows[0])
    costs = drogo.mdp.Costs(step=5.0)  # the MDP, and the data of a world, have their own
    for problem in (Column(default_policy=np.full(4, 0.25)), Column(costs=costs)):
        refused(ArgumentError, "problem", solve, ROOM.mdp, problem)
    endless = replace(EVERY, terminated=EVERY.truncated, outcome=EVERY.reward)
    for data, problem in ((EVERY, Column), (EVERY, drogo.Spectrum), (endless, drogo.Continuing)):
        for call in (solve, fit):
            refused(ArgumentError, "costs", call, data, problem(costs=costs))
    assert not hasattr(of_data, "eigenvalues")


@pytest.mark.parametrize("lam", [0.4, 20.0])
@pytest.mark.parametrize("action_values", [False, True])
def test_regression_is_right_at_every_lam(lam, action_values):
    """Rewards of -20 at lam 0.4 make exp(-r/lam) = exp(50)."""
    truth = exact.log_column(ROOM.mdp, lam)
    result = fit(EVERY, Column(lam), Regression(action_values=action_values))
    assert result.status == ("converged",)
    assert np.abs(result.v[0] - truth).max() < max(0.1, 1e-3 * np.ptp(truth))
    assert result.error == pytest.approx(np.abs(result.v - truth).max(), abs=1e-9)
    assert result.updates < result.method.updates  # it stopped when it was right


@pytest.mark.parametrize(("reward", "lam"), [(-0.01, 20.0), (-1.0, 1000.0)])
def test_a_map_that_is_shallower_than_the_tolerance_is_learned_too(reward, lam):
    """A walk to the right: v = r/lam times the number of steps, and at most 0.004 deep."""
    states = np.arange(4)
    data = table_of(states, states + 1, reward, states == 3, copies=25)
    result = fit(data, Column(lam))
    assert result.status == ("converged",)
    expected = reward / lam * np.arange(4, -1, -1)
    assert np.abs(result.v[0] - expected).max() <= 0.05 * np.ptp(expected)
    assert fit(data, Column(lam), Regression(updates=1)).status == ("max_updates",)


@pytest.mark.parametrize(
    "method", [Regression(updates=3), Drogo(updates=3), Regression(updates=3, batch_size=5)]
)
def test_a_map_that_is_off_by_more_than_the_tolerance_has_not_converged(method):
    result = fit(EVERY, Column(), method, network=SMALL)
    assert result.status == ("max_updates",)
    assert result.error > 0.1
    assert len(result.diagnosis()) == 1


def test_nothing_is_claimed_where_it_cannot_be_known(tmp_path):
    """States 2 and 3 only lead to each other, and 5 was never left: no data show their values."""
    data = table_of([0, 1, 2, 3, 3], [1, 4, 3, 2, 5], -1.0, [False, True, False, False, False])
    result, exactly = fit(data, Column(2.0)), solve(data, Column(2.0))
    for solution in (result, exactly):
        assert solution.v[0, [0, 1, 4]] == pytest.approx([-1.0, -0.5, 0.0], abs=0.02)
        assert solution.status == ("unverified",)
        assert len(solution.diagnosis()) == 1
        solution.save(tmp_path / "fit.npz", overwrite=True)
        assert np.array_equal(load(tmp_path / "fit.npz").v, solution.v, equal_nan=True)
    method = Drogo(updates=400, batch_size=200, action_values=True)
    result = fit(line(2000), Column(), method, network=SMALL)
    assert result.status[0] in ("unverified", "max_updates")
    assert np.isinf(result.error).all()
    high, low = result(np.array([[0.8], [0.2]], dtype=np.float32))[0]
    assert high > low
    for problem in (Column(), drogo.Goals(), drogo.Spectrum(1), drogo.Continuing()):
        refused(ArgumentError, "source", solve, line(), problem)
    for count, status in ((2, "unverified"), (1, "converged")):  # judged by its equations alone
        actions = {"action": np.zeros(2, int), "n_actions": count}
        one_way = table_of([0, 1], [1, 2], -1.0, [False, True], **actions)
        method = drogo.NaturalGDO(updates=2000)
        assert fit(one_way, Column(), method, network=Table()).status == (status,)
    truth = {"column": exact.log_column(ROOM.mdp, 1e30)}
    result = fit(data_of(ROOM, "state", 2000), Column(1e30), Regression(updates=5), truth=truth)
    assert result.status == ("max_updates",)
    assert np.abs(result.history["cosine_column"]).max() <= 1 + 1e-12


def test_the_value_of_a_bad_end_is_no_part_of_the_depth():
    """With an end of -1000, a thousandth of the range of all values is ten times the tolerance."""
    data = table_of([0, 0, 1, 1], [3, 1, 0, 2], -1.0, [True, False, False, True],
                    terminal_reward=[-1000.0, 0.0, 0.0, 0.0])  # fmt: skip
    result = fit(data, Column(1.0))  # which stops at a tenth of what is allowed
    assert (result.status, result.error[0] < 0.01) == (("converged",), True)


@pytest.fixture(scope="module")
def with_actions():
    return fit(EVERY, Column(1.0), Regression(action_values=True), network=replace(SMALL, width=64))


def test_the_policy_of_action_values(with_actions):
    """It is d(a|s) exp(v(s')), normalised: the policy of the linearly solvable MDP."""
    v = exact.log_column(ROOM.mdp, 1.0)
    weights = np.exp(v[ROOM.next_state] - v[:, None])
    optimal = weights / weights.sum(axis=1, keepdims=True)
    policy, table = with_actions.policy(), EVERY.observations
    probabilities = policy.probabilities(table)
    assert np.abs(probabilities - optimal)[~ROOM.terminal].max() < 0.03
    assert np.array_equal(policy(table), probabilities.argmax(axis=1))
    sampled, again = (policy.predict(np.repeat(table, 2000, axis=0))[0] for _ in range(2))
    share = (sampled.reshape(-1, 2000, 1) == np.arange(4)).mean(axis=1)
    assert np.abs(share - probabilities).max() < 0.06
    assert not np.array_equal(sampled, again)
    action, state = policy.predict(table[0], "kept", deterministic=True)
    assert (action, state) == (probabilities[0].argmax(), "kept")
    without = fit(EVERY, Column(), Regression(updates=2), network=SMALL)
    for wrong in (table[0], table * np.nan):
        refused(ArgumentError, None, policy.probabilities, wrong)
    refused(ArgumentError, None, without.policy)
    evaluation = needs.module("stable_baselines3.common.evaluation")
    env = world_env(ROOM, "coordinates")
    with pytest.warns(UserWarning, match="Monitor"):
        mean, spread = evaluation.evaluate_policy(with_actions.policy(), env, n_eval_episodes=3)
    assert (mean, spread) == (-6.0, 0.0)  # six steps around the costly cells


@pytest.mark.parametrize(
    "method", [Regression(), Regression(action_values=True), Drogo(updates=2000)]
)
def test_rewards_of_the_action(method):
    """Two ways from 0 to the terminal state, at costs 1 and 3: with the default policy d,
    exp(v) = d(0) exp(-1/2) + d(1) exp(-3/2)."""
    data = table_of([0, 0], [1, 1], [-1.0, -3.0], [True, True], copies=6, action=np.array([0, 1]))
    optimiser = Optimiser(step_size=0.05)
    mostly_first = lambda observations, actions: np.where(actions, 0.2, 0.8)  # noqa: E731
    for policy, first in ((None, 0.5), ([0.9, 0.1], 0.9), (mostly_first, 0.8)):
        value = np.log(first * np.exp(-0.5) + (1 - first) * np.exp(-1.5))
        problem = Column(2.0, default_policy=policy)
        assert solve(data, problem).v[0, 0] == pytest.approx(value, abs=1e-9)
        learned = fit(data, problem, method, optimiser=optimiser)
        assert learned.v[0, 0] == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("lam", [2.0, 0.1])
def test_an_action_that_was_never_seen_looks_worse_than_all_others(lam):
    """The default policy chooses among the two actions that were seen, at costs 1 and 3, as in the
    value of the state: exp(v) = (exp(-1/lam) + exp(-3/lam)) / 2, and the shares of the policy are
    the two terms. Of state 2, only an action is known that leads back to it for ever."""
    action, over = np.array([0, 1, 0, 1, 0]), [True, True, False, True, False]
    data = table_of([0, 0, 3, 3, 2], [1, 1, 2, 1, 2], [-1.0, -3.0, -1.0, -1.0, -1.0], over,
                    copies=6, action=action, n_actions=3)  # fmt: skip
    method = Regression(action_values=True, stop_early=False)
    result = fit(data, Column(lam), method, optimiser=Optimiser(step_size=0.05))
    terms = np.exp([-1 / lam, -3 / lam]) / 2
    assert result.v[0, [0, 3]] == pytest.approx(np.log([terms.sum(), terms[0]]), abs=0.02)
    shares = result.policy().probabilities(np.array([0, 3]))
    assert shares[0] == pytest.approx([*terms / terms.sum(), 0.0], abs=1e-3)
    assert shares[0, 2] < 0.5 * shares[0, 1]
    assert shares[1] == pytest.approx([0.0, 1.0, 0.0], abs=1e-3)


def test_default_policies_and_rewards_of_any_sign():
    """The default policy of a world that knows one is that of its MDP, not the uniform one."""
    env = world_env(CHAIN)
    mdp = replace(env.unwrapped.mdp, default_policy=np.tile([0.4, 0.1, 0.1, 0.4], (5, 1)))
    env.unwrapped.mdp = mdp
    truth = exact.log_column(mdp, 2.0)
    assert np.abs(truth - exact.log_column(CHAIN.mdp, 2.0)).max() > 0.1
    assert solve(collect(env, 500, seed=0), Column(2.0)).v[0] == pytest.approx(truth, abs=1e-9)
    # By bootstrapping, on data of which 70 % go right: to the exact column of the world.
    data = data_of(ROOM, "state", 4000, mostly_right)
    result = fit(data, Column(), Drogo(updates=6000, action_values=True), optimiser=FAST)
    assert result.status == ("converged",)
    assert np.abs(result.v[0] - exact.log_column(ROOM.mdp, 20.0)).max() < 0.05
    # Where half of the steps from 0 lead to 1, which is never left, no value holds. With g = exp(0.2)/2 and h = exp(-1)/2, x0 = g (x0 + x1) and x1 = h (x0 + 1), so that x1 is
    # h / (1 - h g / (1 - g)).
    data = table_of([0, 0, 1], [1, 2, 1], [-1.0, -1.0, 0.5], [False, True, False])
    refused(DataError, None, fit, data, Column(1.0))
    g, h = np.exp(0.2) / 2, np.exp(-1) / 2
    x1 = h / (1 - h * g / (1 - g))
    data = table_of([0, 0, 1, 1], [0, 1, 0, 2], [0.2, 0.2, -1.0, -1.0], [False, False, False, True])
    with pytest.warns(UserWarning, match="6 of 12 rewards"):
        result = fit(data, Column(1.0), Regression(updates=600))
    assert result.v[0] == pytest.approx(np.log([g / (1 - g) * x1, x1, 1.0]), abs=0.02)
    assert result.status == ("converged",)


def test_mixed_observations_are_reported_and_constant_maps_not_normalised():
    data = table_of([0, 1, 1, 2], [1, 2, 0, 1], -1.0, [False, True, False, False], copies=4)
    with pytest.warns(UserWarning, match="1 observation"):
        fit(data, Column(), Drogo(updates=2))
    data = table_of([0], [1], -1.0, [True], copies=4)
    result = fit(data, Column(1.0), Drogo(updates=1), optimiser=Optimiser(step_size=1e-60))
    refused(ArgumentError, "seed", result.potential)
    assert np.allclose(result.potential(normalised=False)(np.arange(2)), 0.0)
