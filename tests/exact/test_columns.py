"""The columns of all goals, and of weighted edges: against 100 digits, and their properties."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

import judge
from drogo import MDP, GridWorld, exact
from drogo.errors import ArgumentError, MDPError, NotConverged
from drogo.exact.columns import Scaled, columns_of_edges, solve_edges, solve_goals
from drogo.exact.rows import Reach, default_rows
from drogo.mdp import Edges
from raising import refused
from random_mdps import corridor, random_mdp, recipes

WORLD = GridWorld.parse("goal H: -5\n\n########\n#..x..G#\n#.#x##.#\n#.#.H#.#\n#......#\n########")
CLOSE = 1e-10


def check(columns, theirs):
    """Compares entries with 100 digits, and their errors with the bounds that are finite."""
    proven = np.isfinite(columns.error)
    ours, theirs = columns.log_e[proven], theirs[proven]
    reached = np.isfinite(theirs)
    assert np.array_equal(np.isneginf(ours), ~reached)
    wrong = np.abs(np.where(reached, ours, 0.0) - np.where(reached, theirs, 0.0))
    assert (wrong.max(axis=1, initial=0.0) <= columns.error[proven]).all()
    return wrong.max(initial=0.0)


def test_a_chain_by_hand_and_a_long_corridor():
    """Two states and a goal with R = 2: e = (1/11, 3/11) to the goal. To state 1: 2 e0 = e0/2 + 1/2,
    so e0 = 1/3. To state 0, which the goal does not reach: 2 e1 = 1/2, so e1 = 1/4."""
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    mdp = MDP.from_arrays(P, [-np.log(2)] * 2 + [7.0], [2])
    wanted = [[1, 1 / 4, 0], [1 / 3, 1, 0], [1 / 11, 3 / 11, 1]]
    np.testing.assert_allclose(np.exp(exact.log_columns(mdp, 1.0)), wanted, rtol=1e-14)
    # Far from its ends, a step multiplies e by x, where exp(1/lam) = 1/2 + (x + 1/x)/4.
    v, slope = exact.log_columns(corridor(400), 0.4), -np.arccosh(2 * np.exp(1 / 0.4) - 1)
    assert v[-1].min() < -1200
    s, g = np.mgrid[5:395, 5:395]
    np.testing.assert_allclose(v[5:395, 5:395], (slope * np.abs(s - g)).T, atol=1e-9)


@pytest.mark.parametrize("lam", [0.02, 0.4, 1.3, 20.0, 1e4, 1e8])
def test_every_pair_of_a_world_against_100_digits(lam):
    """At lam = 0.02 a step costs 51 and a low-reward cell 1001, beyond the range of a double."""
    columns, low = exact.solve_columns(WORLD.mdp, lam), lam < 0.1
    assert check(columns, judge.columns(WORLD.mdp, lam, digits=4000 if low else 100)) < CLOSE
    assert low == (columns.log_e[np.isfinite(columns.log_e)].min() < -1500)
    assert columns.status == "converged" or low
    assert columns.error.max() < 1e-11 or low


@pytest.mark.parametrize("seed", range(4))
def test_every_pair_of_random_mdps_against_100_digits(seed):
    mdp = random_mdp(seed, 14, terminals=2)
    for lam in (1.3, 20.0):
        assert check(exact.solve_columns(mdp, lam), judge.columns(mdp, lam)) < CLOSE


@given(recipes(), st.sampled_from([0.05, 1.3, 20.0, 1e6]))
@settings(max_examples=40)
def test_a_quasimetric(recipe, lam):
    v = exact.log_columns(random_mdp(**recipe), lam)
    depth = np.abs(v[np.isfinite(v)]).max()
    assert (np.diag(v) == 0).all()
    assert (v <= 1e-12).all()
    by_way_of = v.T[:, :, None] + v.T[None, :, :]  # from s to h to g
    assert (v.T[:, None, :] >= by_way_of - 1e-11 - 1e-14 * depth).all()


@given(recipes(), st.sampled_from([0.05, 1.3, 20.0]), st.integers(0, 2**31))
@settings(max_examples=30)
def test_transfer_is_the_column_of_each_task(recipe, lam, seed):
    mdp = random_mdp(**recipe)
    rewards = np.random.default_rng(seed).normal(scale=10, size=(3, mdp.terminal.sum()))
    values = exact.transfer(mdp, lam, rewards)
    for task, value in zip(rewards, values, strict=True):
        np.testing.assert_allclose(value, exact.log_column(mdp, lam, task), rtol=1e-13, atol=1e-11)
    np.testing.assert_array_equal(exact.transfer(mdp, lam, rewards[1]), values[1])


@given(recipes(), st.sampled_from([1e-3, 1.3, 1e6]), st.integers(0, 2**31))
@settings(max_examples=40)
def test_transfer_is_minus_infinity_where_no_finite_reward_is_reached(recipe, lam, seed):
    """The last terminal state is unreachable; other rewards are minus infinity, or overflow to it."""
    mdp, rng = random_mdp(**recipe), np.random.default_rng(seed)
    P = mdp.P.toarray()
    if mdp.terminal.sum() > 1:
        P[:, -2] += P[:, -1]
        P[:, -1] = 0.0
    mdp = MDP.from_arrays(P, mdp.reward, mdp.terminal)
    rewards = rng.choice([-np.inf, -1e308, -3.0, 2.0], size=(4, mdp.terminal.sum()))
    rewards[:, 0] = np.where(np.isneginf(rewards).all(axis=1), 0.0, rewards[:, 0])
    values = exact.transfer(mdp, lam, rewards)
    columns = exact.log_columns(mdp, lam, mdp.terminal)
    reached = (rewards > -1e300).astype(float) @ np.isfinite(columns) > 0
    assert not np.isnan(values).any()
    assert np.array_equal(np.isfinite(values) & (values > -1e300), reached)


def test_goals_and_terminal_rewards_in_any_form_and_wrong_ones():
    mdp, chosen = WORLD.mdp, [3, 0, 3]
    everything = exact.log_columns(mdp, 20.0)
    np.testing.assert_allclose(exact.log_columns(mdp, 20.0, chosen), everything[chosen], atol=1e-13)
    assert exact.solve_columns(mdp, 20.0, mdp.terminal).goals.tolist() == [5, 11]
    assert exact.log_columns(mdp, 20.0, np.int32(2)).shape == (1, mdp.n_states)
    values = exact.transfer(mdp, 20.0, [[0.0, -np.inf], [-np.inf, -3.0]])
    np.testing.assert_allclose(values, everything[[5, 11]] - [[0], [3 / 20]], atol=1e-13)
    for goals in ([0, 19], [-1], [0.5], np.ones(3, dtype=bool)):
        refused(MDPError, "goals", exact.log_columns, WORLD.mdp, 20.0, goals)
    refused(ArgumentError, "goals", exact.log_columns, WORLD.mdp, 20.0, [])
    refused(MDPError, "terminal_rewards", exact.transfer, WORLD.mdp, 20.0, ["a", "b"])

    infinite = [[0.0, 0.0], [-np.inf, -np.inf]]
    after_division = ([0.0, 1e307], [1e307, 1e307])
    for rewards in ([0.0], np.zeros((1, 1, 2)), [[0.0, np.nan]], [0.0, np.inf], infinite):
        refused(ArgumentError, "terminal_rewards", exact.transfer, WORLD.mdp, 20.0, rewards)
    for rewards in after_division:
        refused(ArgumentError, "terminal_rewards", exact.transfer, WORLD.mdp, 1e-3, rewards)
    refused(MDPError, "mdp", exact.transfer, MDP.from_arrays([[1.0]], [-1.0]), 20.0, [])
    n = 200_000
    next_state = np.minimum(np.arange(n) + 1, n - 1)
    P = sp.csr_array((np.ones(n), next_state, np.arange(n + 1)), shape=(n, n))
    large = MDP.from_arrays(P, np.full(n, -1.0), [n - 1])
    refused(ArgumentError, None, exact.log_columns, large, 20.0)
    worse = replace(exact.solve_columns(WORLD.mdp, 20.0, [2, 5]), error=np.array([1e-13, 1e-3]))
    assert (worse.status, worse.converged.tolist()) == ("inaccurate", [True, False])
    refused(NotConverged, None, worse.checked)


def solved_by(mdp, solver):
    """The columns of all goals by a solver of linear systems."""
    rows = default_rows(mdp, 20.0, "zero-row", 1.0)
    goals, matrix = np.arange(rows.n), Scaled(rows, np.zeros(rows.n))
    matrix.solve = solver
    return solve_goals(matrix, goals, Reach(rows)(goals))


@given(
    recipes(max_states=8), st.sampled_from([1e-12, 1e-6, 1e-2, 0.5, 10.0]), st.integers(0, 2**31)
)
@settings(max_examples=30)
def test_the_bound_holds_for_any_solver(recipe, noise, seed):
    """A bad solver's columns are refined, or their bound covers the error."""
    mdp, rng = random_mdp(**recipe), np.random.default_rng(seed)
    weighted = mdp.P.toarray() * np.exp(mdp.reward / 20.0)[:, None]
    inverse = np.linalg.inv(np.eye(mdp.n_states) - weighted)
    inverse *= 1 + noise * rng.uniform(-1, 1, inverse.shape)
    columns = solved_by(mdp, lambda right: inverse @ right)
    check(columns, judge.columns(mdp, 20.0))
    if noise <= 1e-6:
        assert columns.error.max() < 1e-11


