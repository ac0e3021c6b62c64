"""Propositions of the paper about exact vectors, on random MDPs. `drogo_paper.theory` has others."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from drogo import exact
from random_mdps import random_mdp, recipes


def dense(mdp, lam, delta=0.001):
    """Returns R and P with absorbing terminal states, in plain NumPy."""
    P = mdp.P.toarray()
    P[mdp.terminal, mdp.terminal] = 1.0
    r = np.where(mdp.terminal, -delta, mdp.reward)
    return np.diag(np.exp(-r / lam)), P


@given(recipes(), st.sampled_from([1.3, 5.0, 20.0]))
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
