"""`Goals`: a map to every goal at once, against exact columns and by hand."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from drogo import Column, Drogo, Goals, GridWorld, Regression, exact, fit, load, solve
from drogo.errors import ArgumentError, DataError, NotConverged
from drogo.learn import MLP, Optimiser, PairMLP, Quasimetric
from drogo.learn.judge import cosine
from raising import refused
from small_data import data_of, line, mostly_right, table_of

WORLD = GridWorld.parse("goal H: -5\n\n######\n#..xG#\n#.#x.#\n#H...#\n######")
N = WORLD.n_states
TINY, DENSE = Quasimetric(32, 1, components=8, length=4), PairMLP(32, 1)
QUICK = Optimiser(step_size=0.01)
TASKS = [[0.0, -3.0], [-5.0, 1.0], [-np.inf, 0.0]]
LIVE = ~WORLD.terminal
NAMES = ["quasimetric", "actions", "drogo"]


def data(kind="coordinates", n=1500, policy=None):
    return data_of(WORLD, kind, n, policy)


def in_state_order(goals):
    """The rows of the map's observations that are the states of the world."""
    table = WORLD.observations("coordinates")
    return np.array([np.flatnonzero((goals.observations == row).all(axis=-1))[0] for row in table])


@cache
def table():
    return solve(data(), Goals())


@cache
def learned(name):
    network, method = {
        "quasimetric": (TINY, Regression(updates=100)),
        "actions": (DENSE, Regression(updates=100, action_values=True)),
        "drogo": (TINY, Drogo(updates=100)),
        "all": (TINY, Regression(updates=100, batch_size="all")),
    }[name]
    truth = {"table": table().v[0]}
    return fit(data(), Goals(), method, network=network, optimiser=QUICK, seeds=2, truth=truth)


@pytest.mark.parametrize("policy", [None, mostly_right])
@pytest.mark.parametrize("lam", [1.3, 20.0])
def test_the_exact_map_is_that_of_the_world(lam, policy):
    """Every state and action was seen, and moves are certain: the data are the world."""
    goals = solve(data(n=2500, policy=policy), Goals(lam))
    rows = in_state_order(goals)
    assert np.array_equal(goals.goals, np.arange(N))
    columns = exact.log_columns(WORLD.mdp, lam)
    np.testing.assert_allclose(goals.v[0][np.ix_(rows, rows)], columns, rtol=0, atol=1e-9)
    np.testing.assert_allclose(solve(WORLD.mdp, Goals(lam)).v[0], columns, rtol=0, atol=1e-9)
    assert goals.status == ("converged",)
    assert goals.error[0] < 1e-11
    states = goals.observations[rows]
    shares = goals.policy(goal=states[2]).probabilities(states)
    np.testing.assert_allclose(shares[LIVE], probabilities_of(columns[2]), atol=1e-9)
    assert sorted(rows[WORLD.terminal]) == goals.terminal_states.tolist()


def probabilities_of(v):
    """The policy of the linearly solvable MDP; the reward of a state is a factor of all actions."""
    weights = np.exp(v[WORLD.next_state[LIVE]])
    return weights / weights.sum(axis=1, keepdims=True)


