"""An objective that the library does not have: `gdo` as the paper intends it."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from drogo.learn import AbstractPenalised
from drogo.learn.objectives import Sample, Scalar


class IntendedGDO(AbstractPenalised):
    """(1 + exp(-r/lam)) u(s)^2 - u(s) u(s') + b (u(s)^2 - c)(u(s'')^2 - c).

    With s uniform over all states, the mean of the first two terms is u'(I + R - P)u / n, which is
    u'(I + R - P~)u / n for every P. The printed sample, 1/2 (u(s) - u(s'))^2 + exp(-r/lam) u(s)^2,
    replaces u(s)^2 by the average of u(s)^2 and u(s')^2. That has the same mean only if every state
    is entered as often as it is left.
    """

    separable: ClassVar[bool] = False
    initial_output: ClassVar[float | None] = 1.0

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        u, n = output, self.numbers
        norm = n.penalty * (u**2 - n.target_norm) * (sample.squared_norm - n.target_norm)
        return (1 + sample.cost) * u**2 - u * next_output + norm

    def entry(self, output: Array) -> Array:
        return output

    def log_e(self, output: Any) -> Any:
        return jnp.log(jnp.maximum(jnp.abs(output), jnp.finfo(jnp.float32).tiny))

    def unit(self, output: Array, log_cost: Array) -> Array:
        return 2 * jnp.exp(log_cost) * jnp.abs(output)


OBJECTIVES = {"gdo_intended": IntendedGDO}
"""Objectives of this package, by the names that settings of jobs have for them."""
