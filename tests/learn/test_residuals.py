"""Residuals vanish at each method's solution and nowhere else, and decide what has converged."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from drogo import GDO, Column, Drogo, LogGDO, NaturalGDO, exact, fit
from drogo.learn import Learner, Objective, Optimiser
from drogo.learn.batches import as_batch, make_plan
from drogo.learn.judge import cosine, differences, in_groups, state_residuals, transition_slopes
from drogo.learn.networks import TableNetwork
from small_data import CHAIN, SMALL, Fixed, balanced, line

LAM, PENALTY, TARGET = 20.0, 0.7, 2.0
FROZEN = Optimiser(step_size=1e-30)
COLUMN = exact.log_column(CHAIN.mdp, LAM)


def learner_of(method):
    objective = Objective(Column(LAM), method)
    stacked = jax.tree.map(lambda leaf: leaf[None], objective)
    return Learner(objective, TableNetwork(jnp.zeros(5)), optax.sgd(0.1)), stacked


def batch_of(source):
    return as_batch(source, source.weight / source.weight.sum(), per_action=False)


def residuals(method, outputs):
    data = balanced() if method.anchored else balanced().with_absorbing_terminals(0.001)
    arguments = (*learner_of(method), jnp.float32(outputs)[None], batch_of(data.edges))
    return np.asarray(state_residuals(*arguments))[0]


@pytest.mark.parametrize("scaled", [False, True])
def test_drogo_at_the_column(scaled):
    """Neither the cap nor the ceiling of the training plays a part. With v(1) raised by 0.3, the
    flow out of state 1, which is left with probability 1/2, is less by a factor exp(-0.3)."""
    method, live = Drogo(cap=0.001, scaled=scaled), ~CHAIN.terminal
    assert np.abs(residuals(method, COLUMN)[live]).max() < 1e-6
    assert np.isnan(residuals(method, COLUMN)[~live]).all()
    raised = residuals(method, COLUMN + np.array([0.0, 0.3, 0, 0, 0]))[1]
    stays = np.exp(CHAIN.reward[1] / LAM) / 2
    assert raised == pytest.approx((1 - stays) * (1 - np.exp(-0.3)), rel=1e-4)


def test_natural_gdo_at_the_right_eigenvector():
    """(R - P) e = mu e with mu = -b (mean e^2 - c): the norm is part of the equation."""
    solution = exact.solve(CHAIN.mdp, LAM, "right")
    e = np.exp(solution.log_e)
    v = np.log(e * np.sqrt((TARGET - solution.eigenvalue / PENALTY) / (e**2).mean()))
    method = NaturalGDO(cap=np.inf, scaled=False, penalty=PENALTY, target_norm=TARGET)
    assert np.abs(residuals(method, v)).max() < 1e-5
    assert np.abs(residuals(method, v + 0.2)).max() > 0.05  # another norm


def gdo_matrix():
    """Sampled forwards, the quadratic form of GDO is that of R - P~ plus half the excess of
    arrivals over departures on the diagonal (proposition 3.2 needs doubly stochastic P)."""
    P = CHAIN.mdp.P.toarray()
    P[CHAIN.terminal, CHAIN.terminal] = 1.0
    r = np.where(CHAIN.terminal, -0.001, CHAIN.reward)
    return np.diag(np.exp(-r / LAM)) - (P + P.T) / 2 + np.diag((P.sum(axis=0) - 1) / 2)


@pytest.mark.parametrize("kind", [GDO, LogGDO])
def test_gdo_at_the_eigenvector_of_its_own_matrix(kind):
    """Its gradient is 2 (I + R - P~ + arrivals + 2 b (mean u^2 - c)) u: both factors of the penalty
    are differentiated."""
    values, vectors = np.linalg.eigh(gdo_matrix())
    u = np.abs(vectors[:, 0])
    u *= np.sqrt((TARGET - (1 + values[0]) / (2 * PENALTY)) / (u**2).mean())
    method, out = kind(penalty=PENALTY, target_norm=TARGET), u if kind is GDO else np.log(u)
    assert np.abs(residuals(method, out)).max() < 1e-4
    assert np.abs(residuals(method, out * 1.3)).max() > 0.02


@pytest.mark.parametrize(("kind", "step_size"), [(GDO, 0.003), (NaturalGDO, 0.01)])
def test_penalised_methods_find_their_own_vectors(kind, step_size):
    """`GDO` the smallest eigenvector of its own matrix, and `NaturalGDO` that of R - P and not of
    R - P~, because it samples P forwards. A short fit has not converged."""
    parts, optimiser = (balanced(), Column()), Optimiser(step_size=step_size)
    assert fit(*parts, kind(updates=100), optimiser=optimiser).status == ("max_updates",)
    solution = fit(*parts, kind(updates=20_000), optimiser=optimiser)
    assert kind is GDO or solution.status == ("converged",)
    right = exact.log_eigenvector(CHAIN.mdp, LAM, "right")
    truth = np.log(np.abs(np.linalg.eigh(gdo_matrix())[1][:, 0])) if kind is GDO else right
    assert np.abs(solution.v[0] - truth).max() < 0.02
    assert np.allclose(solution(np.arange(5)), solution.v, atol=1e-6)  # in the same scale
    assert np.logaddexp.reduce(2 * solution.v[0]) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(("rows", "mixed"), [([1.0, 1, 1, 1, -1], True), ([-1.0] * 5, False)])
def test_a_vector_of_two_signs_has_not_converged(rows, mixed):
    """The principal eigenvector has one sign, whichever it is. Two signs are no divergence."""
    network = Fixed(jnp.array(rows))
    solution = fit(balanced(), Column(), GDO(updates=1), network=network, optimiser=FROZEN)
    assert np.isinf(solution.history["worst"][-1, 0]) == mixed
    assert np.isfinite(solution.history["violation"]).all()
    assert solution.diverged_at == (None,)


def test_without_residuals_nothing_has_converged_or_diverged():
    """GDO on states that do not repeat has none."""
    solution = fit(line(), Column(), GDO(updates=3), network=SMALL)
    assert solution.status == ("max_updates",)
    assert np.isnan(solution.history["worst"]).all()


def test_rare_costs_do_not_make_the_zero_vector_converged():
    """99 % of the rewards are -1: groups are compared with their mean, not with the worst reward."""
    rare = np.random.default_rng(0).uniform(size=4000) < 0.01
    data = replace(line(4000), reward=np.where(rare, -100.0, -1.0))
    plan = make_plan(data, 100, second=False)
    assert data.terminated[plan.checked].any()  # terminal states are held out, too
    assert np.intersect1d(plan.checked, plan.trained).size == 0

    class Zero(eqx.Module):
        offset: jax.Array

        def __call__(self, batch):
            return 0 * batch[:, 0] + self.offset

    method = Drogo(updates=1, batch_size=100, action_values=False)
    solution = fit(data, Column(), method, network=Zero(jnp.zeros(())), optimiser=FROZEN)
    assert solution.status == ("max_updates",)


def test_transitions_of_separable_methods_only():
    data, batch = balanced(), batch_of(balanced())
    outputs = [jnp.float32(COLUMN)[part][None] for part in (batch.state, batch.next_state)]
    parts = learner_of(Drogo(cap=np.inf, scaled=False))
    slopes, units = (np.asarray(x)[0] for x in transition_slopes(*parts, *outputs, batch))
    v, v_next = COLUMN[data.state], np.where(data.terminated, 0.0, COLUMN[data.next_state])
    assert np.allclose(slopes / units, 1 - np.exp(data.reward / LAM + v_next - v), atol=1e-5)
    assert np.allclose(units, np.exp(-data.reward / LAM))
    none, _ = transition_slopes(*learner_of(GDO(penalty=1.0)), *outputs, batch)
    assert np.isnan(none).all()


def test_groups_and_measures_by_hand():
    """1000 transitions in two groups by value: means 0.2 and 0.6 in units of 2."""
    value = np.repeat([1.0, 0.0], 500)[None]
    slopes = 2 * (np.repeat([0.3, 0.1], 500) + np.tile([0.1, -0.1], 500))[None]
    mean, error = in_groups(slopes, np.full((1, 1000), 2.0), value)
    assert mean == pytest.approx(np.array([[0.1, 0.3]]))
    assert error == pytest.approx(np.full((1, 2), 0.1 / np.sqrt(500)))
    truth = np.array([0.0, -3.0, -4.0])
    assert cosine(np.array([[0.0, -6.0, -8.0]]), truth)[0] == pytest.approx(1)
    shifted = np.array([[1.0, -5.0, -7.0]])  # 0, -6 and -8 above its value at the anchor
    assert np.array_equal(differences(shifted, truth, 0)[0], [0.0, 3.0, 4.0])
