"""`Learner`: training as three pure functions, `init`, `step` and `value`, which can be jitted,
mapped over seeds and settings, and scanned, as numbers of problems and methods are arrays."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from drogo.data import Transitions
from drogo.device import to_device
from drogo.errors import check_number, check_type
from drogo.learn.architectures import AbstractArchitecture, build_network
from drogo.learn.method import AbstractMethod, Sample
from drogo.learn.networks import AbstractNetwork, CustomNetwork, Features, Inputs, WithExtra
from drogo.learn.problem import AbstractProblem
from drogo.learn.settings import bare


def _single(number: Any) -> Array:
    if not isinstance(number, np.ndarray | np.generic | Array) and number != math.inf:
        check_number("a scale, the ceiling or the offset", number)
    return to_device(number, jnp.float32)


def _with_arrays(part: Any) -> Any:
    """Returns the bare settings with their numbers as arrays of single precision."""

    def convert(leaf: Any) -> Any:
        is_number = isinstance(leaf, float | int) and not isinstance(leaf, bool)
        return _single(leaf) if is_number else leaf

    return jax.tree.map(convert, bare(part))


class Objective(eqx.Module):
    """The loss of a method on a problem, and the meaning of a network trained with it."""

    problem: AbstractProblem = eqx.field(converter=_with_arrays)
    """The problem, of which only what programs need is kept."""
    method: AbstractMethod = eqx.field(converter=_with_arrays)
    """The method, likewise."""
    scale: Float[Array, "*runs"] = eqx.field(default=1.0, converter=_single, kw_only=True)
    """The factor from raw outputs, which are then of order 1 at every lam, to values."""
    extra_scale: Float[Array, "*runs"] = eqx.field(default=1.0, converter=_single, kw_only=True)
    """The factor of the numbers that are trained beside the network."""
    ceiling: Float[Array, "*runs"] = eqx.field(default=jnp.inf, converter=_single, kw_only=True)
    """An upper bound of every value, or infinity."""

    offset: Float[Array, "*shape"] = eqx.field(default=0.0, converter=_single, kw_only=True)
    """A number that is added to each value of an action: `ABSENT` where it was never seen."""

    @property
    def needs_moment(self) -> bool:
        """Whether a second, independent batch is needed."""
        return self.method.needs_moment or self.problem.learns_gain(self.method)

    def at_action(self, outputs: Array, action: Array | None) -> Array:
        """Returns the values at s, of the actions that were taken, by raw outputs."""
        values = self.values(outputs)
        if self.method.per_action:
            assert action is not None
            values = jnp.take_along_axis(values, action[:, None], axis=1)[:, 0]
        return values

    def values(self, outputs: Any) -> Array:
        """Returns the values of all actions, or the only one, by raw outputs."""
        return self.scale * outputs + jnp.broadcast_to(self.offset, jnp.shape(outputs))

    def log_e(self, outputs: Any) -> Any:
        """Returns log |e| for some raw outputs, up to a constant."""
        return self.method.log_e(self.values(outputs))

    def entry(self, outputs: Array) -> Array:
        """Returns the entries of e for some raw outputs."""
        return self.method.entry(self.scale * outputs)

    def next_output(self, outputs: Array, terminated: Array, terminal_reward: Array) -> Array:
        """Returns the values at s' by raw outputs, at anchored terminal states the given ones."""
        if not self.method.anchored:
            return self.scale * outputs
        return jnp.where(terminated, terminal_reward / self.problem.lam, self.log_e(outputs))

    def moment(self, outputs: Array, weight: Array) -> Array:
        """Returns `Sample.moment` of a batch of raw outputs, by weights that sum to 1."""
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

    def losses(
        self,
        output: Array,
        next_output: Array,
        log_cost: Array,
        terminated: Array,
        moment: Array,
        extra: Array | None,
    ) -> Float[Array, " n"]:
        """Returns the loss of each transition by its values at s and s', and numbers of all."""
        scaled = None if extra is None else self.extra_scale * extra
        numbers = (moment, scaled, self.scale, self.ceiling)

        def of_one(output: Array, next_output: Array, log_cost: Array, terminated: Array) -> Array:
            sample = Sample(self.problem, log_cost, terminated, *numbers)
            return self.method.loss(output, next_output, sample)

        return jax.vmap(of_one)(output, next_output, log_cost, terminated)

    def slopes(self, output: Array, *rest: Any) -> Float[Array, " n"]:
        """Returns the derivative of each transition's loss with respect to its value at s."""
        return jax.grad(lambda output: self.losses(output, *rest).sum())(output)


