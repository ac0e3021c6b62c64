"""The columns of all goals: against 100-digit arithmetic, and what they must satisfy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import judge
from drogo import MDP, GridWorld, exact
from drogo.exact.certified import solve_goals
from drogo.exact.columns import Factored
from drogo.exact.reach import Reach
from drogo.exact.rows import default_rows
from drogo.exact.scaled import Scaled
from random_mdps import random_mdp, recipes

WORLD = GridWorld.parse("goal H: -5\n\n########\n#..x..G#\n#.#x##.#\n#.#.H#.#\n#......#\n########")
CLOSE = 1e-10


def corridor(cells):
    wall = "#" * (cells + 2)
    return GridWorld.parse(f"{wall}\n#{'.' * (cells - 1)}G#\n{wall}").mdp


def differences(ours, theirs):
    """The largest difference of a log entry, for each goal."""
    assert np.array_equal(np.isneginf(ours), np.isneginf(theirs))
    both = np.isfinite(theirs)
    return np.abs(np.where(both, ours, 0.0) - np.where(both, theirs, 0.0)).max(axis=1, initial=0.0)


def test_a_chain_by_hand():
    """Two states and a goal with R = 2, as in test_reference: e = (1/11, 3/11) to the goal.

    To state 1: 2 e0 = e0/2 + 1/2, so e0 = 1/3. To state 0, where the goal is worth nothing:
    2 e1 = 1/2, so e1 = 1/4.
    """
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    mdp = MDP.from_arrays(P, [-np.log(2)] * 2 + [7.0], [2])
    wanted = [[1, 1 / 4, 0], [1 / 3, 1, 0], [1 / 11, 3 / 11, 1]]
    np.testing.assert_allclose(np.exp(exact.log_columns(mdp, 1.0)), wanted, rtol=1e-14)


@pytest.mark.parametrize("lam", [0.4, 1.3, 20.0, 1e4, 1e8])
def test_every_pair_of_a_world_against_100_digits(lam):
    columns = exact.solve_columns(WORLD.mdp, lam)
    wrong = differences(columns.log_e, judge.columns(WORLD.mdp, lam))
    assert wrong.max() < CLOSE
    assert columns.status == "converged"
    assert (wrong <= columns.error).all()  # It is a bound.
    assert columns.error.max() < 1e-11


@pytest.mark.parametrize("seed", range(4))
def test_every_pair_of_random_mdps_against_100_digits(seed):
    mdp = random_mdp(seed, 14, terminals=2)
    for lam in (1.3, 20.0):
        columns = exact.solve_columns(mdp, lam)
        wrong = differences(columns.log_e, judge.columns(mdp, lam))
        assert wrong.max() < CLOSE
        assert (wrong <= columns.error).all()


def test_entries_far_below_the_smallest_double_against_many_digits():
    """At lam = 0.02 a step costs 51 and a low-reward cell 1001; some goals share a scaling."""
    columns = exact.solve_columns(WORLD.mdp, 0.02)
    wrong = differences(columns.log_e, judge.columns(WORLD.mdp, 0.02, digits=4000))
    assert columns.log_e[np.isfinite(columns.log_e)].min() < -1500
    assert wrong.max() < CLOSE
    assert (wrong <= columns.error).all()
    assert 1 < len(columns.kept.parts) < WORLD.n_states


def test_a_long_corridor_has_the_known_slope():
    """Away from the ends a step multiplies e by x, where exp(1/lam) = 1/2 + (x + 1/x)/4."""
    mdp = corridor(400)
    v = exact.log_columns(mdp, 0.4)
    slope = -np.arccosh(2 * np.exp(1 / 0.4) - 1)
    assert v[-1].min() < -1200
    s, g = np.mgrid[5:395, 5:395]
    np.testing.assert_allclose(v[5:395, 5:395], (slope * np.abs(s - g)).T, atol=1e-9)


@given(recipes(), st.sampled_from([1.3, 20.0, 1e3]))
@settings(max_examples=40)
def test_dense_inverse(recipe, lam):
    mdp = random_mdp(**recipe)
    R = np.exp(np.where(mdp.terminal, 0.0, -mdp.reward / lam))
    Z = np.linalg.inv(np.diag(R) - mdp.P.toarray())
    v = exact.log_columns(mdp, lam)
    np.testing.assert_allclose(np.exp(v), (Z / np.diag(Z)).T, rtol=1e-9, atol=1e-12)


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


def test_a_terminal_state_that_is_worth_nothing():
    mdp = WORLD.mdp
    columns = exact.solve_columns(mdp, 20.0, mdp.terminal)
    values = columns.transfer([[0.0, -np.inf], [-np.inf, -3.0]])
    np.testing.assert_allclose(values[0], columns.log_e[0], atol=1e-15)
    np.testing.assert_allclose(values[1], columns.log_e[1] - 3 / 20, atol=1e-15)
    with pytest.raises(exact.NotConverged):
        replace(columns, error=np.array([1.0, 1.0])).transfer([0.0, 0.0])
    other = exact.solve_columns(mdp, 20.0, [0])
    with pytest.raises(ValueError, match="not those of all terminal states"):
        other.transfer([0.0, 0.0])


def test_goals_in_any_form():
    mdp = WORLD.mdp
    everything = exact.log_columns(mdp, 20.0)
    chosen = [3, 0, 3]
    np.testing.assert_allclose(exact.log_columns(mdp, 20.0, chosen), everything[chosen], atol=1e-13)
    assert exact.solve_columns(mdp, 20.0, mdp.terminal).goals.tolist() == [5, 11]
    assert exact.log_columns(mdp, 20.0, np.int32(2)).shape == (1, mdp.n_states)


@pytest.mark.parametrize(
    ("goals", "message"),
    [
        ([0, 19], "goals names state 19, but states run from 0 to 18"),
        ([-1], "goals names state -1"),
        ([0.5], "goals must be a boolean mask or a list of state indices"),
        ([], "goals is empty"),
        (np.ones(3, dtype=bool), r"goals has shape \(3,\)"),
    ],
)
def test_wrong_goals(goals, message):
    with pytest.raises(ValueError, match=message):
        exact.log_columns(WORLD.mdp, 20.0, goals)
    with pytest.raises(ValueError, match="lam is -1"):
        exact.log_columns(WORLD.mdp, -1.0)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([0.0], r"shape \(1,\); expected \(terminals,\) or \(tasks, terminals\)"),
        (np.zeros((1, 1, 2)), "shape"),
        ([[0.0, np.nan]], "NaN or plus infinity"),
        ([0.0, np.inf], "NaN or plus infinity"),
        ([[0.0, 0.0], [-np.inf, -np.inf]], "nothing is worth reaching"),
        (["a", "b"], "terminal_rewards is not an array of numbers"),
    ],
)
def test_wrong_rewards(rewards, message):
    with pytest.raises(ValueError, match=message):
        exact.transfer(WORLD.mdp, 20.0, rewards)


def test_all_pairs_of_a_large_world_are_refused():
    n = 200_000
    next_state = np.minimum(np.arange(n) + 1, n - 1)
    import scipy.sparse as sp

    P = sp.csr_array((np.ones(n), next_state, np.arange(n + 1)), shape=(n, n))
    mdp = MDP.from_arrays(P, np.full(n, -1.0), [n - 1])
    with pytest.raises(ValueError, match="a table of 200000 goals and 200000 states would take"):
        exact.log_columns(mdp, 20.0)


def test_an_inaccurate_column_is_never_returned_in_silence():
    columns = exact.solve_columns(WORLD.mdp, 20.0, [2, 5])
    worse = replace(columns, error=np.array([1e-13, 1e-3]))
    assert worse.status == "inaccurate"
    assert worse.converged.tolist() == [True, False]
    with pytest.raises(exact.NotConverged, match=r"1 of 2 goals .* state 5 .* off by 1.0e-03"):
        worse.checked()


@given(
    recipes(max_states=8), st.sampled_from([1e-12, 1e-6, 1e-2, 0.5, 10.0]), st.integers(0, 2**31)
)
@settings(max_examples=30)
def test_the_bound_holds_for_any_solver(recipe, noise, seed):
    """A bad solver's columns are refined, or their bound covers how wrong they are."""
    mdp, rng = random_mdp(**recipe), np.random.default_rng(seed)
    rows = default_rows(mdp, 20.0, "zero-row", 1.0)
    inverse = np.linalg.inv(np.eye(rows.n) - mdp.P.toarray() * np.exp(mdp.reward / 20.0)[:, None])
    inverse *= 1 + noise * rng.uniform(-1, 1, inverse.shape)
    goals = np.arange(rows.n)
    matrix = Scaled.of(rows, np.zeros(rows.n))
    found = solve_goals(matrix, lambda right, near: inverse @ right, goals, Reach(rows)(goals))
    proved = np.isfinite(found.error)
    wrong = differences(found.log_e[proved], judge.columns(mdp, 20.0)[proved])
    assert (wrong <= found.error[proved]).all()
    if noise <= 1e-6:
        assert found.error.max() < 1e-11


def test_a_solver_that_fails_proves_nothing():
    rows = default_rows(WORLD.mdp, 20.0, "zero-row", 1.0)
    goals, matrix = np.arange(3), Scaled.of(rows, np.zeros(rows.n))
    for answer in (np.nan, 0.0, -1.0, 1.0, np.inf):
        found = solve_goals(
            matrix, lambda right, near, x=answer: np.full_like(right, x), goals,
            Reach(rows)(goals),
        )  # fmt: skip
        assert np.isinf(found.error).all()
        assert not found.converged.any()


def test_factors_are_kept_only_for_updates():
    columns = exact.solve_columns(WORLD.mdp, 20.0, [4])
    assert isinstance(columns.kept.parts[0], Factored)
    assert columns.method == "factorised"
    assert columns.changed.size == 0
