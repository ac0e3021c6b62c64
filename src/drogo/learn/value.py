"""Learned values and policies as functions: in JAX for programs; in NumPy for single observations,
where calling a compiled program takes many times as long; and as graphs for other frameworks."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped
from scipy.special import softmax

from drogo.data import arrays
from drogo.data.collect import sample_rows
from drogo.data.step import Key, part_of
from drogo.errors import ArgumentError, check_type, check_whole
from drogo.graph import INPUT, Graph
from drogo.learn.convolution import ConvolutionalNetwork
from drogo.learn.learner import Learner
from drogo.learn.method import AbstractMethod
from drogo.learn.methods import AbstractLinear
from drogo.learn.networks import DenseNetwork, TableNetwork, WithExtra, dense, fourier
from drogo.public import checked

Logits = Callable[[np.ndarray], Float[np.ndarray, "batch actions"]]
"""From a batch of observations to the log-probability of each action, up to a constant."""


@checked
class Policy:
    """The optimal policy of the linearly solvable MDP, which `solution.policy(seed)` returns.

    Args:
        logits: Computes the log-probabilities of a batch of observations, up to a constant.
        shape: The shape of one observation.
        seed: The seed of the sampled actions.
    """

    key: Key = None
    """The part of a `Dict` observation that the policy sees, as in `collect`."""

    def __init__(self, logits: Logits, shape: tuple[int, ...], *, seed: int = 0) -> None:
        self._logits, self.shape = logits, check_type("shape", shape, tuple, "a tuple")
        self._rng = np.random.default_rng(check_whole("seed", seed, 0))

    def probabilities(self, observations: Any) -> Float[np.ndarray, "batch actions"]:
        """Returns the probability of each action for each of a batch of observations."""
        if isinstance(observations, dict):
            observations = part_of(observations, self.key, batch=1)
        batch = arrays.real("observations", observations)
        if not batch.size or batch.shape[1:] != self.shape:
            wrong = f"the shape is {batch.shape}; give a batch of {self.shape}."
            raise ArgumentError(wrong, remedy="Use predict for one.")
        logits = self._logits(batch)
        if np.isnan(logits).any():
            worst = int(np.isnan(logits).any(axis=1).argmax())
            raise ArgumentError(f"observation {worst} has an action without a value, so no policy.")
        return softmax(logits, axis=1)

    def __call__(self, observations: Any) -> Int[np.ndarray, " batch"]:
        """Returns the most probable action for each of a batch of observations."""
        return self.probabilities(observations).argmax(axis=1)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Returns actions as the agents of Stable-Baselines3 do, for `evaluate_policy`.

        Args:
            observation: One observation, or a batch of them, also of a `Dict` or a `Tuple`.
            state: Passed through; this policy has no memory.
            episode_start: Not used.
            deterministic: Whether to take the most probable action instead of a sampled one.
        """
        given = observation
        if isinstance(given, dict | tuple):
            one = part_of(given, self.key)
            given = one if one.shape == self.shape else part_of(given, self.key, batch=1)
        given = arrays.real("observation", given)
        batch = given[None] if given.shape == self.shape else given
        probabilities = self.probabilities(batch)
        if deterministic:
            actions = probabilities.argmax(axis=1)
        else:
            actions = sample_rows(probabilities.cumsum(axis=1), self._rng)
        return (actions if batch is given else actions.squeeze(axis=0)), state


def value_function(
    learner: Learner,
    params: Any,
    log_scale: Float[Array, ""],
    terminal_states: Shaped[Array, "terminals ..."],
    terminal_values: Float[Array, " terminals"],
) -> Callable[[Array], Array]:
    """Returns log e of one run as a JAX function of a batch or of one observation."""
    network, single = learner.network(params), terminal_states.shape[1:]

    def value(observations: Shaped[Array | np.ndarray, "..."]) -> Float[Array, "..."]:
        batch, shape = jnp.asarray(observations), jnp.shape(observations)
        if shape == single:
            return value(batch[None])[0]
        if shape[1:] != single:
            wrong = f"the shape is {shape}; give {single}, or a batch of it."
            raise ArgumentError(wrong, argument="observations")
        v = learner.objective.log_e(network(learner.inputs(batch))) - log_scale
        return with_terminal_values(v, batch, terminal_states, terminal_values)

    return value