class State(eqx.Module):
    """Everything that changes during training."""

    params: PyTree[Array]
    """The trained arrays of the network."""
    target: PyTree[Array] | None
    """The parameters that give v(s'), or None where these are `params`."""
    optimiser: PyTree[Array]
    update: Int[Array, "*runs"]
    diverged_at: Int[Array, "*runs"]
    """The update that would have made a number infinite, before which training froze; or -1."""


class Batch(eqx.Module):
    """The transitions of one update, and the features at which the network is evaluated for them.

    The states s are rows `state` of `features` (all in order if that is None), and s' likewise.
    Without `next_features` both are rows of one table, which the network evaluates once.
    """

    features: Features
    next_features: Features | None
    state: Int[Array, " n"] | None
    next_state: Int[Array, " n"] | None
    reward: Float[Array, " n"]
    terminated: Bool[Array, " n"]
    terminal_reward: Float[Array, " n"]
    """The reward of the terminal state itself, where `terminated`."""
    weight: Float[Array, " n"]
    """The weight of each transition. They sum to 1."""
    action: Int[Array, " n"] | None = None
    """The actions, for methods with a value for each."""
    log_default: Float[Array, " n"] | None = None
    """The log of the default policy's probabilities of these actions, for the same methods."""
    second_features: Features | None = None
    """Features of an independent batch, for methods that need one; by default `features`."""
    second_weight: Float[Array, " n"] | None = None
    complete: bool = eqx.field(static=True, default=False)
    """Whether the batch holds all transitions there are."""


