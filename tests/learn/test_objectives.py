"""The four losses: numbers worked out by hand, and the paper's expectations by enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo.learn.objectives import OBJECTIVES, Step, drogo, gdo, log_gdo, natural_gdo
from random_mdps import random_mdp

LN2 = float(np.log(2.0))


def step(**changes):
    values = {
        "cost": 3.0,
        "terminated": False,
        "boundary": 0.0,
        "extra": 4.0,
        "penalty": 0.5,
        "target_norm": 1.0,
        "cap": np.inf,
        "ceiling": np.inf,
    }
    values |= changes
    flags = {"terminated": jnp.asarray(values.pop("terminated"))}
    return Step(**{k: jnp.float32(v) for k, v in values.items()}, **flags)


def value_and_slopes(objective, v, v_next, what):
    f = lambda a, b: objective(a, b, what)  # noqa: E731
    v, v_next = jnp.float32(v), jnp.float32(v_next)
    return float(f(v, v_next)), *map(float, jax.grad(f, argnums=(0, 1))(v, v_next))


def test_gdo_by_hand():
    """u = 2, u' = 1: 1/2 + 3*4 + 0.5*(4-1)*(4-1) = 17; d/du = 1 + 12 + 0.5*4*3 = 19; d/du' = -1."""
    assert value_and_slopes(gdo, 2.0, 1.0, step()) == pytest.approx((17.0, 19.0, -1.0))


def test_log_gdo_by_hand():
    """The same point in logs: the same value, slopes times u and u'."""
    got = value_and_slopes(log_gdo, LN2, 0.0, step())
    assert got == pytest.approx((17.0, 38.0, -1.0), rel=1e-5)


def test_natural_gdo_by_hand():
    """[3 - exp(0 - ln 2) + 0.5 (4 - 1)] = 4 is the slope; the value is 4 ln 2; s' gets nothing."""
    got = value_and_slopes(natural_gdo, LN2, 0.0, step())
    assert got == pytest.approx((4 * LN2, 4.0, 0.0), rel=1e-6)


def test_drogo_by_hand():
    """[3 - exp(ln 2 - 0)] = 1; with an end after it, [3 - exp(0 - 0)] = 2 whatever v(s') is."""
    assert value_and_slopes(drogo, 0.0, LN2, step())[1:] == pytest.approx((1.0, 0.0), abs=1e-6)
    ended = step(terminated=True)
    assert value_and_slopes(drogo, 0.0, 99.0, ended)[1:] == pytest.approx((2.0, 0.0))
    # An end of value ln 2, as a goal with a reward of its own.
    own = step(terminated=True, boundary=LN2)
    assert value_and_slopes(drogo, 0.0, 99.0, own)[1] == pytest.approx(1.0)


def test_cap_and_ceiling():
    """A cap of ln 2 turns exp(5) into 2; a ceiling of 0 turns v(s') = 5 into 0. Not at the anchor."""
    assert value_and_slopes(drogo, 0.0, 5.0, step(cap=LN2))[1] == pytest.approx(1.0)
    assert value_and_slopes(drogo, 0.0, 5.0, step(ceiling=0.0))[1] == pytest.approx(2.0)
    anchored = step(terminated=True, cap=LN2)
    assert value_and_slopes(drogo, -5.0, 0.0, anchored)[1] == pytest.approx(
        3 - np.exp(5.0), rel=1e-5
    )
    assert value_and_slopes(natural_gdo, 0.0, 5.0, step(cap=LN2))[1] == pytest.approx(2.5)


def enumerated(objective, mdp, v, lam, penalty=0.7, target_norm=0.4):
    """Mean gradient over s uniform, s' ~ P(s, .), s'' uniform, with ends absorbing."""
    P = mdp.P.toarray()
    P[mdp.terminal, mdp.terminal] = 1.0
    r = np.where(mdp.terminal, -0.001, mdp.reward)
    n = len(v)
    out = jnp.asarray(v)

    def loss(out):
        u = out if objective is gdo else jnp.exp(out)
        extra = (u**2).mean()
        total = jnp.zeros(())
        for s in range(n):
            for t in np.flatnonzero(P[s]):
                what = step(
                    cost=np.exp(-r[s] / lam), penalty=penalty, target_norm=target_norm
                )._replace(extra=extra)
                total += float(P[s, t] / n) * objective(out[s], out[t], what)
        return total

    return np.asarray(jax.grad(loss)(out)), P, r


def test_natural_gradient_is_proposition_3_7():
    """n times the mean sampled gradient is exp(-r/lam) - exp(-v) (P u) + b (mean u^2 - c), with P
    for P~ (the paper's own approximation: it samples forwards)."""
    mdp = random_mdp(5, 7)
    v = np.random.default_rng(0).normal(size=7).astype(np.float32)
    got, P, r = enumerated(natural_gdo, mdp, v, 5.0)
    u = np.exp(v)
    exact = np.exp(-r / 5.0) - (P @ u) / u + 0.7 * ((u**2).mean() - 0.4)
    assert 7 * got == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("objective", [gdo, log_gdo])
def test_plain_gradients_are_those_of_the_whole_objective(objective):
    """The mean sampled gradient is that of 1/2 E(u - u')^2 + E R u^2 + b (E u^2 - c)^2, up to the
    factor 2 of a product of two equal means, which `extra`, being differentiated too, supplies."""
    mdp = random_mdp(5, 7)
    v = np.random.default_rng(0).normal(size=7).astype(np.float32)
    got, P, r = enumerated(objective, mdp, v, 5.0)

    def whole(out):
        u = out if objective is gdo else jnp.exp(out)
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
    in_logs, _, _ = enumerated(log_gdo, mdp, v, 5.0)
    plain, _, _ = enumerated(gdo, mdp, np.exp(v), 5.0)
    assert in_logs == pytest.approx(np.exp(v) * plain, rel=1e-4, abs=1e-6)


def test_all_four_are_there():
    assert list(OBJECTIVES) == ["gdo", "log_gdo", "natural_gdo", "drogo"]
