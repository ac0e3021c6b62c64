"""The training program: pure functions of arrays, all lanes at once.

A *lane* is one network being trained: a seed, under one setting of the swept numbers. A chunk of
updates is a `scan` over batches of a map over lanes, compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Shaped

from drogo.config import Config
from drogo.learn.networks import Network, Table
from drogo.learn.objectives import OBJECTIVES, PENALISED, Step


class Problem(NamedTuple):
    """The data on the device: a table, and either its distinct transitions or all of them."""

    observations: Shaped[Array, "distinct ..."]
    state: Int[Array, " rows"]
    next_state: Int[Array, " rows"]
    cost: Float[Array, " rows"]
    boundary: Float[Array, " rows"]
    terminated: Bool[Array, " rows"]
    ceiling: Float[Array, ""]


class Batch(NamedTuple):
    """Of one update and one seed: rows of the problem and their weights (summing to 1)."""

    rows: Int[Array, " batch"] | None
    """None: all rows, with the network evaluated once per distinct observation."""
    weights: Float[Array, " batch"]
    extra_rows: Int[Array, " batch"] | None
    extra_weights: Float[Array, " batch"]
    before: Shaped[Array, "batch ..."] | None = None
    """Observations of these rows, where the table is too large for the device."""
    after: Shaped[Array, "batch ..."] | None = None


class Hyper(NamedTuple):
    """Numbers that may differ between lanes."""

    step_size: Float[Array, "*lanes"]
    penalty: Float[Array, "*lanes"]
    cap: Float[Array, "*lanes"]


class Lane(NamedTuple):
    """Everything that changes during training."""

    params: Any
    target: Any
    """Parameters of the network that gives v(s'); None where that is the network itself."""
    optimiser: Any
    update: Int[Array, "*lanes"]
    diverged_at: Int[Array, "*lanes"]
    """The update that would have made a number infinite or NaN; -1 for none. The lane stands still
    from there on, at its last good parameters."""


def make_optimiser(config: Config) -> optax.GradientTransformation:
    """Direction of an update; its length is `Hyper.step_size` times the schedule."""
    scale = {"adam": optax.scale_by_adam, "rmsprop": optax.scale_by_rms}[config.optimiser]
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), scale())


def make_schedule(config: Config) -> Callable[[Array], Array]:
    if config.schedule == "constant":
        return lambda update: jnp.ones_like(update, dtype=jnp.float32)
    return lambda update: 0.5 * (1 + jnp.cos(jnp.pi * update.astype(jnp.float32) / config.updates))


def outputs(
    network: Network, target: Network, problem: Problem, batch: Batch, features: Any
) -> tuple[Float[Array, " batch"], Float[Array, " batch"], Float[Array, " batch"]]:
    """The network's output at s, at s' and at the extra states.

    Over all rows (`batch.rows` is None) each distinct observation is shown once: the gradient is
    the same sum, at the price of the table instead of the batch. `features` are those of the table,
    where they are known beforehand.
    """
    if batch.rows is None:
        here = network.values(features)
        there = here if target is network else target.values(features)
        v = here[problem.state]
        return v, there[problem.next_state], v
    if batch.before is not None and batch.after is not None:
        v = network(batch.before)
        return v, target(batch.after), v

    def at(which: Network, states: Array) -> Array:
        if features is None:
            return which(problem.observations[states])
        return which.values(which.some(features, states))

    v = at(network, problem.state[batch.rows])
    v_next = at(target, problem.next_state[batch.rows])
    if batch.extra_rows is None:
        return v, v_next, v
    return v, v_next, at(network, problem.state[batch.extra_rows])


def batch_loss(
    config: Config,
    network: Network,
    target: Network,
    problem: Problem,
    batch: Batch,
    hyper: Hyper,
    features: Any = None,
) -> Float[Array, ""]:
    """Weighted mean of the objective over a batch."""
    v, v_next, v_extra = outputs(network, target, problem, batch, features)
    norm = v_extra**2 if config.objective == "gdo" else jnp.exp(2 * v_extra)
    extra = batch.extra_weights @ norm if config.objective in PENALISED else jnp.zeros(())
    rows = slice(None) if batch.rows is None else batch.rows
    objective = OBJECTIVES[config.objective]

    def one(v: Array, v_next: Array, cost: Array, boundary: Array, terminated: Array) -> Array:
        norm_target = jnp.asarray(config.target_norm, dtype=v.dtype)
        step = Step(
            cost=cost,
            terminated=terminated,
            boundary=boundary,
            extra=extra,
            penalty=hyper.penalty,
            target_norm=norm_target,
            cap=hyper.cap,
            ceiling=problem.ceiling,
        )
        return objective(v, v_next, step)

    parts = (v_next, problem.cost[rows], problem.boundary[rows], problem.terminated[rows])
    losses = jax.vmap(one)(v, *parts)
    weights = batch.weights
    scale = jnp.ones_like(weights)
    if config.scaled and config.objective == "drogo":
        scale = 1 / problem.cost[rows]
    if config.emphasis > 0 and config.objective == "drogo" and sees_everything(config, batch):
        slopes = scale * jax.vmap(jax.grad(one))(jax.lax.stop_gradient(v), *parts)
        weights = emphasised(weights, slopes, problem, config.emphasis)
    return (weights * scale) @ losses


