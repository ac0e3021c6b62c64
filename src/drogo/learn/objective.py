"""`Objective`: a problem and a method, with the scales that follow from the data."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from drogo.device import to_device
from drogo.learn.method import AbstractMethod, Sample
from drogo.learn.problem import AbstractProblem


class Objective(eqx.Module):
    """The loss of a method on a problem, and the meaning of a network trained with it.

    Args:
        problem: The problem, of which only what programs need is kept (`AbstractProblem.bare`).
        method: The method, likewise.
        scale: The factor from a network's raw outputs to values, so that the outputs are of order 1
            at every lam.
        extra_scale: The factor of the numbers that are trained beside the network.
        ceiling: An upper bound of every value, or infinity.
    """

    problem: AbstractProblem
    method: AbstractMethod
    scale: Float[Array, "*runs"]
    extra_scale: Float[Array, "*runs"]
    ceiling: Float[Array, "*runs"]

    def __init__(
        self,
        problem: AbstractProblem,
        method: AbstractMethod,
        *,
        scale: Any = 1.0,
        extra_scale: Any = 1.0,
        ceiling: Any = jnp.inf,
    ) -> None:
        self.problem, self.method = (_with_arrays(part.bare()) for part in (problem, method))
        numbers = (to_device(part, jnp.float32) for part in (scale, extra_scale, ceiling))
        self.scale, self.extra_scale, self.ceiling = numbers

    @property
    def needs_moment(self) -> bool:
        """Whether a second, independent batch is needed."""
        return self.method.needs_moment or self.problem.learns_gain(self.method)

    def at_action(self, outputs: Array, action: Array | None) -> Array:
        """Returns the values that the loss is of: those of the actions that were taken.

        Args:
            outputs: The network's raw outputs at s.
            action: The actions, or None if they do not matter.
        """
        if self.method.per_action:
            assert action is not None
            outputs = jnp.take_along_axis(outputs, action[:, None], axis=1)[:, 0]
        return self.scale * outputs

    def log_e(self, outputs: Any) -> Any:
        """Returns log |e| for some raw outputs, up to a constant."""
        if self.method.per_action:
            return logsumexp(self.scale * outputs, axis=-1)
        return self.method.log_e(self.scale * outputs)

    def entry(self, outputs: Array) -> Array:
        """Returns the entries of e for some raw outputs."""
        if self.method.per_action:
            return jnp.exp(self.log_e(outputs))
        return self.method.entry(self.scale * outputs)

    def next_output(self, outputs: Array, terminated: Array, terminal_reward: Array) -> Array:
        """Returns the values at s', with terminal states treated as the method demands.

        Args:
            outputs: The network's raw outputs at s'.
            terminated: Where s' is a terminal state.
            terminal_reward: The rewards of these terminal states.
        """
        if not self.method.anchored:
            return self.scale * outputs
        return jnp.where(terminated, terminal_reward / self.problem.lam, self.log_e(outputs))

    def moment(self, outputs: Array, weight: Array) -> Array:
        """Returns `Sample.moment` of a batch.

        Args:
            outputs: The network's raw outputs at the states of the batch.
            weight: The weight of each, which sum to 1.
        """
        if self.problem.learns_gain(self.method):
            return weight @ self.log_e(outputs)
        entries = self.entry(outputs)
        if entries.ndim == 1:
            return weight @ entries**2
        return (weight[:, None] * entries).T @ entries

    def log_scale(self, log_e: Float[Array, " states"]) -> Float[Array, ""]:
        """Returns the constant that is subtracted from log e over all states to fix its scale."""
        if self.problem.learns_gain(self.method):
            return log_e.mean()
        return self.method.log_scale(log_e)

    def extra(self, raw: Array | None) -> Array | None:
        """Returns the numbers that are trained beside a network, scaled."""
        return None if raw is None else self.extra_scale * raw

    def losses(
        self,
        output: Array,
        next_output: Array,
        log_cost: Array,
        terminated: Array,
        moment: Array,
        extra: Array | None,
    ) -> Float[Array, " n"]:
        """Returns the loss of each transition.

        Args:
            output: The values at s, for the actions that were taken.
            next_output: The values at s'.
            log_cost: -r / lam.
            terminated: Which transitions reach a terminal state.
            moment: The mean over an independent batch.
            extra: The raw numbers that are trained beside the network.
        """
        return self._mapped(self.method.loss, moment, extra)(
            output, next_output, log_cost, terminated
        )

    def slopes(
        self,
        output: Array,
        next_output: Array,
        log_cost: Array,
        terminated: Array,
        moment: Array,
        extra: Array | None,
    ) -> Float[Array, " n"]:
        """Returns the derivative of each transition's loss with respect to its output; the
        arguments are those of `losses`."""
        return self._mapped(jax.grad(self.method.loss), moment, extra)(
            output, next_output, log_cost, terminated
        )

    def _mapped(self, function: Any, moment: Array, extra: Array | None) -> Any:
        scaled = self.extra(extra)

        def of_one(output: Array, next_output: Array, log_cost: Array, terminated: Array) -> Array:
            numbers = (moment, scaled, self.scale, self.ceiling)
            return function(
                output, next_output, Sample(self.problem, log_cost, terminated, *numbers)
            )

        return jax.vmap(of_one)


def _with_arrays(part: Any) -> Any:
    """Returns settings with their numbers as arrays of single precision."""

    def convert(leaf: Any) -> Any:
        is_number = isinstance(leaf, float | int) and not isinstance(leaf, bool)
        return to_device(leaf, jnp.float32) if is_number else leaf

    return jax.tree.map(convert, part)
