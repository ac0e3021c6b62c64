"""Residuals: by how much the equations of an objective are violated, state by state.

The equation of a state says that the derivative of the expected loss with respect to the output at
that state is zero. Its residual is this derivative divided by `AbstractObjective.unit`, without the
cap and the ceiling, which only serve the training. For `Drogo` it is
1 - E[exp(r/lam + v(s') - v(s))], and exp(-r/lam) times it is the Collatz-Wielandt quotient.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from drogo.learn.learner import Batch, Learner
from drogo.learn.objectives import Numbers, Sample

IN_A_GROUP, MOST_GROUPS = 500, 20
"""The fewest transitions in a group, and the most groups."""


def _bare(learner: Learner, numbers: Numbers) -> Learner:
    none = jnp.full_like(numbers.cap, jnp.inf)
    objective = replace(learner.objective, numbers=replace(numbers, cap=none, ceiling=none))
    return Learner(objective, learner.skeleton, learner.optimiser)


@eqx.filter_jit
def state_residuals(
    learner: Learner,
    numbers: Numbers,
    outputs: Float[Array, "lanes states ..."],
    batch: Batch,
    held: Float[Array, "lanes ..."] | None = None,
) -> Float[Array, "lanes states ..."]:
    """Returns the residual of every output, NaN where no transition leaves the state (by the
    action that the output is for).

    Args:
        learner: The learner.
        numbers: The numbers of the objective in each lane.
        outputs: The outputs at every state in each lane.
        batch: All transitions. Its features are not used.
        held: The numbers that are trained beside the network in each lane, if there are any.
    """

    def of_lane(numbers: Numbers, outputs: Array, held: Array | None) -> Array:
        bare = _bare(learner, numbers)

        def total_unit(outputs: Array) -> Array:
            """A sum whose derivative is the unit of every equation."""
            assert batch.state is not None
            output = bare.objective.at_action(outputs[batch.state], batch.action)
            units = bare.objective.unit(output, bare.log_cost(batch))
            return (batch.weight * jax.lax.stop_gradient(units)) @ output

        slopes = jax.grad(lambda x: bare.loss_of_outputs(x, x, batch, held=held))(outputs)
        unit = jax.grad(total_unit)(outputs)
        return jnp.where(unit > 0, slopes / unit, jnp.nan)

    return jax.vmap(of_lane)(numbers, outputs, held)


@eqx.filter_jit
def transition_slopes(
    learner: Learner,
    numbers: Numbers,
    outputs: Float[Array, "lanes n ..."],
    next_outputs: Float[Array, "lanes n ..."],
    batch: Batch,
    held: Float[Array, "lanes ..."] | None = None,
) -> tuple[Float[Array, "lanes n"], Float[Array, "lanes n"]]:
    """Returns the derivative of the loss of single transitions, and its unit.

    The residual of a state is the mean of the first over the transitions that leave it, divided by
    the mean of the second. Only separable objectives have this; for others every number is NaN.

    Args:
        learner: The learner.
        numbers: The numbers of the objective in each lane.
        outputs: The outputs at s.
        next_outputs: The outputs at s'.
        batch: The transitions. Its features are not used.
        held: The numbers that are trained beside the network in each lane, if there are any.
    """
    if not learner.objective.separable:
        lost = jnp.full(outputs.shape[:2], jnp.nan)
        return lost, jnp.ones_like(lost)

    def of_lane(
        numbers: Numbers, outputs: Array, next_outputs: Array, held: Array | None
    ) -> tuple[Array, Array]:
        bare = _bare(learner, numbers)
        objective, log_cost = bare.objective, bare.log_cost(batch)
        squared_norm = objective.second_moment(outputs, batch.weight)
        output = objective.at_action(outputs, batch.action)
        next_output = objective.next_output(next_outputs, batch.terminated, batch.terminal_reward)
        moments = jnp.full_like(log_cost, squared_norm)
        if held is not None:
            held = jnp.broadcast_to(held, log_cost.shape + held.shape)
        sample = Sample(log_cost, batch.terminated, moments, held)
        return bare.slopes(output, next_output, sample), objective.unit(output, log_cost)

    return jax.vmap(of_lane)(numbers, outputs, next_outputs, held)


def in_groups(
    slopes: Float[np.ndarray, "lanes n"],
    units: Float[np.ndarray, "lanes n"],
    v: Float[np.ndarray, "lanes n"],
) -> tuple[Float[np.ndarray, "lanes groups"], Float[np.ndarray, "lanes groups"]]:
    """Returns the residuals of groups of transitions that leave states of similar value.

    Where a state is seen once, its own residual is one random sample. That of a group is a mean,
    and at the solution it is zero for every group, up to its standard error.

    Args:
        slopes: The derivatives of the losses of transitions.
        units: Their units.
        v: The values of the states that the transitions leave.

    Returns:
        The residual and its standard error for each group.
    """
    groups = int(np.clip(v.shape[1] // IN_A_GROUP, 1, MOST_GROUPS))
    order = np.argsort(v, axis=1)
    parts = [
        np.array_split(np.take_along_axis(array, order, axis=1), groups, axis=1)
        for array in (slopes, units)
    ]
    unit = np.stack([part.mean(axis=1) for part in parts[1]], axis=1)
    mean = np.stack([part.mean(axis=1) for part in parts[0]], axis=1)
    error = np.stack([part.std(axis=1) / np.sqrt(part.shape[1]) for part in parts[0]], axis=1)
    return mean / unit, error / unit
