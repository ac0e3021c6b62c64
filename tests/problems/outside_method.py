"""A method from outside the library: a regression on the soft Bellman equation.

Where every action has one outcome, v(s) = r / lam + v(s'). The loss is half the squared difference
of the two sides, with v(s') held constant, as in TD learning.
"""

from typing import ClassVar

import jax.numpy as jnp
from jax.lax import stop_gradient

from drogo.errors import check_positive
from drogo.learn import AbstractMethod
from drogo.learn.settings import check_fields


class SquaredLogResidual(AbstractMethod):
    """sharpness / 2 (v(s) - r / lam - v(s'))^2, with v(s') held constant."""

    sharpness: float | list[float] = 1.0
    """The factor of the loss."""

    solves: ClassVar[tuple[str, ...]] = ("column",)

    def __check_init__(self):
        check_fields(self, sharpness=check_positive)

    def loss(self, output, next_output, sample):
        residual = output + sample.log_cost - stop_gradient(next_output)
        return self.sharpness * residual**2 / 2

    def unit(self, output, log_cost):
        """Residuals, by which a fit has converged or not, are then in units of v."""
        return self.sharpness * jnp.ones_like(output)