@pytest.mark.parametrize("answer", [np.nan, 0.0, -1.0, 1.0, np.inf])
def test_a_solver_that_fails_proves_nothing(answer):
    columns = solved_by(WORLD.mdp, lambda right: np.full_like(right, answer))
    assert np.isinf(columns.error).all()
    assert not columns.converged.any()


@given(st.integers(0, 10**6), st.sampled_from([0.05, 1.3, 20.0, 1e6]), st.booleans())
def test_edges_of_an_mdp_have_its_column_and_columns(seed, lam, scaled):
    mdp = random_mdp(seed, 8, terminals=1 + seed % 2)
    v, live = solve_edges(mdp.edges, lam, scaled=scaled), ~mdp.terminal
    np.testing.assert_allclose(v[live], exact.log_column(mdp, lam)[live], rtol=1e-11, atol=1e-12)
    assert np.isnan(v[~live]).all()  # no edge leaves a terminal state
    columns = columns_of_edges(mdp.edges, lam, np.arange(mdp.n_states))
    np.testing.assert_allclose(columns.log_e, exact.log_columns(mdp, lam), rtol=1e-11, atol=1e-11)
    assert columns.converged.all()


def chain(weight, log_cost, scaled=True):
    """Solves two kinds of transition from state 0 to the terminal state 1."""
    before, after, over = np.array([0, 0]), np.array([1, 1]), np.array([True, True])
    edges = Edges(2, before, after, np.array(weight), -np.array(log_cost), over, np.zeros(2))
    return solve_edges(edges, 1.0, scaled=scaled)[0]


