"""Continuing tasks, and rewards of any sign, against 100-digit arithmetic."""

from dataclasses import replace

import flint
import numpy as np
import pytest

import judge
from drogo import MDP, GridWorld, exact
from drogo.errors import ArgumentError, MDPError, NotConverged
from drogo.exact.growth import growth, infinite, radius_bounds
from drogo.mdp import Edges
from raising import refused
from random_mdps import random_mdp

CLOSE = 1e-10


def endless(seed, spread=3.0):
    """A random continuing task of nine states."""
    rewards = spread * np.random.default_rng(seed).standard_normal(9)
    return replace(random_mdp(seed, 9, terminals=0), reward=rewards)


def by_hundred_digits(mdp, lam, reference):
    """Returns log e and the log of the eigenvalue."""
    n, arb = mdp.n_states, flint.arb
    weight = [(arb(r) / arb(lam)).exp() for r in mdp.reward.tolist()]
    W = flint.arb_mat(
        n, n, [w * p for w, P in zip(weight, mdp.P.toarray(), strict=True) for p in P.tolist()]
    )
    values, vectors = flint.acb_mat(W).eig(right=True, algorithm="approx")
    k = int(np.argmax([float(value.real.mid()) for value in values]))
    e = [(vectors[s, k] / vectors[reference, k]).real.mid() for s in range(n)]
    return np.array([float(x.log().mid()) for x in e]), float(values[k].real.log().mid())


@pytest.mark.parametrize("seed", range(6))
def test_random_continuing_tasks(seed):
    mdp = endless(seed, spread=[0.01, 1.0, 3.0, 10.0, 30.0, 3.0][seed])
    for lam in (1.3, 20.0):
        ours = exact.perron(mdp, lam, reference=seed % 9).checked()
        log_e, log_eigenvalue = by_hundred_digits(mdp, lam, seed % 9)
        assert np.abs(ours.log_e - log_e).max() < CLOSE
        assert abs(ours.log_eigenvalue - log_eigenvalue) < CLOSE
        assert ours.bracket[0] <= ours.log_eigenvalue <= ours.bracket[1]
        assert ours.bracket[1] - ours.bracket[0] < 1e-12
    # Entries differ by factors of e^400, and eigenvalues by more.
    solution = exact.perron(endless(2, spread=100.0), lam=1.0).checked()
    assert np.ptp(solution.log_e) > 300
    assert solution.bracket[1] - solution.bracket[0] < 1e-11


def test_gains_by_hand_and_as_average_rewards_less_divergences():
    """One state has reward 2 and one 0, and each leads to the other: the gain is 1."""
    mdp = MDP.from_arrays([[0.0, 1.0], [1.0, 0.0]], [2.0, 0.0])
    solution = exact.perron(mdp, lam=0.5, reference=1)
    assert solution.gain == pytest.approx(1.0, abs=1e-15)
    assert solution.log_e == pytest.approx([2.0, 0.0], abs=1e-14)  # (2 - 1) / 0.5
    assert solution.log_eigenvalue == pytest.approx(2.0)
    mdp = endless(3)
    shifted = replace(mdp, reward=mdp.reward + 1000.0)
    before, after = (exact.perron(one, 2.0, reference=4) for one in (mdp, shifted))
    assert after.gain == pytest.approx(before.gain + 1000, abs=1e-9)
    assert np.allclose(after.log_e, before.log_e, atol=1e-11)
    # This holds for deterministic actions.
    rng = np.random.default_rng(7)
    n, lam = 8, 1.5
    P = np.zeros((3, n, n))
    for action in range(3):
        P[action, np.arange(n), rng.permutation(n)] = 1.0
    P[0] = np.roll(np.eye(n), 1, axis=1)
    mdp = MDP.from_arrays(P, rng.standard_normal(n))
    solution = exact.perron(mdp, lam)
    value = P.transpose(1, 0, 2) @ np.exp(solution.log_e)
    policy = value / value.sum(axis=1, keepdims=True)
    chain = np.einsum("sa,ast->st", policy, P)
    time = np.linalg.matrix_power((chain + np.eye(n)) / 2, 4096)[0]
    divergence = time @ (policy * np.log(3 * policy)).sum(axis=1)
    average = time @ mdp.reward
    assert solution.gain == pytest.approx(average - lam * divergence, abs=1e-12)
    assert average > mdp.reward.mean() + 0.1  # that of the default policy


def test_errors_also_of_invalid_edges():
    two_classes = MDP.from_arrays([[0.5, 0.5], [0.0, 1.0]], [-1.0, -1.0])
    refused(ArgumentError, "mdp", exact.perron, GridWorld.load("four-rooms").mdp, 1.0)
    refused(ArgumentError, None, exact.perron, two_classes, 1.0)
    refused(ArgumentError, "reference", exact.perron, endless(0), 1.0, reference=9)
    refused(ArgumentError, "lam", exact.perron, endless(0), -3.0)
    refused(MDPError, "mdp", exact.log_column, endless(0), 1.0)
    refused(NotConverged, None, replace(exact.perron(endless(0), 1.0), error=1.0).checked)
    refused(ArgumentError, "lam", exact.spectral_radius, random_mdp(0, 8), -1.0)
    states, ones, zeros = np.array([0, 1]), np.ones(2), np.zeros(2)
    for name, edges in (
        ("weight", (states, states[::-1], np.array([1.0, 0.0]), zeros)),
        ("reward", (states, states[::-1], ones, np.array([0.0, np.inf]))),
        ("state", (states - 1, states, ones, zeros)),
        ("next_state", (states, states + 1, ones, zeros)),
    ):
        refused(ArgumentError, name, edges_of, *edges, 2)


