"""The paper's propositions, numerically, on random MDPs."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from drogo import GridWorld, exact
from random_mdps import random_mdp, recipes

LAMS = st.sampled_from([1.3, 5.0, 20.0])


def dense(mdp, lam, delta=0.001):
    """Return R and P with absorbing terminal states, in plain NumPy."""
    P = mdp.P.toarray()
    P[mdp.terminal, mdp.terminal] = 1.0
    r = np.where(mdp.terminal, -delta, mdp.reward)
    return np.diag(np.exp(-r / lam)), P


@given(recipes(), LAMS)
@settings(max_examples=40)
def test_proposition_3_1_same_eigenvector_after_adding_the_identity(recipe, lam):
    """I + R - P~ and R - P~ share the smallest eigenvector. Its positive one, not "the largest of
    the inverse": with an absorbing state R - P~ is indefinite."""
    mdp = random_mdp(**recipe)
    R, P = dense(mdp, lam)
    A = R - (P + P.T) / 2
    values, vectors = np.linalg.eigh(np.eye(mdp.n_states) + A)
    solution = exact.solve(mdp, lam, "transition")
    assert solution.eigenvalue == pytest.approx(values[0] - 1, abs=1e-9 * np.abs(A).max())
    u = np.exp(solution.log_e)
    assert abs(u @ vectors[:, 0]) == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(A @ u - solution.eigenvalue * u) < 1e-8 * np.abs(A).max()


@given(recipes(), LAMS, st.integers(0, 2**31))
def test_proposition_3_2_the_objective_as_a_sum(recipe, lam, seed):
    """u'(I + R - P~)u + b(u'u - c)^2 = 1/2 sum P~(u - u')^2 + sum R u^2 + b(sum u^2 - c)^2.

    The proof uses that the rows of P~ sum to 1. They do for a symmetric or doubly stochastic P;
    in general the Laplacian is that of the row sums, so the identity needs diag(P~ 1) for I.
    """
    mdp = random_mdp(**recipe)
    rng = np.random.default_rng(seed)
    R, P = dense(mdp, lam)
    sym = (P + P.T) / 2
    u, b, c = rng.normal(size=mdp.n_states), rng.random(), rng.random()
    degree = np.diag(sym.sum(axis=1))
    penalty = b * (u @ u - c) ** 2
    matrix_form = u @ (degree + R - sym) @ u + penalty
    differences = (u[:, None] - u[None, :]) ** 2
    sum_form = (sym * differences).sum() / 2 + (np.diag(R) * u**2).sum() + penalty
    assert matrix_form == pytest.approx(sum_form, rel=1e-10)


def test_proposition_3_2_as_printed_holds_for_doubly_stochastic_worlds():
    """In a grid world without goals every move can be undone, so P is symmetric."""
    P = GridWorld.load("four-rooms").mdp.P.toarray()
    live = P.sum(axis=1) > 0
    P = P[np.ix_(live, live)]
    P[np.diag_indices_from(P)] += 1 - P.sum(axis=1)
    u = np.random.default_rng(0).normal(size=len(P))
    assert np.allclose(P, P.T)
    differences = (u[:, None] - u[None, :]) ** 2
    assert u @ (np.eye(len(P)) - P) @ u == pytest.approx((P * differences).sum() / 2)


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_proposition_3_5_metric(seed, n):
    """|exp(v + dv) - exp(v)|^2 = dv' diag(exp(2v)) dv to second order: the error is cubic."""
    rng = np.random.default_rng(seed)
    v, direction = rng.normal(size=n), rng.normal(size=n)
    errors = []
    for size in (1e-3, 1e-4):
        dv = size * direction
        distance = np.sum((np.exp(v) * np.expm1(dv)) ** 2)
        errors.append(abs(distance - dv @ np.diag(np.exp(2 * v)) @ dv))
    third = np.sum(np.exp(2 * v) * np.abs(direction) ** 3)
    assert errors[0] <= 2 * third * 1e-9
    assert errors[1] <= 2 * third * 1e-12


@given(recipes(), LAMS)
@settings(max_examples=50)
def test_proposition_3_10_the_anchored_optimum_is_a_column(recipe, lam):
    """(R - P) exp(v) vanishes in non-terminal states: exp(v) is a sum of columns of Z."""
    mdp = random_mdp(**recipe)
    v = exact.log_column(mdp, lam)
    R, P = dense(mdp, lam)
    left = (R - P) @ np.exp(v)
    scale = np.diag(R) * np.exp(v)
    assert np.abs(left / scale)[~mdp.terminal].max() < 1e-12
    Z = exact.default_representation(mdp, lam)
    total = Z[:, mdp.terminal].sum(axis=1)
    assert np.allclose(np.log(total / total[mdp.terminal][0]), v, atol=1e-10)


