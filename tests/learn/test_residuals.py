"""Residuals vanish at each objective's own solution and nowhere else; what converged then means."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import GridWorld, Transitions, exact, fit
from drogo.config import configure
from drogo.learn.learner import Batch, Learner
from drogo.learn.networks import Table
from drogo.learn.objectives import GDO, Drogo, LogGDO, NaturalGDO, Numbers
from drogo.learn.prepare import make_optimiser, prepare
from drogo.learn.residuals import in_groups, state_residuals, transition_slopes
from drogo.learn.sampling import device_rows

CHAIN = GridWorld.parse("#######\n#S.x.G#\n#######")
LAM, PENALTY, TARGET = 20.0, 0.7, 2.0


def balanced(world, absorbing=False):
    """Every action of every state once: the data are the model."""
    live = np.repeat(np.flatnonzero(~world.terminal), 4)
    following = world.next_state[~world.terminal].ravel()
    data = Transitions.from_table(
        np.arange(world.n_states), live, following, world.reward[live], world.terminal[following]
    )
    return data.with_absorbing_terminals(0.001) if absorbing else data


def as_batch(source):
    weight = jnp.asarray(source.weight / source.weight.sum(), dtype=jnp.float32)
    return Batch(None, None, **vars(device_rows(source, per_action=False)), weight=weight)


def residuals(kind, outputs, data, scaled=False, lam=LAM):
    one = Numbers(lam, 2.0, 0.0, PENALTY, TARGET, float(scaled), 1.0)
    numbers = jax.tree.map(lambda leaf: leaf[None], one)
    network = Table(jnp.zeros(outputs.size))
    learner = Learner(kind(one), network, make_optimiser("adam", 0.5))
    batch = as_batch(data.edges)
    return np.asarray(state_residuals(learner, numbers, jnp.float32(outputs)[None], batch))[0]


def test_drogo_at_the_column():
    column = exact.log_column(CHAIN.mdp, LAM)
    live = ~CHAIN.terminal
    for scaled in (False, True):
        found = residuals(Drogo, column, balanced(CHAIN), scaled)
        assert np.abs(found[live]).max() < 1e-6
        assert np.isnan(found[~live]).all()
    moved = residuals(Drogo, column + np.array([0.0, 0.3, 0, 0, 0]), balanced(CHAIN))
    # 1 - exp(-0.3) of the old flow out of state 1 is missing; it stays put with probability 1/2.
    assert np.abs(moved[live]).max() > 0.05


def penalised_scale(mu, vector):
    """The multiple of a vector at which b (mean u^2 - c) = -mu."""
    return np.sqrt((TARGET - mu / PENALTY) / (vector**2).mean())


def test_natural_gdo_at_the_right_eigenvector():
    """(R - P) e = mu e with mu = -b (mean e^2 - c): the norm is part of the equation."""
    solution = exact.solve(CHAIN.mdp, LAM, "right")
    e = np.exp(solution.log_e)
    v = np.log(e * penalised_scale(solution.eigenvalue, e))
    data = balanced(CHAIN, absorbing=True)
    assert np.abs(residuals(NaturalGDO, v, data)).max() < 1e-5
    assert np.abs(residuals(NaturalGDO, v + 0.2, data)).max() > 0.05  # another norm


@pytest.mark.parametrize("kind", [GDO, LogGDO])
def test_gdo_at_the_eigenvector_of_its_own_matrix(kind):
    """Its gradient is 2 (I + R - P~ + arrivals + 2 b (mean u^2 - c)) u: both factors of the penalty
    are differentiated."""
    P = CHAIN.mdp.P.toarray()
    P[CHAIN.terminal, CHAIN.terminal] = 1.0
    r = np.where(CHAIN.terminal, -0.001, CHAIN.reward)
    matrix = np.diag(np.exp(-r / LAM)) - (P + P.T) / 2 + np.diag((P.sum(axis=0) - 1) / 2)
    values, vectors = np.linalg.eigh(matrix)
    u = np.abs(vectors[:, 0])
    u = u * np.sqrt((TARGET - (1 + values[0]) / (2 * PENALTY)) / (u**2).mean())
    data = balanced(CHAIN, absorbing=True)
    out = u if kind is GDO else np.log(u)
    assert np.abs(residuals(kind, out, data)).max() < 1e-4
    assert np.abs(residuals(kind, out * 1.3, data)).max() > 0.02


def test_a_vector_of_two_signs_has_not_converged():
    """The principal eigenvector has one sign, whichever it is."""
    data = balanced(CHAIN)
    settings = {"objective": "gdo", "updates": 1, "step_size": 1e-30}
    training, states = prepare(data, [configure(data, "fast", settings)], [0], None, {})
    for table, worst in (([1.0, 1, 1, 1, -1], np.inf), ([-1.0] * 5, None)):
        params = eqx.tree_at(lambda tree: tree.table, states.params, jnp.array([table]))
        row = training.judge.row(params, np.zeros(1))
        assert np.isfinite(row["violation"]).all()
        assert np.isinf(row["worst"][0]) == (worst is not None)
    assert fit(data, preset="fast", **settings).diverged_at == (None,)  # which is no divergence


def test_where_nothing_can_be_checked_nothing_has_converged_or_diverged():
    """gdo on states that do not repeat has no residuals at all."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (400, 1)).astype(np.float32)
    y = (x + rng.choice([-0.1, 0.1], (400, 1))).astype(np.float32)
    data = Transitions.from_arrays(x, y, np.full(400, -1.0), y[:, 0] >= 0.9)
    result = fit(data, objective="gdo", updates=3, width=8)
    assert result.status == ("max_updates",)
    assert np.isnan(result.history["worst"]).all()