def with_terminal_values(
    v: Float[Array, " n"],
    observations: Shaped[Array, "n ..."],
    terminal_states: Shaped[Array, "terminals ..."],
    terminal_values: Float[Array, " terminals"],
) -> Float[Array, " n"]:
    """Returns values at some observations, with the given ones where these are terminal states."""
    if not len(terminal_states):
        return v
    size = math.prod(observations.shape[1:])  # the batch may be empty, and -1 needs some
    flat, given = (part.reshape(len(part), size) for part in (observations, terminal_states))

    def replaced(k: Array, v: Array) -> Array:
        same = (flat == given[k][None]).all(axis=1)
        return jnp.where(same, terminal_values[k].astype(v.dtype), v)

    return jax.lax.fori_loop(0, len(given), replaced, v)


def single_value(
    learner: Learner, params: Any, log_scale: Float[np.ndarray, ""] | float
) -> Callable[[np.ndarray], float]:
    """Returns log e of one run as a function of one observation."""
    network, inputs, objective = learner.network(params), learner.inputs, learner.objective
    output = jax.jit(lambda observation: network(inputs(observation[None]))[0])
    if isinstance(network, DenseNetwork):
        layers = jax.tree.map(np.asfortranarray, network.layers)

        def output(observation: np.ndarray) -> Any:
            x = fourier(np.asarray(inputs(observation[None]), np.float32), network.frequencies)
            return dense(layers, x, network.leak)[0]

    log_e, shift = objective.log_e, float(log_scale)
    if objective.method.anchored:  # the others are not worth a second way
        scale, offset = float(objective.scale), np.asarray(objective.offset)
        log_e = lambda output: scale * float(output)  # noqa: E731
        if objective.method.per_action:
            log_e = lambda outputs: np.logaddexp.reduce(scale * outputs + offset)  # noqa: E731
    return lambda observation: float(log_e(output(observation))) - shift


def network_graph(learner: Learner, params: Any, table: np.ndarray, *, log_e: bool) -> Graph:
    """Returns the raw outputs of a network, or log e, as a graph, which a table leaves empty."""
    whole, method = learner.network(params), learner.objective.method
    network: Any = whole.network if isinstance(whole, WithExtra) else whole
    known = type(network) in (DenseNetwork, ConvolutionalNetwork, TableNetwork)
    if not known or type(method).log_e not in (AbstractMethod.log_e, AbstractLinear.log_e):
        problem = "a network or a method of your own cannot be translated."
        remedy = "Make it a table: Potential.from_states(states, potential(states))."
        raise ArgumentError(problem, remedy=remedy, argument="network")
    graph, inputs = Graph(table.shape[1:], table.dtype), learner.inputs
    if isinstance(network, TableNetwork):
        return graph
    graph.output = INPUT
    if inputs.chosen is not None:
        graph.then("Flatten", axis=1).then("Gather", np.asarray(inputs.chosen, np.int64), axis=1)
    if inputs.shift is not None and inputs.scale is not None:  # in double precision, as there
        graph.then("Cast", to=np.float64).then("Sub", np.float64(inputs.shift))
        graph.then("Mul", np.float64(inputs.scale))
    graph.then("Cast", to=np.float32)
    if inputs.chosen is None and table.dtype == np.uint8:
        graph.then("Div", np.float32(255)).then("Sub", np.float32(0.5))
    if isinstance(network, ConvolutionalNetwork):
        graph.then("Transpose", perm=[0, 3, 1, 2])
        for number, part in enumerate(network.convolutions):
            weight = np.asarray(part.weight).transpose(3, 2, 0, 1)
            graph.then("Conv", weight, part.bias, pads=[1, 1, 1, 1]).then("Relu")
            if number < 2:
                graph.then("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
        graph.then("Transpose", perm=[0, 2, 3, 1])
    graph.then("Flatten", axis=1)
    if k := getattr(network, "frequencies", 0):  # the angles of `networks.fourier` are a product
        waves = np.float32(np.pi) * np.arange(1, k + 1, dtype=np.float32)
        size = int(np.prod(graph.shape))
        angles = graph.add("MatMul", graph.output, np.kron(np.eye(size, dtype=np.float32), waves))
        graph.then("Concat", graph.add("Sin", angles), graph.add("Cos", angles), axis=1)
    for number, layer in enumerate(network.layers):
        if number:  # a rectified unit, whose slope is `leak` below 0
            below = np.float32(getattr(network, "leak", 0.0))
            graph.then("Max", graph.add("Mul", graph.output, below))
        at = 0 if layer.out_features == "scalar" else slice(None)
        graph.then("MatMul", layer.weight[at].T).then("Add", layer.bias[at])
    if log_e:
        graph.then("Mul", learner.objective.scale).then("Add", learner.objective.offset)
        if isinstance(method, AbstractLinear):
            graph.then("Abs").then("Max", np.finfo(np.float32).tiny).then("Log")
        elif method.per_action:
            graph.then("ReduceLogSumExp", axes=[1], keepdims=False)
    return graph.then("Cast", to=np.float64)
