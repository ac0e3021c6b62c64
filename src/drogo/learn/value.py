"""Learned values and policies as functions.

Values are functions in JAX for compiled programs, and of single observations in NumPy: calling a
compiled JAX program with one observation takes many times as long as a step of a cheap environment,
and an MLP on one observation is a handful of small matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from drogo.errors import ArgumentError
from drogo.learn.learner import Objective
from drogo.learn.networks import AbstractNetwork, DenseNetwork, Inputs

Logits = Callable[[np.ndarray], Float[np.ndarray, "batch actions"]]
"""From a batch of observations to the log-probability of each action, up to a constant."""


class Policy:
    """The optimal policy of the linearly solvable MDP.

    `result.policy(seed)` makes one. Stable-Baselines3's `evaluate_policy` takes it as it is.

    Args:
        logits: Computes the log-probabilities of a batch of observations, up to a constant.
        shape: The shape of one observation.
        seed: The seed of the actions that are drawn.
    """

    def __init__(self, logits: Logits, shape: tuple[int, ...], *, seed: int = 0) -> None:
        self._logits, self.shape = logits, shape
        self._rng = np.random.default_rng(seed)

    def probabilities(self, observations: Any) -> Float[np.ndarray, "batch actions"]:
        """Returns the probability of each action.

        Args:
            observations: A batch of observations.
        """
        batch = np.asarray(observations)
        if batch.shape[1:] != self.shape:
            raise ArgumentError(
                f"the observations have shape {batch.shape[1:]}; this policy was learned from "
                f"shape {self.shape}. Give a batch, or use predict for a single one."
            )
        logits = self._logits(batch)
        if np.isnan(logits).any():
            raise ArgumentError(
                f"observation {int(np.isnan(logits).any(axis=1).argmax())} of the batch has an "
                "action whose value is not a number, so it is not known what to do there."
            )
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

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
        """Returns actions as the agents of Stable-Baselines3 do.

        Args:
            observation: One observation, or a batch of them.
            state: Passed through; this policy has no memory.
            episode_start: Not used.
            deterministic: Whether to take the most probable action instead of drawing one.

        Returns:
            The action, or the actions of the batch, and `state`.
        """
        given = np.asarray(observation)
        batch = given[None] if given.shape == self.shape else given
        probabilities = self.probabilities(batch)
        if deterministic:
            actions = probabilities.argmax(axis=1)
        else:
            drawn = self._rng.random((len(batch), 1))
            actions = (probabilities.cumsum(axis=1) < drawn).sum(axis=1)
            actions = np.minimum(actions, probabilities.shape[1] - 1)
        return (actions if batch is given else actions.squeeze(axis=0)), state


Single = Callable[[np.ndarray], Any]
"""From one observation to its raw outputs."""
MOST_ON_ONE_THREAD = 9000
"""The largest matrix that OpenBLAS multiplies with a vector on one thread. For the matrices of an
MLP, waking a second thread takes longer than the product."""


class ValueFunction(eqx.Module):
    """log e of one seed as a pure JAX function, for use inside compiled programs.

    Args:
        network: The network.
        objective: The objective.
        inputs: The preprocessing.
        log_scale: The constant that is subtracted to fix the scale.
        terminal_states: The observations of terminal states whose values are given.
        terminal_values: These values.
    """

    network: AbstractNetwork
    objective: Objective
    inputs: Inputs
    log_scale: Float[Array, ""]
    terminal_states: Shaped[Array, "known ..."]
    terminal_values: Float[Array, " known"]

    def __call__(self, observations: Shaped[Array, ...]) -> Float[Array, ...]:
        """Returns log e at a batch of observations, or at a single one, with the given values of
        terminal states."""
        shape, single = jnp.shape(observations), self.terminal_states.shape[1:]
        if shape == single:
            return self(jnp.asarray(observations)[None])[0]
        if shape[1:] != single:
            raise ArgumentError(
                f"the observations have shape {shape}; give one of shape {single}, or a batch.",
                argument="observations",
            )
        outputs = self.network(self.inputs(jnp.asarray(observations)))
        v = self.objective.log_e(outputs) - self.log_scale
        return with_terminal_values(
            v, jnp.asarray(observations), self.terminal_states, self.terminal_values
        )


def with_terminal_values(
    v: Float[Array, " n"],
    observations: Shaped[Array, "n ..."],
    terminal_states: Shaped[Array, "known ..."],
    terminal_values: Float[Array, " known"],
) -> Float[Array, " n"]:
    """Returns values at some observations, with the given ones where these are terminal states."""
    if not len(terminal_states):
        return v
    size = math.prod(observations.shape[1:])  # the batch may be empty, and -1 needs some
    flat, known = (part.reshape(len(part), size) for part in (observations, terminal_states))

    def replaced(k: Array, v: Array) -> Array:
        same = (flat == known[k][None]).all(axis=1)
        return jnp.where(same, terminal_values[k].astype(v.dtype), v)

    return jax.lax.fori_loop(0, len(known), replaced, v)


def single_log_e(objective: Objective) -> Callable[[Any], float]:
    """Returns log e as a function of the raw outputs for one observation."""
    scale = float(objective.scale)
    if not objective.method.anchored:  # these are not worth a second way
        return lambda output: float(objective.log_e(output))
    if objective.method.per_action:
        return lambda outputs: float(np.logaddexp.reduce(scale * outputs))
    return lambda output: scale * float(output)


def single_output(network: AbstractNetwork, inputs: Inputs) -> Single:
    """Returns the raw outputs of a network as a function of one observation."""
    if isinstance(network, DenseNetwork):
        return _dense(network, inputs)

    @jax.jit
    def compiled(observation: Array) -> Float[Array, ...]:
        return network(inputs(observation[None]))[0]

    return compiled


def _dense(network: DenseNetwork, inputs: Inputs) -> Single:
    """Evaluates an MLP in NumPy. Matrices are split into pieces that BLAS keeps on one thread."""
    layers = []
    for layer in network.layers:
        assert layer.bias is not None
        weight, bias = (np.asarray(part, np.float32) for part in (layer.weight, layer.bias))
        pieces = np.array_split(weight, -(-weight.size // MOST_ON_ONE_THREAD))
        layers.append(([np.asfortranarray(piece).dot for piece in pieces], bias))
    (*hidden, (last, last_bias)), leak = layers, np.float32(network.leak)
    size = layers[0][0][0].__self__.shape[1] // (1 + 2 * network.frequencies)
    turns = np.pi * np.arange(1, network.frequencies + 1, dtype=np.float32)
    bare = inputs.shift is None and inputs.chosen is None
    scalar = network.layers[-1].out_features == "scalar"

    def output(observation: np.ndarray) -> Any:
        numbers = (
            observation if bare and observation.dtype != np.uint8 else inputs(observation[None])
        )
        x = numbers.astype(np.float32).reshape(size)
        if turns.size:
            angles = (x[:, None] * turns).ravel()
            x = np.concatenate([x, np.sin(angles), np.cos(angles)])
        for products, bias in hidden:
            x = products[0](x) if len(products) == 1 else _joined(products, x)
            x += bias
            np.maximum(x, leak * x if leak else 0.0, out=x)
        out = _joined(last, x) + last_bias
        return out[0] if scalar else out

    return output


def _joined(products: list[Callable[..., Any]], x: np.ndarray) -> np.ndarray:
    return np.concatenate([product(x) for product in products])
