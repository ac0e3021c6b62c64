"""The four losses: numbers worked out by hand, and the paper's expectations by enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo.learn.objectives import (
    GDO,
    OBJECTIVES,
    ActionValues,
    Drogo,
    LogGDO,
    NaturalGDO,
    Numbers,
    Sample,
)
from random_mdps import random_mdp

LN2 = float(np.log(2.0))


def make(kind, **numbers):
    return kind(Numbers(**{"lam": 1.0, "penalty": 0.5, **numbers}))


def value_and_slopes(objective, v, v_next, cost=3.0, terminated=False, squared_norm=4.0):
    sample = Sample(jnp.float32(np.log(cost)), jnp.asarray(terminated), jnp.float32(squared_norm))
    f = lambda a, b: objective.loss(a, b, sample)  # noqa: E731
    v, v_next = jnp.float32(v), jnp.float32(v_next)
    return float(f(v, v_next)), *map(float, jax.grad(f, argnums=(0, 1))(v, v_next))


def test_gdo_by_hand():
    """u = 2, u' = 1: 1/2 + 3*4 + 0.5*(4-1)*(4-1) = 17; d/du = 1 + 12 + 0.5*4*3 = 19; d/du' = -1."""
    assert value_and_slopes(make(GDO), 2.0, 1.0) == pytest.approx((17.0, 19.0, -1.0))


def test_log_gdo_by_hand():
    """The same point in logs: the same value, slopes times u and u'."""
    got = value_and_slopes(make(LogGDO), LN2, 0.0)
    assert got == pytest.approx((17.0, 38.0, -1.0), rel=1e-5)


def test_natural_gdo_by_hand():
    """[3 - exp(0 - ln 2) + 0.5 (4 - 1)] = 4 is the slope; the value is 4 ln 2; s' gets nothing."""
    got = value_and_slopes(make(NaturalGDO), LN2, 0.0)
    assert got == pytest.approx((4 * LN2, 4.0, 0.0), rel=1e-6)


def test_drogo_by_hand():
    """[3 - exp(ln 2 - 0)] = 1 is the slope at v = 0, v' = ln 2."""
    assert value_and_slopes(make(Drogo), 0.0, LN2)[1:] == pytest.approx((1.0, 0.0), abs=1e-6)


def test_terminal_states_have_their_own_value():
    """Anchored objectives take terminal_reward / lam; penalised ones leave the output alone."""
    arguments = (jnp.array([9.0, 9.0]), jnp.array([True, False]), jnp.array([-6.0, -6.0]))
    assert np.allclose(make(Drogo, lam=2.0).next_output(*arguments), [-3.0, 9.0])
    assert np.allclose(make(NaturalGDO, lam=2.0).next_output(*arguments), [9.0, 9.0])


def test_cap_and_ceiling():
    """A cap of ln 2 turns exp(5) into 2, a ceiling of 0 turns v(s') = 5 into 0; at a terminal state
    neither applies."""
    assert value_and_slopes(make(Drogo, cap=LN2), 0.0, 5.0)[1] == pytest.approx(1.0)
    assert value_and_slopes(make(Drogo, ceiling=0.0), 0.0, 5.0)[1] == pytest.approx(2.0)
    anchored = value_and_slopes(make(Drogo, cap=LN2), -5.0, 0.0, terminated=True)
    assert anchored[1] == pytest.approx(3 - np.exp(5.0), rel=1e-5)
    assert value_and_slopes(make(NaturalGDO, cap=LN2), 0.0, 5.0)[1] == pytest.approx(2.5)


def test_what_an_output_means():
    """e, log e, and the constant that gives e unit norm: |(3, -4)| = 5."""
    out = jnp.array([3.0, -4.0])
    assert np.allclose(make(GDO).log_e(out), np.log([3.0, 4.0]))
    assert np.allclose(make(GDO).entry(out), out)
    assert float(make(GDO).log_scale(make(GDO).log_e(out))) == pytest.approx(np.log(5.0))
    assert np.allclose(make(NaturalGDO).entry(jnp.log(jnp.array([3.0, 4.0]))), [3.0, 4.0])
    assert float(make(Drogo).log_scale(out)) == 0.0