class Learner(eqx.Module):
    """An objective, a network and an optimiser.

    Args:
        objective: The problem and the method.
        network: Any callable equinox module from a batch to its outputs, as a template; `init`
            takes the first parameters.
        optimiser: An optax transformation. `step` passes `step_size` to it as an extra argument.
        inputs: The preprocessing of observations.
    """

    objective: Objective
    skeleton: AbstractNetwork
    optimiser: optax.GradientTransformationExtraArgs = eqx.field(static=True)
    inputs: Inputs
    target_rate: Float[Array, ""] | None

    def __init__(
        self,
        objective: Objective,
        network: eqx.Module,
        optimiser: optax.GradientTransformation,
        *,
        inputs: Inputs | None = None,
    ):
        self.objective = objective
        self.skeleton = eqx.filter(_as_network(network), eqx.is_inexact_array, inverse=True)
        self.optimiser = optax.with_extra_args_support(optimiser)
        self.inputs = Inputs() if inputs is None else inputs
        rate = objective.method.target_rate
        self.target_rate = None if rate in (None, 1) else jnp.asarray(rate)

    def with_objective(self, objective: Objective) -> "Learner":
        """Returns this learner with another objective of the same structure."""
        return eqx.tree_at(lambda learner: learner.objective, self, objective)

    def network(self, params: PyTree[Array]) -> AbstractNetwork:
        """Returns the network with these parameters."""
        return eqx.combine(params, self.skeleton)

    def init(self, network: eqx.Module | PyTree[Array]) -> State:
        """Returns the state before the first update of a network, or of its parameters."""
        network = _as_network(network) if isinstance(network, eqx.Module) else network
        params = eqx.filter(network, eqx.is_inexact_array)
        target = None if self.target_rate is None else params
        zero = jnp.zeros((), dtype=jnp.int32)
        return State(params, target, self.optimiser.init(params), zero, zero - 1)

    def batch(
        self,
        observations: Shaped[Array, "n ..."],
        next_observations: Shaped[Array, "n ..."],
        reward: Float[Array, " n"],
        terminated: Bool[Array, " n"],
        terminal_reward: Float[Array, " n"] | None = None,
    ) -> Batch:
        """Returns a batch of equally weighed transitions.

        Args:
            observations: The observations that were left.
            next_observations: The observations that were reached.
            reward: The reward of each step.
            terminated: The steps that reached a terminal state.
            terminal_reward: The reward of these terminal states themselves; 0 by default.
        """
        n = len(observations)
        zero = jnp.zeros(n) if terminal_reward is None else terminal_reward
        shown = (self.inputs(part) for part in (observations, next_observations))
        before, after = map(self.skeleton.features, shown)
        return Batch(before, after, None, None, reward, terminated, zero, jnp.full(n, 1 / n))

    def value(self, state: State, observations: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        """Returns log e at a batch of observations, up to the constant that fixes its scale."""
        return self.objective.log_e(self.network(state.params)(self.inputs(observations)))

    def step(
        self, state: State, batch: Batch, step_size: Float[Array, ""] | float | None = None
    ) -> tuple[State, Float[Array, ""]]:
        """Makes one update. Returns the state after it, and the loss before it."""

        def loss_of(params: PyTree[Array]) -> Array:
            target = None if state.target is None else self.network(state.target)
            return self.loss(self.network(params), batch, target)

        loss, gradient = jax.value_and_grad(loss_of)(state.params)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes types
            given = (gradient, state.optimiser, state.params)
            change, optimiser = self.optimiser.update(*given, step_size=step_size)
            params = optax.apply_updates(state.params, change)
            target = state.target
            if target is not None:
                target = optax.incremental_update(params, target, self.target_rate)  # pyright: ignore[reportArgumentType]
        norms = jnp.stack([loss, optax.tree.norm(gradient), optax.tree.norm(params)])
        good = jnp.isfinite(norms).all() & (state.diverged_at < 0)
        moved = State(params, target, optimiser, state.update + 1, state.diverged_at)
        at = jnp.where(state.diverged_at < 0, state.update, state.diverged_at)
        frozen = State(state.params, state.target, state.optimiser, state.update + 1, at)
        return jax.tree.map(lambda new, old: jnp.where(good, new, old), moved, frozen), loss

    def loss(
        self, network: AbstractNetwork, batch: Batch, target: AbstractNetwork | None = None
    ) -> Float[Array, ""]:
        """Returns the weighted mean loss of a batch; `target` gives v(s') if it is another one."""
        outputs = network.values(batch.features)
        if self.objective.method.needs_solution:
            next_outputs = outputs  # not used, since every value is given
        elif batch.next_features is not None:
            next_outputs = (target or network).values(batch.next_features)
        else:
            next_outputs = outputs if target is None else target.values(batch.features)
        second = None if batch.second_features is None else network.values(batch.second_features)
        return self.loss_of_outputs(outputs, next_outputs, batch, second, network.extra())

    def loss_of_outputs(
        self,
        outputs: Array,
        next_outputs: Array,
        batch: Batch,
        second: Array | None = None,
        extra: Array | None = None,
    ) -> Float[Array, ""]:
        """Returns the weighted mean loss of a batch by the raw outputs at its three `features`."""
        objective = self.objective
        at_state = outputs if batch.state is None else outputs[batch.state]
        output = objective.at_action(at_state, batch.action)
        next_output = next_outputs if batch.next_state is None else next_outputs[batch.next_state]
        next_output = objective.next_output(next_output, batch.terminated, batch.terminal_reward)
        moment = jnp.zeros(())
        if objective.needs_moment:
            weight = batch.weight if batch.second_weight is None else batch.second_weight
            moment = objective.moment(at_state if second is None else second, weight)
        rest = (next_output, self.log_cost(batch), batch.terminated, moment, extra)
        weight, power = batch.weight, objective.method.emphasis
        if power and batch.complete and objective.method.separable:
            assert batch.state is not None
            slopes = objective.slopes(jax.lax.stop_gradient(output), *rest)
            total = jax.ops.segment_sum(weight * slopes, batch.state, outputs.shape[0])
            share = jax.ops.segment_sum(weight, batch.state, outputs.shape[0])
            residual = jnp.abs(total) / jnp.maximum(share, 1e-12)
            relative = residual / jnp.maximum(share @ residual, 1e-12)
            weight = weight * (relative**power)[batch.state]
        return weight @ objective.losses(output, *rest)

    def log_cost(self, batch: Batch) -> Float[Array, " n"]:
        """Returns -r / lam of each transition, minus the log of the default policy if given."""
        log_cost = -batch.reward / self.objective.problem.lam
        return log_cost if batch.log_default is None else log_cost - batch.log_default


def _as_network(network: Any) -> AbstractNetwork:
    if isinstance(network, AbstractNetwork):
        return network
    return CustomNetwork(check_type("network", network, Callable, "a module that can be called"))


def make_learner(
    objective: Objective,
    architecture: AbstractArchitecture,
    optimiser: Any,
    inputs: Inputs,
    like: Transitions | Any,
    seeds: Sequence[int],
) -> tuple[Learner, Any]:
    """Returns a learner, and the stacked first parameters of seeds, for observations like these."""
    problem, method = objective.problem, objective.method
    outputs, extra = problem.outputs(method, like.n_actions), method.extra(problem)
    initial, networks = problem.initial(method), []
    for seed in seeds:
        key, table = jax.random.key(seed), like.observations
        network = build_network(architecture, table, inputs, outputs, key, initial)
        networks.append(network if extra is None else WithExtra(network, extra))
    learner = Learner(objective, networks[0], optimiser.transformation(), inputs=inputs)
    params = [eqx.filter(network, eqx.is_inexact_array) for network in networks]
    return learner, jax.tree.map(lambda *leaves: to_device(np.stack(leaves)), *params)


def take(tree: Any, runs: Any) -> Any:
    """Returns some runs of a tree of arrays, by NumPy, which compiles nothing."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    taken = jax.tree.map(lambda leaf: to_device(np.asarray(leaf)[runs]), arrays)
    return eqx.combine(taken, rest)
