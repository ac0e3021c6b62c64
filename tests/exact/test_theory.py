"""The propositions of the paper about exact vectors, on random MDPs."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from drogo import exact
from random_mdps import random_mdp, recipes

LAMS = st.sampled_from([1.3, 5.0, 20.0])


def dense(mdp, lam, delta=0.001):
    """Returns R and P with absorbing terminal states, in plain NumPy."""
    P = mdp.P.toarray()
    P[mdp.terminal, mdp.terminal] = 1.0
    r = np.where(mdp.terminal, -delta, mdp.reward)
    return np.diag(np.exp(-r / lam)), P


@given(recipes(), LAMS)
@settings(max_examples=40)
def test_proposition_3_1_same_eigenvector_after_adding_the_identity(recipe, lam):
    """I + R - P~ and R - P~ share the positive eigenvector of the smallest eigenvalue. It does not
    belong to the largest of the inverse, because R - P~ is indefinite with an absorbing state."""
    mdp = random_mdp(**recipe)
    R, P = dense(mdp, lam)
    A = R - (P + P.T) / 2
    values, vectors = np.linalg.eigh(np.eye(mdp.n_states) + A)
    solution = exact.solve(mdp, lam, "transition")
    assert solution.eigenvalue == pytest.approx(values[0] - 1, abs=1e-9 * np.abs(A).max())
    u = np.exp(solution.log_e)
    assert abs(u @ vectors[:, 0]) == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(A @ u - solution.eigenvalue * u) < 1e-8 * np.abs(A).max()


@given(recipes(), LAMS)
@settings(max_examples=50)
def test_proposition_3_10_the_anchored_optimum_is_a_column(recipe, lam):
    """(R - P) exp(v) vanishes in non-terminal states: exp(v) is a sum of columns of Z."""
    mdp = random_mdp(**recipe)
    v = exact.log_column(mdp, lam)
    R, P = dense(mdp, lam)
    left, scale = (R - P) @ np.exp(v), np.diag(R) * np.exp(v)
    assert np.abs(left / scale)[~mdp.terminal].max() < 1e-12
    total = exact.default_representation(mdp, lam)[:, mdp.terminal].sum(axis=1)
    assert np.allclose(np.log(total / total[mdp.terminal][0]), v, atol=1e-10)


@pytest.mark.parametrize("terminals", [1, 2, 4])
@pytest.mark.parametrize("lam", [1.3, 20.0])
def test_theorem_3_11_columns_span_the_principal_eigenspace(terminals, lam):
    """As delta goes to 0 the angle between the two spaces goes to 0 at the rate of delta."""
    mdp, angles = random_mdp(11, 14, terminals), []
    for delta in (1e-2, 1e-4, 1e-6):
        R, P = dense(mdp, lam, delta)
        Z = exact.default_representation(mdp, lam, delta=delta)
        values, vectors = np.linalg.eig(R - P)
        order = np.argsort(np.abs(values))
        # The smallest eigenvalue of R - P is exp(delta/lam) - 1, once for each terminal state.
        assert np.allclose(values[order[:terminals]], np.expm1(delta / lam), atol=1e-12)
        assert np.abs(values[order[terminals]]) > 5 * np.expm1(delta / lam)
        eigenspace, _ = np.linalg.qr(np.real(vectors[:, order[:terminals]]))
        basis, _ = np.linalg.qr(Z[:, mdp.terminal])
        cosines = np.linalg.svd(eigenspace.T @ basis)[1]
        angles.append(np.sqrt(max(0.0, 1 - cosines.min() ** 2)))
    assert angles[0] > angles[1] or angles[0] < 1e-7
    assert angles[2] < 1e-5


@given(st.integers(0, 2**31), LAMS)
@settings(max_examples=25)
def test_theorem_3_11_right_eigenvector_tends_to_the_column(seed, lam):
    mdp = random_mdp(seed, 10, costs=(0.5, 20.0))
    column, terminal = exact.log_column(mdp, lam), int(np.flatnonzero(mdp.terminal)[0])
    differences = []
    for delta in (1e-2, 1e-5):
        right = exact.log_eigenvector(mdp, lam, "right", delta=delta)
        differences.append(np.abs(right - right[terminal] - column).max())
    assert differences[1] < 1e-2 * differences[0] + 1e-10
