"""Residuals: the violations of a method's equations, state by state.

The equation of a state says that the derivative of the expected loss with respect to the output at
that state is zero. Its residual is this derivative divided by `AbstractMethod.unit`. For `Drogo` it
is
1 - E[exp(r/lam + v(s') - v(s))], and exp(-r/lam) times it is the Collatz-Wielandt quotient.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from drogo.learn.learner import Batch, Learner
from drogo.learn.objective import Objective

IN_A_GROUP, MOST_GROUPS = 500, 20
"""The fewest transitions in a group, and the most groups."""


def _bare(learner: Learner, objective: Objective) -> Learner:
    """Returns the learner without the cap and the ceiling, which only serve the training."""
    none, method = jnp.full_like(objective.ceiling, jnp.inf), objective.method.equation()
    if hasattr(method, "cap"):
        method = eqx.tree_at(lambda method: method.cap, method, none)
    bare = eqx.tree_at(lambda o: (o.method, o.ceiling), objective, (method, none))
    return eqx.tree_at(lambda learner: learner.objective, learner, bare)


@eqx.filter_jit
def state_residuals(
    learner: Learner,
    objectives: Objective,
    outputs: Float[Array, "runs states ..."],
    batch: Batch,
    extra: Float[Array, "runs ..."] | None = None,
) -> Float[Array, "runs states ..."]:
    """Returns the residual of every output, NaN where no transition leaves the state (by the
    action that the output is for).
    """

    def of_run(objective: Objective, outputs: Array, extra: Array | None) -> Array:
        bare = _bare(learner, objective)

        def total_unit(outputs: Array) -> Array:
            """A sum whose derivative is the unit of every equation."""
            assert batch.state is not None
            output = bare.objective.at_action(outputs[batch.state], batch.action)
            units = bare.objective.method.unit(output, bare.log_cost(batch))
            return (batch.weight * jax.lax.stop_gradient(units)) @ output

        slopes = jax.grad(lambda x: bare.loss_of_outputs(x, x, batch, extra=extra))(outputs)
        unit = jax.grad(total_unit)(outputs)
        return jnp.where(unit > 0, slopes / unit, jnp.nan)

    return eqx.filter_vmap(of_run)(objectives, outputs, extra)


@eqx.filter_jit
def transition_slopes(
    learner: Learner,
    objectives: Objective,
    outputs: Float[Array, "runs n ..."],
    next_outputs: Float[Array, "runs n ..."],
    batch: Batch,
    extra: Float[Array, "runs ..."] | None = None,
) -> tuple[Float[Array, "runs n"], Float[Array, "runs n"]]:
    """Returns the derivative of the loss of single transitions, and its unit.

    The residual of a state is the mean of the first over the transitions that leave it, divided by
    the mean of the second. Only separable methods have this; for others every number is NaN.
    """
    if not learner.objective.method.separable:
        unknown = jnp.full(outputs.shape[:2], jnp.nan)
        return unknown, jnp.ones_like(unknown)

    def of_run(
        objective: Objective, outputs: Array, next_outputs: Array, extra: Array | None
    ) -> tuple[Array, Array]:
        bare = _bare(learner, objective).objective
        log_cost = learner.with_objective(objective).log_cost(batch)
        moment = bare.moment(outputs, batch.weight)
        output = bare.at_action(outputs, batch.action)
        next_output = bare.next_output(next_outputs, batch.terminated, batch.terminal_reward)
        rest = (next_output, log_cost, batch.terminated, moment, extra)
        return bare.slopes(output, *rest), bare.method.unit(output, log_cost)

    return eqx.filter_vmap(of_run)(objectives, outputs, next_outputs, extra)


def in_groups(
    slopes: Float[np.ndarray, "runs n"],
    units: Float[np.ndarray, "runs n"],
    v: Float[np.ndarray, "runs n"],
) -> tuple[Float[np.ndarray, "runs groups"], Float[np.ndarray, "runs groups"]]:
    """Returns the residuals of groups of transitions that leave states of similar value.

    Where a state is seen once, its own residual is one random sample. That of a group is a mean,
    and at the solution it is zero for every group, up to its standard error.
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