def enumerated(objective, mdp, v, lam, penalty=0.7, target_norm=0.4):
    """Mean gradient over s uniform, s' ~ P(s, .), s'' uniform, with ends absorbing."""
    P = mdp.P.toarray()
    P[mdp.terminal, mdp.terminal] = 1.0
    r = np.where(mdp.terminal, -0.001, mdp.reward)
    n = len(v)
    out = jnp.asarray(v)

    def loss(out):
        whole = make(objective, penalty=penalty, target_norm=target_norm)
        squared_norm = (whole.entry(out) ** 2).mean()
        s, t = np.nonzero(P)

        def one(v, v_next, log_cost):
            return whole.loss(v, v_next, Sample(log_cost, jnp.asarray(False), squared_norm))

        log_cost = jnp.asarray(-r[s] / lam, dtype=jnp.float32)
        return jnp.asarray(P[s, t] / n, dtype=jnp.float32) @ jax.vmap(one)(out[s], out[t], log_cost)

    return np.asarray(jax.grad(loss)(out)), P, r


def test_natural_gradient_is_proposition_3_7():
    """n times the mean sampled gradient is exp(-r/lam) - exp(-v) (P u) + b (mean u^2 - c), with P
    for P~ (the paper's own approximation: it samples forwards)."""
    mdp = random_mdp(5, 7)
    v = np.random.default_rng(0).normal(size=7).astype(np.float32)
    got, P, r = enumerated(NaturalGDO, mdp, v, 5.0)
    u = np.exp(v)
    exact = np.exp(-r / 5.0) - (P @ u) / u + 0.7 * ((u**2).mean() - 0.4)
    assert 7 * got == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("objective", [GDO, LogGDO])
def test_plain_gradients_are_those_of_the_whole_objective(objective):
    """The mean sampled gradient is that of 1/2 E(u - u')^2 + E R u^2 + b (E u^2 - c)^2, up to the
    factor 2 of a product of two equal means, which the squared norm, being differentiated too, supplies."""
    mdp = random_mdp(5, 7)
    v = np.random.default_rng(0).normal(size=7).astype(np.float32)
    got, P, r = enumerated(objective, mdp, v, 5.0)

    def whole(out):
        u = make(objective).entry(out)
        gap = (u[:, None] - u[None, :]) ** 2
        cost = jnp.asarray(np.exp(-r / 5.0), dtype=jnp.float32)
        return (
            (jnp.asarray(P, dtype=jnp.float32) * gap).sum() / 14
            + (cost * u**2).mean()
            + 0.7 * ((u**2).mean() - 0.4) ** 2
        )

    assert got == pytest.approx(np.asarray(jax.grad(whole)(jnp.asarray(v))), rel=1e-4, abs=1e-6)


def test_log_gradient_is_the_plain_one_times_u():
    """Equation of section 3.2: the extra factor exp(v) that the natural gradient removes."""
    mdp = random_mdp(5, 7)
    v = np.random.default_rng(0).normal(size=7).astype(np.float32)
    in_logs, _, _ = enumerated(LogGDO, mdp, v, 5.0)
    plain, _, _ = enumerated(GDO, mdp, np.exp(v), 5.0)
    assert in_logs == pytest.approx(np.exp(v) * plain, rel=1e-4, abs=1e-6)


def test_action_values_by_hand():
    """Outputs ln 2 and ln 6 are v = ln 8. For the second action, taken half of the time by the
    default policy, with v' = ln 3 and a cost of 2: [2 / 0.5 - exp(ln 3 - ln 6)] = 3.5."""
    objective = make(ActionValues)
    outputs = jnp.log(jnp.array([[2.0, 6.0]]))
    assert objective.log_e(outputs) == pytest.approx([np.log(8)], rel=1e-6)
    assert objective.entry(outputs) == pytest.approx([8.0], rel=1e-6)
    taken = objective.at_action(outputs, jnp.array([1]))
    assert taken == pytest.approx([np.log(6)], rel=1e-6)
    slope = value_and_slopes(objective, taken[0], np.log(3.0), cost=2.0 / 0.5)[1]
    assert slope == pytest.approx(3.5, rel=1e-5)


def test_outputs_are_in_units_of_the_scale():
    """A scale of 3 makes v = 3 out of an output of 1; scaling divides [8 - 4] by the cost of 8."""
    objective = make(Drogo, scale=3.0, scaling=1.0)
    assert objective.log_e(jnp.ones(1)) == pytest.approx([3.0])
    assert objective.at_action(jnp.ones(1), None) == pytest.approx([3.0])
    slope = value_and_slopes(objective, 0.0, 2 * LN2, cost=8.0)[1]
    assert slope == pytest.approx(0.5, rel=1e-5)


def test_all_are_there():
    assert list(OBJECTIVES) == ["gdo", "log_gdo", "natural_gdo", "drogo", "q"]