def test_transfer_policies_and_values_of_the_exact_map():
    goals = table()
    rows, terminals = in_state_order(goals), np.flatnonzero(WORLD.terminal).tolist()
    order = [terminals.index(rows.tolist().index(row)) for row in goals.terminal_states]
    task, truth = goals.transfer(np.array(TASKS)[:, order]), exact.transfer(WORLD.mdp, 20.0, TASKS)
    np.testing.assert_allclose(task.v[:, rows], truth, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(task(goals.observations[[3, 4]]), task.v[:, [3, 4]])
    np.testing.assert_array_equal(goals.transfer(np.array(TASKS[0])[order]).v, task.v[0])
    states = goals.observations[rows]
    for k, v in enumerate(truth[:2]):
        shares = task.policy(k).probabilities(states)
        np.testing.assert_allclose(shares[LIVE], probabilities_of(v), atol=1e-9)
        assert np.ptp(shares[~LIVE], axis=1).max() == 0  # there is nothing to do
    # Values of pairs are finite and normalised.
    obs, v = goals.observations, goals.v[0]
    state, goal = np.divmod(np.arange(N * N), N)
    plain, pairs = goals.value(0, normalised=False)(obs[state], obs[goal]), v.T[state, goal]
    assert np.array_equal(plain, np.where(np.isfinite(pairs), pairs, v[np.isfinite(v)].min()))
    both = v[:, goals.neighbours]
    steps = np.abs(np.diff(both[np.isfinite(both).all(axis=2)]))
    assert goals.value(0)(obs[state], obs[goal]) == pytest.approx(plain / steps.mean())
    goals = solve(data(), Goals(most_goals=5))
    assert goals.v.shape == (1, 5, N)
    assert np.isin(goals.terminal_states, goals.goals).all()
    other = np.setdiff1d(np.arange(N), goals.goals)[0]
    refused(ArgumentError, None, goals, goals.observations, goals.observations[other])


@pytest.mark.parametrize("name", [*NAMES, "all"])
def test_what_was_learned_can_be_used(name):
    """Also by `Drogo`, where states repeat. After a few updates the maps are roughly right."""
    goals, truth = learned(name), table().v[0]
    finite, obs = np.isfinite(truth), goals.observations
    assert np.array_equal(np.isneginf(goals.v[1]), np.isneginf(truth))
    assert (goals.v[:, np.arange(N), goals.goals] == 0).all()
    off = np.abs(goals.v[:, finite] - truth[finite])
    for values in (off.max(axis=1), goals.history["difference_table"][-1]):
        assert values == pytest.approx(goals.error, abs=1e-9)
    assert goals.history["mean_difference_table"][-1] == pytest.approx(off.mean(axis=1), abs=1e-9)
    for v in goals.v:
        assert cosine(v[finite][None], truth[finite])[0] > 0.97
    state, goal = np.divmod(np.arange(N * N), N)
    pairs = goals(obs[state], obs[goal]).reshape(2, N, N)
    np.testing.assert_allclose(pairs, goals.v.transpose(0, 2, 1), atol=1e-4)
    task = goals.transfer([0.0, -3.0], seed=1)
    for policy in (goals.policy(1, goal=obs[3]), task.policy()):
        assert policy.probabilities(obs).sum(axis=1) == pytest.approx(np.ones(N))
    for potential in (goals.potential(1, goal=obs[3]), task.potential()):
        assert np.abs(np.diff(potential(obs)[goals.neighbours], axis=1)).mean() == pytest.approx(1)


@pytest.mark.parametrize("name", NAMES[:2])
def test_unseen_observations(name):
    goals, near = learned(name), np.array([[0.03, 0.04]], dtype=np.float32)
    assert np.isfinite(goals(near, near + 0.1)).all()
    assert (goals(near, near) == 0).all()
    terminal = goals.observations[goals.terminal_states[:1]]
    assert np.isneginf(goals(terminal, near)).all()  # an episode is over there
    assert goals.transfer([0.0, -3.0])(near).shape == (1,)
    assert np.isfinite(goals.potential(goal=near[0])(near + 0.1)).all()
    for policy in (goals.policy(goal=near[0]), goals.transfer([0.0, -3.0]).policy()):
        if name == "actions":
            assert policy.probabilities(near).shape == (1, 4)
        else:
            refused(ArgumentError, None, policy.probabilities, near)
    refused(ArgumentError, None, table(), near, near)


def test_what_the_data_do_not_show():
    """State 2 cannot get back, state 3 was never left, and action 1 of state 1 never taken. Half of
    the time to 1, at half the worth of a step: e = 1/4 + e/4 = 1/3. The way to 3 is left out, so
    that 2 leads to 4 for certain."""
    after = np.array([1, 0, 2, 4, 3])
    sparse = table_of([0, 0, 1, 2, 2], after, -np.log(2), after == 4, table=np.eye(5, dtype=np.float32),
                      action=np.array([0, 1, 0, 0, 1]))  # fmt: skip
    goals = solve(sparse, Goals(1.0))
    by_hand = [[1, 0, 0, np.nan, 0], [1 / 3, 1, 0, np.nan, 0], [1 / 6, 1 / 2, 1, np.nan, 0],
               [1 / 12, 1 / 4, 1 / 2, np.nan, 1]]  # fmt: skip
    np.testing.assert_allclose(np.exp(goals.v[0]), by_hand, atol=1e-12)
    assert goals.goals.tolist() == [0, 1, 2, 4]
    assert goals.status == ("unverified",)
    assert len(goals.notes) == 3
    for policy in (goals.policy(goal=goals.observations[4]), goals.transfer([0.0]).policy()):
        assert policy.probabilities(goals.observations)[[1, 2]].tolist() == [[1, 0], [1, 0]]
    network = fit(sparse, Goals(1.0), Regression(updates=20), network=TINY)
    assert network.status[0] != "converged"
    assert np.isfinite(network.v[0, :, 3]).all()
    # From 0 to 1 and to 2; from 1 to the terminal state, from 2 to 3, which was never left.
    after = np.array([1, 2, 4, 3])
    goals = solve(table_of([0, 0, 1, 2], after, -1.0, after == 4), Goals(1.0))
    assert goals.goals.tolist() == [0, 1, 4]
    np.testing.assert_allclose(goals.v[0, 2], [-2, -1, np.nan, np.nan, 0], atol=1e-12)


@pytest.mark.slow
def test_actions_that_lead_nowhere_are_learned_to_be_worth_nothing(optimised):
    method = Regression(updates=1000, batch_size=512, action_values=True)
    parts = {"network": PairMLP(64, 1), "optimiser": Optimiser(step_size=3e-3)}
    goals = fit(data(), Goals(), method, **parts)
    for row in goals.goals:
        others = np.setdiff1d(np.arange(N), [*goals.terminal_states, row])
        first, second = (
            one.policy(goal=one.observations[row]).probabilities(one.observations[others])
            for one in (goals, table())
        )
        assert np.abs(first - second).max() < 0.1
    assert goals.error[0] < 0.3


def near_enough(observations, goals):
    return np.abs(observations - goals)[:, 0] <= 0.05


@pytest.mark.parametrize(
    ("problem", "network", "action_values"),
    [(Goals(reached=near_enough), TINY, False), (Goals(radius=0.05), DENSE, True)],
)
def test_continuous_states(problem, network, action_values, tmp_path):
    method = Drogo(updates=100, batch_size=200, action_values=action_values)
    goals = fit(line(), problem, method, network=network, optimiser=QUICK)
    assert goals.status == ("unverified",)
    assert np.isinf(goals.error).all()
    x = np.array([[0.31], [0.5], [0.81]], dtype=np.float32)
    v = goals(x, x[0])[0]
    assert v[0] == 0 > v[1] > v[2]
    assert (goals(x, x + np.float32(0.04)) == 0).all()  # within reach
    path = tmp_path / "goals.npz"
    goals.save(path)
    if action_values:
        assert load(path).policy(goal=x[0])(x).shape == (3,)
    else:
        np.testing.assert_array_equal(load(path, problem=problem)(x, x[0])[0], v)
        wrong = Goals(reached=lambda a, b: a == b)
        for call in (lambda: load(path), lambda: goals.policy(goal=x[0])):
            refused(ArgumentError, None, call)
        refused(ArgumentError, "problem", load, path, problem=wrong)
    assert np.isfinite(goals.potential(goal=x[0])(x)).all()
    row = int(np.flatnonzero(goals.observations[:, 0] < 0.5)[0])
    shown = goals(goals.observations, goals.observations[row])[0]
    np.testing.assert_allclose(shown, goals.v[0, row], atol=1e-5)
    refused(ArgumentError, None, goals.transfer, [0.0])


def test_what_cannot_be_learned():
    repeating, reached = data(), Goals(reached=near_enough)
    refused(ArgumentError, "network", fit, repeating, Goals(), network=MLP())
    per_action = {"network": TINY, "method": Regression(action_values=True)}
    refused(ArgumentError, "network", fit, repeating, Goals(), **per_action)
    refused(ArgumentError, "radius", fit, repeating, Goals(radius=0.1))
    refused(ArgumentError, "reached", fit, repeating, reached)
    refused(ArgumentError, "truth", fit, repeating, Goals(), truth={"table": np.zeros((3, 3))})
    refused(ArgumentError, "data", fit, data("state"), Goals())
    mixed = table_of([0, 1, 1, 2], [1, 2, 0, 1], -1.0, [False, True, False, False],
                     table=np.eye(3, dtype=np.float32))  # fmt: skip
    refused(DataError, None, fit, mixed, Goals(), network=TINY)
    refused(ArgumentError, "reached", fit, line(), Goals())
    refused(ArgumentError, "reached", fit, line(), Goals(radius=0.1, reached=near_enough))
    refused(ArgumentError, "method", fit, line(), Goals(radius=0.1), method=Regression())
    for wrong in (lambda a, b: np.zeros(len(a), bool), lambda a, b: np.ones(len(a), bool)):
        refused(DataError, None, fit, line(), Goals(reached=wrong))
    refused(ArgumentError, "reached", fit, line(), Goals(reached=lambda a, b: a[:, 0] - b[:, 0]))


def test_wrong_uses_and_inaccurate_columns_of_an_mdp(monkeypatch):
    goals, learned_map = table(), learned("quasimetric")
    obs = goals.observations
    status = {"status": ("diverged", "max_updates"), "diverged_at": (7, None)}
    lost = replace(learned_map, **status)
    assert np.isnan(learned_map.value(0)(obs[:1] * np.float32(np.nan), obs[:1])).all()
    refused(ArgumentError, None, goals, obs[0], obs[0])
    refused(ArgumentError, "goal", goals, obs[:3], obs[:2])
    refused(ArgumentError, "goal", goals.policy)
    refused(ArgumentError, "vector", goals.potential, goal=obs[0], vector=2)
    refused(ArgumentError, "seed", goals.policy, 5, goal=obs[0])
    refused(ArgumentError, None, goals.transfer, [0.0])
    large = solve(WORLD.mdp, Goals(lam=1e-3))
    refused(ArgumentError, "terminal_rewards", large.transfer, [1e307, 0.0])
    refused(ArgumentError, "task", goals.transfer([0.0, 1.0]).policy, 1)
    refused(ArgumentError, "seed", lost.potential, goal=obs[0])
    refused(ArgumentError, "seed", lost.value, 0)
    refused(ArgumentError, None, goals.value_fn)
    refused(ArgumentError, "source", solve, line(), Goals(radius=0.1))
    refused(ArgumentError, "network", fit, data(), Column(), network=TINY)
    assert solve(data("state"), Goals()).status == ("converged",)
    worse = replace(exact.solve_columns(WORLD.mdp, 20.0), error=np.full(N, 1e-3))
    monkeypatch.setattr(exact, "solve_columns", lambda mdp, lam: worse)
    refused(NotConverged, None, solve, WORLD.mdp, Goals())