def test_proposition_3_10_stationary_point_of_the_symmetric_objective():
    """As printed, with P~: a column of (R - P~)^-1 zeroes the gradient off the anchor. It is no
    positive vector when R - P~ is indefinite, which is why the loss samples P instead."""
    mdp = random_mdp(3, 8)
    R, P = dense(mdp, 20.0)
    A = R - (P + P.T) / 2
    anchor = int(np.flatnonzero(mdp.terminal)[0])
    column = np.linalg.inv(A)[:, anchor]
    gradient = 2 * column * (A @ column)
    assert np.abs(np.delete(gradient, anchor)).max() < 1e-12
    assert np.linalg.eigvalsh(A)[0] < 0
    assert column[anchor] < 0


@pytest.mark.parametrize("terminals", [1, 2, 4])
@pytest.mark.parametrize("lam", [1.3, 20.0])
def test_theorem_3_11_columns_span_the_principal_eigenspace(terminals, lam):
    """As delta goes to 0 the angle between the two spaces goes to 0 at the rate of delta."""
    mdp = random_mdp(11, 14, terminals)
    angles = []
    for delta in (1e-2, 1e-4, 1e-6):
        R, P = dense(mdp, lam, delta)
        Z = exact.default_representation(mdp, lam, delta=delta)
        columns = Z[:, mdp.terminal]
        values, vectors = np.linalg.eig(R - P)
        order = np.argsort(np.abs(values))
        # The smallest eigenvalue of R - P is exp(delta/lam) - 1, once for each terminal state.
        assert np.allclose(values[order[:terminals]], np.expm1(delta / lam), atol=1e-12)
        assert np.abs(values[order[terminals]]) > 5 * np.expm1(delta / lam)
        eigenspace, _ = np.linalg.qr(np.real(vectors[:, order[:terminals]]))
        basis, _ = np.linalg.qr(columns)
        cosines = np.linalg.svd(eigenspace.T @ basis)[1]
        angles.append(np.sqrt(max(0.0, 1 - cosines.min() ** 2)))
    assert angles[0] > angles[1] or angles[0] < 1e-7
    assert angles[2] < 1e-5


@given(st.integers(0, 2**31), LAMS)
@settings(max_examples=25)
def test_theorem_3_11_right_eigenvector_tends_to_the_column(seed, lam):
    mdp = random_mdp(seed, 10, costs=(0.5, 20.0))
    column = exact.log_column(mdp, lam)
    terminal = int(np.flatnonzero(mdp.terminal)[0])
    differences = []
    for delta in (1e-2, 1e-5):
        right = exact.log_eigenvector(mdp, lam, "right", delta=delta)
        differences.append(np.abs(right - right[terminal] - column).max())
    assert differences[1] < 1e-2 * differences[0] + 1e-10


@given(recipes(max_states=20), st.sampled_from([0.2, 1.3, 20.0, 1e3]))
@settings(max_examples=40)
def test_positive_everywhere_and_bracketed(recipe, lam):
    """Finite logs are positivity; the Collatz-Wielandt bracket needs no reference."""
    mdp = random_mdp(**recipe)
    column = exact.log_column(mdp, lam)
    assert np.isfinite(column).all()
    assert (column <= 1e-12).all()
    for definition in ("transition", "representation", "right"):
        solution = exact.solve(mdp, lam, definition, delta=1e-3)
        if solution.status == "converged":  # nearly equal eigenvalues may defeat any solver
            assert np.isfinite(solution.log_e).all()
            low, high = solution.bracket
            slack = 1e-7 * abs(solution.eigenvalue) + 1e-14 * np.exp(-mdp.reward.min() / lam)
            assert low - slack <= solution.eigenvalue <= high + slack


@given(recipes(), LAMS, st.floats(-5, 5))
@settings(max_examples=50)
def test_column_shifts_with_its_terminal_rewards(recipe, lam, shift):
    mdp = random_mdp(**recipe)
    v = exact.log_column(mdp, lam, np.full(mdp.terminal.sum(), shift))
    assert np.allclose(v, exact.log_column(mdp, lam) + shift / lam, atol=1e-10)
