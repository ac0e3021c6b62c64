"""The four objectives, each a loss of one transition (s, a, r, s').

| loss | in logs | natural gradient | what keeps it from collapsing | in the paper |
|---|---|---|---|---|
| `gdo` | no | no | norm penalty | proposition 3.3 |
| `log_gdo` | yes | no | norm penalty | proposition 3.4 |
| `natural_gdo` | yes | yes | norm penalty | proposition 3.9 |
| `drogo` | yes | yes | v(s_T) = 0 | theorem 3.13 |

A loss takes the network's output at s and at s' and a `Step` with everything else. Batches are the
caller's `vmap`. The natural-gradient losses are surrogates: their value means nothing, their
gradient is the bracket, held constant, times the gradient of v(s).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Bool, Float

Scalar = Float[Array, ""]


class Step(NamedTuple):
    """What a loss needs besides the network's output at s and s'."""

    cost: Scalar
    """exp(-r / lam)."""
    terminated: Bool[Array, ""]
    boundary: Scalar
    """The value of v at the end, where `terminated`: 0 unless the end has a reward of its own."""
    extra: Scalar
    """u(s'')^2 for a state s'' drawn independently of s, or its mean over an independent batch:
    the losses are linear in it."""
    penalty: Scalar
    """b."""
    target_norm: Scalar
    """c: what the mean of u^2 should be."""
    cap: Scalar
    """Upper bound on v(s') - v(s) inside the exponential; infinity for none. At the solution
    v(s') - v(s) <= -r/lam - log P(s'|s), so a cap above that changes nothing there."""
    ceiling: Scalar
    """Upper bound on v(s') (`drogo` only); infinity for none. Rewards are negative, so the solution
    is nowhere above the best end: a vector that rises beyond it must not feed on itself."""


ANCHOR_CAP = 20.0
"""The least cap at the anchor: far above any solution, far below an overflow."""

Objective = Callable[[Scalar, Scalar, Step], Scalar]


def gdo(u: Scalar, u_next: Scalar, step: Step) -> Scalar:
    """1/2 (u(s) - u(s'))^2 + exp(-r/lam) u(s)^2 + b (u(s)^2 - c)(u(s'')^2 - c).

    The first two, summed over all transitions, are u'(I + R - P~)u (proposition 3.2); the third is
    an unbiased sample of b (u'u - c)^2, because s'' does not depend on s.
    """
    norm = step.penalty * (u**2 - step.target_norm) * (step.extra - step.target_norm)
    return 0.5 * (u - u_next) ** 2 + step.cost * u**2 + norm


def log_gdo(v: Scalar, v_next: Scalar, step: Step) -> Scalar:
    """`gdo` of u = exp(v). Its gradient carries a factor exp(v), which is why it fails."""
    return gdo(jnp.exp(v), jnp.exp(v_next), step)


def natural_gdo(v: Scalar, v_next: Scalar, step: Step) -> Scalar:
    """[exp(-r/lam) - exp(v(s') - v(s)) + b (exp(2 v(s'')) - c)] v(s), the bracket held constant.

    exp(-2v) times the gradient of `log_gdo` (the metric of proposition 3.5), sampled: the bracket
    is the s-th entry of exp(-v) (R - P) exp(v) + b (u'u - c) (propositions 3.7 and 3.8).
    """
    ratio = jnp.exp(jnp.minimum(v_next - v, step.cap))
    bracket = step.cost - ratio + step.penalty * (step.extra - step.target_norm)
    return stop_gradient(bracket) * v


def drogo(v: Scalar, v_next: Scalar, step: Step) -> Scalar:
    """[exp(-r/lam) - exp(v(s') - v(s))] v(s), the bracket held constant, v(s_T) = 0.

    `natural_gdo` without its penalty: the anchor at the end holds the vector in place instead.
    """
    v_next = jnp.where(step.terminated, step.boundary, jnp.minimum(v_next, step.ceiling))
    # The anchor's pull stays uncapped: it alone stops a vector that drifts away as a whole.
    cap = jnp.where(step.terminated, jnp.maximum(step.cap, ANCHOR_CAP), step.cap)
    return stop_gradient(step.cost - jnp.exp(jnp.minimum(v_next - v, cap))) * v


OBJECTIVES: dict[str, Objective] = {
    "gdo": gdo,
    "log_gdo": log_gdo,
    "natural_gdo": natural_gdo,
    "drogo": drogo,
}
PENALISED = ("gdo", "log_gdo", "natural_gdo")
"""These need the norm of a second, independent batch, and the ends as absorbing states."""
