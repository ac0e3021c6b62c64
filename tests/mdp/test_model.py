"""`MDP.from_arrays`: valid and invalid arguments."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from drogo import MDP
from drogo.errors import MDPError
from raising import refused
from random_mdps import random_mdp, recipes

CHAIN = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
COSTS = [-1.0, -2.0, 0.0]
ROWS = [[first, *CHAIN[1:].tolist()] for first in ([0.3, 0.5, 0], [1.5, -0.5, 0], [np.nan, 1, 0])]
SHAPES = (np.eye(3), CHAIN[:2], [CHAIN, np.eye(2)], [[1.0, 0.0], [1.0]], [])
BEYOND_ROUNDING = [[1.0], [1.0 + 1e-7], [1.0]]
INVALID = {
    "P": [*ROWS, *SHAPES],
    "r": [[np.nan, -1.0, 0.0], [-1.0, 0.0], ["a", "b", "c"]],
    "terminal": [[3], [0.0, 0.0, 1.0], [True, False], [0, 0, 1]],
    "start": [5, [0.5, 0.2, 0.0], [1.5, -0.5, 0.0], [np.nan, 1.0, 0.0]],
    "default_policy": [[[0.5, 0.5]] * 3, [[0.5]] * 3, [[-1.0]] * 3, BEYOND_ROUNDING],
    "states": [["a"]],
}


def test_dense_sparse_and_per_action_agree_and_are_read_only_copies():
    stacked, listed = np.stack([CHAIN, CHAIN]), [sp.coo_array(CHAIN), CHAIN]
    for P in (CHAIN, sp.csc_matrix(CHAIN), CHAIN.tolist(), stacked, listed):
        for terminal in ([2], np.array([False, False, True])):
            mdp = MDP.from_arrays(P, np.array(COSTS), terminal)
            assert np.array_equal(mdp.P.toarray()[:2], CHAIN[:2])
            assert mdp.P[[2]].nnz == 0  # the row of a terminal state is empty
    assert repr(mdp) == "MDP(3 states, 2 action(s), 1 terminal)"
    r = np.array(COSTS)
    mdp = MDP.from_arrays(CHAIN, r, [2])
    r[0] = 7.0
    assert mdp.reward[0] == -1.0
    arrays = (mdp.reward, mdp.terminal, mdp.start, mdp.P.data, mdp.transitions[0].data)
    assert not any(array.flags.writeable for array in (*arrays, *mdp.outcomes))


def test_default_policies_starts_rewards_of_any_sign_and_continuing_tasks():
    right, stay = np.array([[0.0, 1.0], [0.0, 0.0]]), np.eye(2)
    mdp = MDP.from_arrays([right, stay], [-1.0, 0.0], [1], default_policy=[[0.25, 0.75], [0, 0]])
    assert np.allclose(mdp.P.toarray(), [[0.75, 0.25], [0, 0]])
    assert np.allclose(MDP.from_arrays([right, stay], [-1.0, 0.0], [1]).P.toarray()[0], 0.5)
    for start, expected in ((None, [0.5, 0.5, 0]), (1, [0, 1, 0]), ([0.2, 0.8, 0], [0.2, 0.8, 0])):
        assert np.allclose(MDP.from_arrays(CHAIN, COSTS, [2], start=start).start, expected)
    assert MDP.from_arrays(CHAIN, [3.0, 0.0, -1.0], [2]).reward.tolist() == [3.0, 0.0, -1.0]
    for terminal in ([], None, [False] * 3):
        endless = MDP.from_arrays(np.eye(3), COSTS, terminal)
        assert not endless.terminal.any()
        assert np.array_equal(endless.P.toarray(), np.eye(3))
        assert np.allclose(endless.start, 1 / 3)


def test_outcomes_by_hand():
    """Two actions: one deterministic, the other with three outcomes of which the last is padding."""
    right = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    slip = [[0.25, 0.5, 0.25], [0.0, 0.5, 0.5], [np.nan, np.inf, -1.0]]  # The last is not read.
    outcomes = MDP.from_arrays([right, slip], COSTS, [2]).outcomes
    assert outcomes.next_state[:, 0].tolist() == [[1, 0, 0], [2, 1, 1], [2, 2, 2]]
    assert outcomes.next_state[:, 1].tolist() == [[0, 1, 2], [1, 2, 1], [2, 2, 2]]
    assert outcomes.cumulative[:, 0].tolist() == [[1, 1, 1]] * 3
    assert outcomes.cumulative[:, 1].tolist() == [[0.25, 0.75, 1], [0.5, 1, 1], [1, 1, 1]]


@given(recipes())
@settings(max_examples=30)
def test_rows_are_distributions_and_outcomes_their_entries(recipe):
    mdp = random_mdp(**recipe)
    probability = np.diff(mdp.outcomes.cumulative, axis=2, prepend=0.0)
    live, states = ~mdp.terminal, np.arange(mdp.n_states)[:, None]
    assert (probability >= 0).all()
    assert np.allclose(mdp.P.sum(axis=1), live)
    for action, matrix in enumerate(mdp.transitions):
        rebuilt = np.zeros(matrix.shape)
        np.add.at(rebuilt, (states, mdp.outcomes.next_state[:, action]), probability[:, action])
        assert np.allclose(rebuilt[live], matrix.toarray()[live], atol=1e-12)
        assert np.array_equal(rebuilt[~live], np.eye(mdp.n_states)[~live])


@pytest.mark.parametrize("argument", INVALID)
def test_invalid_arguments(argument):
    for value in INVALID[argument]:
        given = {"P": CHAIN, "r": COSTS, "terminal": [2], argument: value}
        refused(MDPError, argument, MDP.from_arrays, **given)


def test_rounding_in_a_distribution_is_normalised():
    P = np.random.default_rng(0).random((30, 30)).astype(np.float32)
    P /= P.sum(axis=1, keepdims=True)
    mdp = MDP.from_arrays(P, -np.ones(30), [29])
    assert np.abs(mdp.P.sum(axis=1)[:29] - 1).max() < 1e-15
    policy = np.array([[0.1, 0.9 + 1e-10], [0.3, 0.7], [0.0, 0.0]])
    start = [0.5, 0.5 + 1e-7, 0.0]
    mdp = MDP.from_arrays([CHAIN, CHAIN], COSTS, [2], default_policy=policy, start=start)
    assert np.abs(mdp.default_policy[0].sum() - 1) < 1e-15
    assert (mdp.default_policy[1:].tolist(), mdp.start.sum()) == (policy[1:].tolist(), 1)
    single = (policy / policy.sum(axis=1, keepdims=True).clip(0.5)).astype(np.float32)
    mdp = MDP.from_arrays([CHAIN, CHAIN], COSTS, [2], default_policy=single)
    assert np.abs(mdp.default_policy[:2].sum(axis=1) - 1).max() < 1e-15


@pytest.mark.parametrize("place", [10**6, -(10**6)])
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil", "dok"])
def test_an_entry_outside_of_a_sparse_matrix(kind, place):
    """The compiled functions of SciPy would read and write out of bounds."""
    matrix = sp.coo_array(CHAIN).asformat(kind)
    if kind == "coo":
        matrix.coords = (matrix.coords[0], np.where(matrix.coords[1] == 0, place, 1))
    elif kind == "lil":
        matrix.rows[0] = [0, place]
    elif kind == "dok":
        matrix._dict[0, place] = 0.5
    else:
        matrix.indices = np.append(place, matrix.indices[1:]).astype(matrix.indices.dtype)
    refused(MDPError, "P", MDP.from_arrays, matrix, COSTS, [2])


def test_other_errors():
    matrix = sp.csr_array(CHAIN)
    matrix.indptr = np.array([0, 10**6, 4, 5], dtype=matrix.indptr.dtype)
    for invalid in (matrix, sp.csr_array(CHAIN * 1j)):
        refused(MDPError, "P", MDP.from_arrays, invalid, COSTS, [2])
    refused(MDPError, "P", MDP.from_arrays, np.eye(100), -np.ones(100), [99])