def any_sign(seed, radius, lam):
    """Makes a random episodic task whose rewards have both signs and this spectral radius."""
    mdp, rng = random_mdp(seed, 10, terminals=1 + seed % 2), np.random.default_rng(seed)
    reward = np.where(mdp.terminal, rng.normal(size=10), rng.normal(size=10))
    inside = ~mdp.terminal
    P = mdp.P.toarray()[inside][:, inside]
    size = np.abs(np.linalg.eigvals(np.exp(reward[inside] / lam)[:, None] * P)).max()
    reward[inside] += lam * np.log(radius / size)
    return replace(mdp, reward=reward)


@pytest.mark.parametrize("seed", range(10))
def test_rewards_of_any_sign_where_the_column_is_finite(seed):
    lam, radius = (0.5, 2.0)[seed % 2], (0.5, 0.9, 0.99, 0.999, 0.97)[seed % 5]
    mdp = any_sign(seed, radius, lam)
    assert (mdp.reward[~mdp.terminal] > 0).any()
    assert exact.spectral_radius(mdp, lam) == pytest.approx(radius, abs=1e-12)
    assert np.abs(exact.log_column(mdp, lam) - judge.column(mdp, lam)).max() < CLOSE
    ours, theirs = exact.log_columns(mdp, lam), judge.columns(mdp, lam)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=CLOSE)
    for definition in ("transition", "representation"):
        solution = exact.solve(mdp, lam, definition).checked()
        log_e, eigenvalue = judge.by_eigendecomposition(mdp, lam, definition)
        assert solution.eigenvalue == pytest.approx(eigenvalue, rel=1e-9)
        assert np.abs(solution.log_e - log_e).max() < CLOSE


@pytest.mark.parametrize("seed", range(5))
def test_rewards_of_any_sign_where_it_is_not(seed):
    lam, radius = (0.5, 2.0)[seed % 2], (1.0001, 1.01, 1.1, 2.0, 50.0)[seed]
    for solve in (exact.log_column, exact.log_columns, exact.default_representation):
        error = refused(MDPError, "mdp", solve, any_sign(seed, radius, lam), lam)
        assert f"{radius:.6g}" in str(error)


def test_the_spectral_radius_of_parts_is_that_of_the_largest():
    """State 0 loops with 1/2, states 1 and 2 are a cycle of 1/3, and state 3 is left for good."""
    P = np.zeros((5, 5))
    P[[0, 0, 1, 2, 2, 3], [0, 1, 2, 1, 3, 4]] = 1 / 2, 1 / 2, 1, 1 / 9, 8 / 9, 1
    mdp = MDP.from_arrays(P, [0.0, 0.0, 0.0, 5.0, 0.0], [4])
    assert exact.spectral_radius(mdp, 1.0) == pytest.approx(0.5, abs=1e-14)
    # From 2: x = 1/9 x + 8/9 e^5, so x = e^5; and the states before it lead there for certain.
    assert exact.log_column(mdp, 1.0) == pytest.approx([5.0, 5.0, 5.0, 5.0, 0.0], abs=1e-13)
    one_way = MDP.from_arrays([[0.0, 1.0], [0.0, 0.0]], [7.0, 0.0], [1])
    assert exact.spectral_radius(one_way, 1.0) == 0


def edges_of(state, after, share, reward, n):
    return Edges(n, state, after, share, reward, share < 0, np.zeros(state.size))


def test_what_double_precision_does_not_determine():
    """The gain is that of the best ring, and the others are lost to rounding."""
    statuses = set()
    for rng in map(np.random.default_rng, range(20)):
        P = np.roll(np.eye(5), 1, axis=1) * (rng.random((5, 1)) + 0.1)
        P[rng.integers(5, size=5), rng.integers(5, size=5)] += rng.random(5)
        P /= P.sum(axis=1, keepdims=True)
        statuses.add(exact.perron(MDP.from_arrays(P, rng.choice([-1e6, 0.0, 1e6], 5)), 1.0).status)
    assert statuses == {"converged", "inaccurate"}
    # 0, 1, 2 and back, with gains of 1e6, 0 and -1e6; state 1 stays with a chance of 1/2. The
    # eigenvalue solves x^3 = x^2 / 2 + 1 / 2, so it is 1.
    state, after = np.array([0, 1, 1, 2]), np.array([1, 1, 2, 0])
    share, gain = np.array([1, 0.5, 0.5, 1]), np.array([1e6, 0, 0, -1e6])
    edges, everything = edges_of(state, after, share, gain, 3), np.ones(3, dtype=bool)
    low, high = radius_bounds(edges, everything, 1.0)
    assert low <= 0 <= high
    assert infinite(edges, everything, 1.0)
    assert not growth(edges, everything, 1.0).is_known