def test_rare_costs_do_not_make_the_zero_vector_converged():
    """99 % of the rewards are -1: groups must be judged by their mean, not by the worst reward."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (4000, 1)).astype(np.float32)
    y = (x + rng.choice([-0.1, 0.1], (4000, 1))).astype(np.float32)
    reward = np.where(rng.uniform(size=4000) < 0.01, -100.0, -1.0)
    data = Transitions.from_arrays(x, y, reward, y[:, 0] >= 0.9)
    settings = {"updates": 1, "step_size": 1e-30, "batch_size": 100, "width": 8}
    training, states = prepare(data, [configure(data, "stable", settings)], [0], None, {})
    assert data.terminated[training.judge.plan.checked].any()  # terminal states are held out too
    zero = jax.tree.map(jnp.zeros_like, states.params)
    assert not training.judge.converged(training.judge.row(zero, np.zeros(1))).any()


def test_transitions_of_separable_objectives_only():
    data = balanced(CHAIN)
    column = jnp.float32(exact.log_column(CHAIN.mdp, LAM))
    one = Numbers(LAM, np.inf, np.inf, PENALTY, TARGET)
    numbers = jax.tree.map(lambda leaf: leaf[None], one)
    batch = as_batch(data)
    outputs = column[batch.state][None], column[batch.next_state][None]
    optimiser = make_optimiser("adam", 0.5)
    drogo, gdo = (Learner(kind(one), Table(column), optimiser) for kind in (Drogo, GDO))
    slopes, units = (np.asarray(x)[0] for x in transition_slopes(drogo, numbers, *outputs, batch))
    v, v_next = (np.asarray(part)[0] for part in outputs)
    v_next = np.where(data.terminated, 0.0, v_next)
    assert np.allclose(slopes / units, 1 - np.exp(data.reward / LAM + v_next - v), atol=1e-5)
    assert np.allclose(units, np.exp(-data.reward / LAM))
    assert np.isnan(transition_slopes(gdo, numbers, *outputs, batch)[0]).all()


def test_groups_by_hand():
    """1000 transitions in two groups by value: means 0.2 and 0.6 in units of 2."""
    value = np.concatenate([np.ones(500), np.zeros(500)])[None]
    spread = np.tile([0.1, -0.1], 250)
    slopes = 2 * np.concatenate([0.3 + spread, 0.1 + spread])[None]
    mean, error = in_groups(slopes, np.full((1, 1000), 2.0), value)
    assert mean == pytest.approx(np.array([[0.1, 0.3]]))
    assert error == pytest.approx(np.full((1, 2), 0.1 / np.sqrt(500)))


def test_status_of_penalised_objectives():
    """They converge by their own equation. A short run has not; a long one has, to the eigenvector
    of R - P and not of R - P~, because it samples P forwards. A weak pull: the two smallest
    eigenvalues differ by little, so it takes its time."""
    data = balanced(CHAIN)
    settings = {"preset": "fast", "objective": "natural_gdo", "step_size": 0.01}
    short = fit(data, updates=100, **settings)
    assert short.status == ("max_updates",)
    long = fit(data, updates=20_000, **settings)
    assert long.status == ("converged",)
    truth = exact.log_eigenvector(CHAIN.mdp, LAM, "right")
    assert np.abs(long.v[0] - truth).max() < 0.02
    assert np.allclose(long(data.observations), long.v, atol=1e-6)  # in the same scale
    assert np.logaddexp.reduce(2 * long.v[0]) == pytest.approx(0.0, abs=1e-5)
