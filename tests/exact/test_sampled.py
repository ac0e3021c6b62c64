"""The exact solution of weighted edges."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from drogo import exact
from drogo.exact.columns import columns_of_edges, solve_edges
from drogo.mdp import Edges
from random_mdps import random_mdp

LAMS = st.sampled_from([0.05, 1.3, 20.0, 1e6])


@given(st.integers(0, 10**6), LAMS, st.booleans())
def test_edges_of_an_mdp_have_its_column_and_columns(seed, lam, scaled):
    mdp = random_mdp(seed, 8, terminals=1 + seed % 2)
    v, live = solve_edges(mdp.edges, lam, scaled=scaled), ~mdp.terminal
    truth = exact.log_column(mdp, lam)
    np.testing.assert_allclose(v[live], truth[live], rtol=1e-11, atol=1e-12)
    assert np.isnan(v[~live]).all()  # no edge leaves a terminal state
    columns = columns_of_edges(mdp.edges, lam, np.arange(mdp.n_states))
    np.testing.assert_allclose(columns.log_e, exact.log_columns(mdp, lam), rtol=1e-11, atol=1e-11)
    assert columns.converged.all()


def chain(weight, log_cost, scaled=True):
    """Solves two kinds of transition from state 0 to the terminal state 1."""
    before, after, over = np.array([0, 0]), np.array([1, 1]), np.array([True, True])
    edges = Edges(2, before, after, np.array(weight), -np.array(log_cost), over, np.zeros(2))
    return solve_edges(edges, 1.0, scaled=scaled)[0]


def test_rewards_of_the_action_by_hand():
    """Weights 1 and 3, exp(r/lam) of 1/2 and 1/4: the mean is 1/4 * 1/2 + 3/4 * 1/4 = 5/16. Not
    scaled: the mean of exp(-r/lam) is 1/4 * 2 + 3/4 * 4 = 7/2, and v = -log of it."""
    costs = np.log([2.0, 4.0])
    assert chain([1.0, 3.0], costs) == pytest.approx(np.log(5 / 16), abs=1e-12)
    assert chain([1.0, 3.0], costs, scaled=False) == pytest.approx(-np.log(3.5), abs=1e-12)
    assert chain([1.0, 1.0], [600.0, 600.0]) == pytest.approx(-600.0)


def test_unknown_states():
    """State 2 only leads to itself, so it never terminates. State 4 is entered but never left, so
    the transition to it is left out. State 5 leads only there."""
    state = np.array([0, 1, 1, 2, 3, 3, 5])
    after = np.array([1, 2, 9, 2, 0, 4, 4])
    over, reward = after == 9, np.full(7, -0.5)
    edges = Edges(10, state, after, np.ones(7), reward, over, np.where(over, -1.0, 0.0))
    one = -0.5 - np.log(2) - 1.0  # half of the time, to the terminal value of -1
    expected = [one - 0.5, one, -np.inf, one - 1.0, *[np.nan] * 6]
    np.testing.assert_allclose(solve_edges(edges, 1.0), expected, atol=1e-12)
