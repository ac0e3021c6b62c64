"""A method and a problem from outside the library: a regression on the soft Bellman equation, and
the paper's map with a cost for every step.

Where every action has one outcome, v(s) = r / lam + v(s'). The loss is half the squared difference
of the two sides, with v(s') held constant, as in TD learning."""

from dataclasses import replace
from typing import Annotated, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient

from drogo import MDP, Column
from drogo.errors import check_positive
from drogo.learn import AbstractMethod


class SquaredLogResidual(AbstractMethod):
    """sharpness / 2 (v(s) - r / lam - v(s'))^2, with v(s') held constant."""

    sharpness: Annotated[float | list[float], check_positive] = 1.0
    """The factor of the loss."""

    solves: ClassVar[tuple[str, ...]] = ("column",)

    def loss(self, output, next_output, sample):
        residual = output + sample.log_cost - stop_gradient(next_output)
        return self.sharpness * residual**2 / 2

    def unit(self, output, log_cost):
        """Residuals, by which a fit has converged or not, are then in units of v."""
        return self.sharpness * jnp.ones_like(output)


class ColumnWithCost(Column):
    """`Column` of the rewards r - cost."""

    cost: Annotated[float | list[float], check_positive] = 1.0
    """The cost of every step, in units of reward."""

    def given(self, source):
        reward = source.reward - self.cost
        if isinstance(source, MDP):  # whose terminal states keep their terminal rewards
            reward = np.where(source.terminal, source.reward, reward)
        return replace(source, reward=reward)
