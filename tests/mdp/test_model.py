"""`MDP.from_arrays`: what it keeps, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from drogo import MDP, MDPError
from random_mdps import random_mdp, recipes

CHAIN = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
COSTS = [-1.0, -2.0, 0.0]


def test_dense_sparse_and_per_action_agree():
    one = MDP.from_arrays(CHAIN, COSTS, [2])
    sparse = MDP.from_arrays(sp.csc_matrix(CHAIN), np.array(COSTS), np.array([False, False, True]))
    stacked = MDP.from_arrays(np.stack([CHAIN, CHAIN]), COSTS, [2])
    listed = MDP.from_arrays([sp.coo_array(CHAIN), CHAIN], COSTS, [2])
    nested = MDP.from_arrays(CHAIN.tolist(), COSTS, [2])
    for mdp in (one, sparse, stacked, listed, nested):
        assert np.array_equal(mdp.P.toarray()[:2], CHAIN[:2])
        assert mdp.P[[2]].nnz == 0  # the row of a terminal state is empty
    assert stacked.n_actions == 2
    assert repr(stacked) == "MDP(3 states, 2 action(s), 1 terminal)"


def test_default_policy_weighs_the_actions():
    right = np.array([[0.0, 1.0], [0.0, 0.0]])
    stay = np.eye(2)
    mdp = MDP.from_arrays([right, stay], [-1.0, 0.0], [1], default_policy=[[0.25, 0.75], [0, 0]])
    assert np.allclose(mdp.P.toarray(), [[0.75, 0.25], [0, 0]])
    assert np.allclose(MDP.from_arrays([right, stay], [-1.0, 0.0], [1]).P.toarray()[0], 0.5)


def test_start():
    assert np.allclose(MDP.from_arrays(CHAIN, COSTS, [2]).start, [0.5, 0.5, 0])
    assert np.allclose(MDP.from_arrays(CHAIN, COSTS, [2], start=1).start, [0, 1, 0])
    assert np.allclose(MDP.from_arrays(CHAIN, COSTS, [2], start=[0.2, 0.8, 0]).start, [0.2, 0.8, 0])


def test_outcomes_by_hand():
    """Two actions: one deterministic, the other with three outcomes of which the last is padding."""
    right = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    slip = [[0.25, 0.5, 0.25], [0.0, 0.5, 0.5], [np.nan, np.inf, -1.0]]  # not read: terminal
    outcomes = MDP.from_arrays([right, slip], COSTS, [2]).outcomes
    assert outcomes.next_state[:, 0].tolist() == [[1, 0, 0], [2, 1, 1], [2, 2, 2]]
    assert outcomes.next_state[:, 1].tolist() == [[0, 1, 2], [1, 2, 1], [2, 2, 2]]
    assert outcomes.cumulative[:, 0].tolist() == [[1, 1, 1]] * 3
    assert outcomes.cumulative[:, 1].tolist() == [[0.25, 0.75, 1], [0.5, 1, 1], [1, 1, 1]]


@given(recipes())
@settings(max_examples=30)
def test_outcomes_are_the_transitions(recipe):
    mdp = random_mdp(**recipe)
    probability = np.diff(mdp.outcomes.cumulative, axis=2, prepend=0.0)
    assert (probability >= 0).all()
    for action, matrix in enumerate(mdp.transitions):
        rebuilt = np.zeros(matrix.shape)
        states = np.arange(mdp.n_states)[:, None]
        np.add.at(
            rebuilt,
            (states, mdp.outcomes.next_state[:, action]),
            probability[:, action],
        )
        live = ~mdp.terminal
        assert np.allclose(rebuilt[live], matrix.toarray()[live], atol=1e-12)
        assert np.array_equal(rebuilt[~live], np.eye(mdp.n_states)[~live])


def test_nothing_can_be_changed_afterwards():
    r = np.array(COSTS)
    mdp = MDP.from_arrays(CHAIN, r, [2])
    r[0] = 7.0
    assert mdp.reward[0] == -1.0
    arrays = (mdp.reward, mdp.terminal, mdp.start, mdp.P.data, mdp.transitions[0].data)
    for array in (*arrays, *mdp.outcomes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@given(recipes())
@settings(max_examples=30)
def test_rows_are_distributions(recipe):
    mdp = random_mdp(**recipe)
    sums = mdp.P.sum(axis=1)
    assert np.allclose(sums[~mdp.terminal], 1)
    assert np.allclose(sums[mdp.terminal], 0)


def changed(i, j, value):
    P = CHAIN.copy()
    P[i, j] = value
    return P


BROKEN = {
    "row sum": (
        (changed(1, 0, 0.3), COSTS, [2]),
        r"the row of state 1 does not sum to 1 .*1 -0\.2\)",
    ),
    "negative": (([[1.5, -0.5, 0], *CHAIN[1:].tolist()], COSTS, [2]), r"P\[0, 1\] = -0.5 is neg"),
    "nan in P": ((changed(0, 0, np.nan), COSTS, [2]), r"P\[0, 0\] = nan is not finite"),
    "nan in r": ((CHAIN, [np.nan, -1.0, 0.0], [2]), "r is nan in state 0"),
    "stuck": ((np.eye(3), COSTS, [2]), r"2 non-terminal state\(s\) cannot reach.*states 0, 1"),
    "short r": ((CHAIN, [-1.0, 0.0], [2]), r"r has shape \(2,\); expected \(states,\) = \(3,\)"),
    "not square": ((CHAIN[:2], COSTS, [2]), r"P\[0\] has shape \(2, 3\); expected square"),
    "sizes": (([CHAIN, np.eye(2)], COSTS, [2]), r"P\[1\] has shape \(2, 2\)"),
    "no such terminal": ((CHAIN, COSTS, [3]), "terminal names state 3"),
    "float terminal": ((CHAIN, COSTS, [0.0, 0.0, 1.0]), "boolean mask or a list of state indices"),
    "short mask": ((CHAIN, COSTS, [True, False]), r"terminal has shape \(2,\)"),
}


def test_rewards_of_any_sign_and_tasks_that_never_end():
    """Whether a vector exists depends on lam, and `drogo.exact` says so."""
    mdp = MDP.from_arrays(CHAIN, [3.0, 0.0, -1.0], [2])
    assert mdp.reward.tolist() == [3.0, 0.0, -1.0]
    for terminal in ([], None, [False] * 3):
        endless = MDP.from_arrays(np.eye(3), COSTS, terminal)
        assert not endless.terminal.any()
        assert np.array_equal(endless.P.toarray(), np.eye(3))
        assert np.allclose(endless.start, 1 / 3)


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_mdps_say_what_is_wrong(kind):
    arguments, message = BROKEN[kind]
    with pytest.raises(MDPError, match=message):
        MDP.from_arrays(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 5}, "start = 5, but states run from 0 to 2"),
        ({"start": [0.5, 0.2, 0.0]}, "start must sum to 1; it sums to 0.7"),
        ({"start": [1.5, -0.5, 0.0]}, "negative or NaN"),
        ({"default_policy": [[0.5, 0.5]] * 3}, r"shape \(3, 2\); expected \(states, actions\)"),
        ({"default_policy": [[0.5]] * 3}, "default_policy: the row of states 0, 1 does not sum"),
        ({"default_policy": [[-1.0]] * 3}, "negative or not finite"),
        (
            {"default_policy": [[1.0], [1.0 + 1e-7], [1.0]]},
            r"default_policy: the row of state 1 does not sum to 1 \(state 1: 1 \+1e-07\)",
        ),
        ({"states": ["a"]}, "1 labels for 3 states"),
    ],
)
def test_broken_options(options, message):
    with pytest.raises(MDPError, match=message):
        MDP.from_arrays(CHAIN, COSTS, [2], **options)


def test_many_states_are_not_all_listed():
    with pytest.raises(MDPError, match="states 0, 1, 2, 3, 4 and 94 more"):
        MDP.from_arrays(np.eye(100), -np.ones(100), [99])


def test_single_precision_rows_are_normalised():
    P = np.random.default_rng(0).random((30, 30)).astype(np.float32)
    P /= P.sum(axis=1, keepdims=True)
    mdp = MDP.from_arrays(P, -np.ones(30), [29])
    assert np.abs(mdp.P.sum(axis=1)[:29] - 1).max() < 1e-15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CHAIN, COSTS, [0, 0, 1]), "If it is a mask of 0 and 1, give booleans"),
        ((CHAIN, ["a", "b", "c"], [2]), "r is not an array of numbers"),
        (([[1.0, 0.0], [1.0]], COSTS, [2]), "P.* shape|not an array of numbers"),
    ],
)
def test_more_mistakes(arguments, message):
    with pytest.raises(MDPError, match=message):
        MDP.from_arrays(*arguments)


def test_rounding_in_a_distribution_is_normalised():
    policy = np.array([[0.1, 0.9 + 1e-10], [0.3, 0.7], [0.0, 0.0]])
    start = [0.5, 0.5 + 1e-7, 0.0]
    mdp = MDP.from_arrays([CHAIN, CHAIN], COSTS, [2], default_policy=policy, start=start)
    assert np.abs(mdp.default_policy[0].sum() - 1) < 1e-15
    assert mdp.default_policy[1:].tolist() == policy[1:].tolist()
    assert mdp.start.sum() == 1
    single = (policy / policy.sum(axis=1, keepdims=True).clip(0.5)).astype(np.float32)
    mdp = MDP.from_arrays([CHAIN, CHAIN], COSTS, [2], default_policy=single)
    assert np.abs(mdp.default_policy[:2].sum(axis=1) - 1).max() < 1e-15


def with_index(matrix, part, value):
    """Returns a matrix whose first index is something else."""
    changed = getattr(matrix, part).copy()
    changed[1] = value
    setattr(matrix, part, changed)
    return matrix


def entry_outside(kind, place):
    if kind == "coo":
        matrix = sp.coo_array(CHAIN)
        matrix.coords = (matrix.coords[0], np.where(matrix.coords[1] == 0, place, 1))
    elif kind == "lil":
        matrix = sp.lil_array(CHAIN)
        matrix.rows[0] = [0, place]
    else:
        matrix = sp.dok_array(CHAIN)
        matrix._dict[0, place] = 0.5
    return matrix


COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}
FAR = 10**6
OUTSIDE = {
    **{f"{kind} {place}": lambda kind=kind, place=place: with_index(COMPRESSED[kind](CHAIN), "indices", place)
       for kind in COMPRESSED for place in (FAR, -FAR)},
    **{f"{kind} {place}": lambda kind=kind, place=place: entry_outside(kind, place)
       for kind in ("coo", "lil", "dok") for place in (FAR, -FAR)},
    "indptr": lambda: with_index(sp.csr_array(CHAIN), "indptr", 10**6),
    "complex": lambda: sp.csr_array(CHAIN * 1j),
}  # fmt: skip


@pytest.mark.parametrize("kind", OUTSIDE)
def test_sparse_matrices_are_checked_before_scipy_reads_them(kind):
    """SciPy's compiled functions write to wherever an index says, and the process may die."""
    with pytest.raises(MDPError, match=r"P is not a proper sparse matrix: "):
        MDP.from_arrays(OUTSIDE[kind](), COSTS, [2])