def sees_everything(config: Config, batch: Batch) -> bool:
    """All transitions are in every batch."""
    return config.full_batches and batch.rows is None


def emphasised(
    weights: Float[Array, " edges"], slopes: Float[Array, " edges"], problem: Problem, power: float
) -> Float[Array, " edges"]:
    """Weights times how badly each state's equation is violated, relative to the average, to a
    power. `slopes` are the brackets of the transitions; their mean over a state is its violation.
    """
    count = problem.observations.shape[0]
    total = jax.ops.segment_sum(weights * slopes, problem.state, count)
    share = jax.ops.segment_sum(weights, problem.state, count)
    violation = jnp.abs(total) / jnp.maximum(share, 1e-12)
    mean = share @ violation
    return weights * ((violation / jnp.maximum(mean, 1e-12)) ** power)[problem.state]


class Program:
    """The compiled pieces for one configuration and network shape."""

    def __init__(self, config: Config, static: Any) -> None:
        self.config = config
        self.static = static
        """A network without its parameters, which are the lane's."""
        self.optimiser = make_optimiser(config)
        self.schedule = make_schedule(config)
        self.run = jax.jit(self._run)
        self.evaluate = jax.jit(self._evaluate)

    def init(self, params: Any) -> Lane:
        """Fresh lanes around stacked parameters."""
        lanes = jax.tree.leaves(params)[0].shape[0]
        return Lane(
            params,
            params if self.config.target_rate < 1 else None,
            jax.vmap(self.optimiser.init)(params),
            jnp.zeros(lanes, dtype=jnp.int32),
            jnp.full(lanes, -1, dtype=jnp.int32),
        )

    def network(self, params: Any) -> Network:
        return eqx.combine(params, self.static)

    def over_lanes(self, function: Callable, *arguments: Any) -> Any:
        """All lanes at once on an accelerator and for tables. On a CPU networks go one after
        another: as fast, a lane stays in the cache, and its numbers do not depend on the others."""
        if jax.default_backend() == "cpu" and not isinstance(self.static, Table):
            return jax.lax.map(lambda packed: function(*packed), arguments)
        return jax.vmap(function)(*arguments)

    def _update(self, problem: Problem, features: Any, lane: Lane, hyper: Hyper, batch: Batch):
        def loss_of(params: Any) -> Array:
            network = self.network(params)
            target = network if lane.target is None else self.network(lane.target)
            return batch_loss(self.config, network, target, problem, batch, hyper, features)

        loss, gradient = jax.value_and_grad(loss_of)(lane.params)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes types; our own code does not
            direction, optimiser = self.optimiser.update(gradient, lane.optimiser)
        length = hyper.step_size * self.schedule(lane.update)
        params = jax.tree.map(lambda p, d: p - length * d, lane.params, direction)
        target = lane.target
        if target is not None:
            rate = self.config.target_rate
            target = jax.tree.map(lambda t, p: t + rate * (p - t), target, params)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        good = finite & (lane.diverged_at < 0)
        moved = Lane(params, target, optimiser, lane.update + 1, lane.diverged_at)
        stopped = lane._replace(
            update=lane.update + 1,
            diverged_at=jnp.where(lane.diverged_at < 0, lane.update, lane.diverged_at),
        )
        return jax.tree.map(lambda new, old: jnp.where(good, new, old), moved, stopped), loss

    def _run(
        self,
        lanes: Lane,
        hypers: Hyper,
        seed_of_lane: Int[Array, " lanes"],
        problem: Problem,
        table: Any,
        batches: Batch,
        updates: Int[Array, " updates"],
    ) -> tuple[Lane, Float[Array, " lanes"]]:
        """A chunk of updates: the lanes after it, and the mean loss of each.

        Leaves of `batches` are (updates, seeds, batch), or (batch,) if every update uses them all.
        `table` is `Network.of_table`, or None.
        """
        always_the_same = batches.weights.ndim == 1

        def body(lanes: Lane, drawn: Batch | None) -> tuple[Lane, Array]:
            update = partial(self._update, problem, table)
            if always_the_same:
                return self.over_lanes(partial(update, batch=batches), lanes, hypers)
            mine = jax.tree.map(lambda leaf: leaf[seed_of_lane], drawn)
            return self.over_lanes(update, lanes, hypers, mine)

        steps = (None, len(updates)) if always_the_same else (batches, None)
        lanes, losses = jax.lax.scan(body, lanes, steps[0], length=steps[1])
        return lanes, losses.mean(axis=0)

    def _evaluate(
        self, params: Any, observations: Shaped[Array, "n ..."]
    ) -> Float[Array, "lanes n"]:
        """Outputs of every lane, one lane at a time."""
        return jax.lax.map(lambda lane: self.network(lane)(observations), params)


@lru_cache(maxsize=4)
def program(config: Config, static: Any) -> Program:
    """Kept, so that a second fit with the same settings and shapes compiles nothing."""
    return Program(config, static)