def test_rewards_of_the_action_and_unknown_states_by_hand():
    """Weights 1 and 3, exp(r/lam) of 1/2 and 1/4: the mean is 1/4 * 1/2 + 3/4 * 1/4 = 5/16. Not
    scaled: the mean of exp(-r/lam) is 1/4 * 2 + 3/4 * 4 = 7/2, and v = -log of it."""
    costs = np.log([2.0, 4.0])
    assert chain([1.0, 3.0], costs) == pytest.approx(np.log(5 / 16), abs=1e-12)
    assert chain([1.0, 3.0], costs, scaled=False) == pytest.approx(-np.log(3.5), abs=1e-12)
    assert chain([1.0, 1.0], [600.0, 600.0]) == pytest.approx(-600.0)
    # State 2 only leads to itself, so it never terminates. State 4 is entered but never left, so
    # the transition to it is left out. State 5 leads only there.
    state, after = np.array([0, 1, 1, 2, 3, 3, 5]), np.array([1, 2, 9, 2, 0, 4, 4])
    over, reward = after == 9, np.full(7, -0.5)
    edges = Edges(10, state, after, np.ones(7), reward, over, np.where(over, -1.0, 0.0))
    one = -0.5 - np.log(2) - 1.0  # half of the time, to the terminal value of -1
    expected = [one - 0.5, one, -np.inf, one - 1.0, *[np.nan] * 6]
    np.testing.assert_allclose(solve_edges(edges, 1.0), expected, atol=1e-12)
