"""A learned value as a function: in JAX for jitted programs, and of single observations in Python.

Calling a compiled JAX program with one observation takes many times as long as a cheap environment
takes to step. An MLP on one observation is a handful of small matrix products, which NumPy does in
a fraction of that.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped, UInt32

from drogo.device import to_device
from drogo.learn.inputs import Inputs
from drogo.learn.networks import MLP, AbstractNetwork
from drogo.learn.objectives import AbstractDrogo, AbstractObjective

Single = Callable[[np.ndarray], Any]
"""From one observation to its outputs."""
MOST_ON_ONE_THREAD = 9000
"""The most numbers of a matrix that OpenBLAS multiplies with a vector on one thread. For the
matrices of an MLP, waking a second thread takes longer than the product."""


class TerminalValues(eqx.Module):
    """A table of observations and values that replaces a network's values where it applies.

    Observations are found by a linear hash of their bits among the sorted hashes of the known ones,
    and compared bit for bit, so a lookup costs little however many are known.
    """

    most_alike: int = eqx.field(static=True)
    """The most known observations that share one hash."""
    multipliers: UInt32[Array, " words"]
    hashes: UInt32[Array, " known"]
    words: UInt32[Array, "known words"]
    values: Float[Array, " known"]

    def __call__(
        self, observations: Shaped[Array, "n ..."], values: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """Returns the values, replaced where an observation is known.

        Args:
            observations: A batch of observations.
            values: The network's values there.
        """
        if self.hashes.size == 0:
            return values
        words = _words(observations)
        hashes = words @ self.multipliers
        first = jnp.searchsorted(self.hashes, hashes)
        for k in range(self.most_alike):
            place = jnp.minimum(first + k, self.hashes.size - 1)
            known = (self.words[place] == words).all(axis=1)
            values = jnp.where(known, self.values[place].astype(values.dtype), values)
        return values


def terminal_rewards(
    observations: Shaped[np.ndarray, "known ..."], values: Float[np.ndarray, " known"]
) -> TerminalValues:
    """Returns the lookup of some known values.

    Args:
        observations: The observations of the terminal states, all different.
        values: The value of each.
    """
    words = np.asarray(_words(to_device(observations)))
    multipliers = np.random.default_rng(0).integers(2**32, size=words.shape[1], dtype=np.uint32)
    hashes = (words * (multipliers | np.uint32(1))[None]).sum(axis=1, dtype=np.uint32)
    order = np.argsort(hashes)
    return TerminalValues(
        int(np.unique(hashes, return_counts=True)[1].max(initial=0)),
        to_device(multipliers | np.uint32(1)),
        to_device(hashes[order]),
        to_device(words[order]),
        to_device(values[order], dtype=jnp.float32),
    )


def _words(observations: Shaped[Array, "n ..."]) -> UInt32[Array, "n words"]:
    """Returns the bits of each observation as whole numbers."""
    shape = (len(observations), math.prod(observations.shape[1:]))
    flat = jnp.asarray(observations).reshape(shape)
    # Numbers of 8 bytes become two words each, where JAX uses double precision.
    word = {1: jnp.uint8, 2: jnp.uint16}.get(flat.dtype.itemsize, jnp.uint32)
    return flat.view(word).astype(jnp.uint32)


class ValueFunction(eqx.Module):
    """log e of one seed as a pure JAX function, for use inside jitted programs."""

    network: AbstractNetwork
    objective: AbstractObjective
    inputs: Inputs
    log_scale: Float[Array, ""]
    terminal: TerminalValues

    def __call__(self, observations: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        """Returns log e at a batch of observations, with the known values of terminal states.

        Args:
            observations: The batch, of the shape and type that the fit was trained on.
        """
        v = self.objective.log_e(self.network(self.inputs(observations))) - self.log_scale
        return self.terminal(observations, v)


def single_log_e(objective: AbstractObjective) -> Callable[[Any], float]:
    """Returns log e as a function of the outputs for one observation.

    Args:
        objective: The objective, which knows what an output means.
    """
    scale = float(objective.numbers.scale)
    if isinstance(objective, AbstractDrogo):  # the others are not worth a second way
        if objective.per_action:
            return lambda outputs: float(np.logaddexp.reduce(scale * outputs))
        return lambda output: scale * float(output)
    return lambda output: float(objective.log_e(output))


def single_output(network: AbstractNetwork, inputs: Inputs) -> Single:
    """Returns the output of a network as a function of one observation.

    Args:
        network: The network.
        inputs: How observations are turned into numbers.
    """
    if isinstance(network, MLP):
        return _mlp(network, inputs)

    @jax.jit
    def compiled(observation: Array) -> Float[Array, ...]:
        return network(inputs(observation[None]))[0]

    return compiled


def _mlp(network: MLP, inputs: Inputs) -> Single:
    """An MLP whose layers are matrix products into arrays that are allocated once.

    The bias of a layer is the last column of its matrix, and the vector that it is multiplied with
    ends in 1. A layer is multiplied in pieces that BLAS keeps on one thread. A lock keeps two
    threads from using the arrays at once.
    """
    weights = [np.asarray(layer.weight) for layer in network.layers]
    biases = [np.asarray(layer.bias) for layer in network.layers]
    size = weights[0].shape[1] // (1 + 2 * network.frequencies)
    x, angles = np.ones(size + 1, dtype=np.float32), _angles(size, network.frequencies)
    features = np.ones(weights[0].shape[1] + 1, dtype=np.float32)
    layers = []
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        after = np.ones(len(bias) + 1, dtype=np.float32)
        rows = np.column_stack([weight, bias])
        pieces = np.array_split(np.arange(len(bias)), -(-rows.size // MOST_ON_ONE_THREAD))
        products = [
            (np.asfortranarray(rows[piece], dtype=np.float32).dot, after[piece[0] : piece[-1] + 1])
            for piece in pieces
        ]
        layers.append((products, after[:-1], np.zeros(len(bias), dtype=np.float32), after))
    last = np.column_stack([weights[-1], np.atleast_1d(biases[-1])]).astype(np.float32)
    last = last[0] if network.layers[-1].out_features == "scalar" else last
    leak = np.float32(network.leak)
    numbers, lock = _numbers(inputs), threading.Lock()

    def output(observation: np.ndarray) -> np.float32 | np.ndarray:
        with lock:
            features[:size] = x[:size] = numbers(observation)
            if angles.size:
                np.sin(angles.dot(x), out=features[size:-1])
            vector = features
            for products, units, least, after in layers:
                for multiply, some_units in products:
                    multiply(vector, some_units)
                if leak:
                    np.multiply(units, leak, out=least)
                np.maximum(units, least, out=units)
                vector = after
            return last.dot(vector)

    return output


def _angles(size: int, frequencies: int) -> np.ndarray:
    """The matrix from (x, 1) to the angles whose sines are the Fourier features: the cosines of
    `MLP.features` are sines a quarter of a turn later."""
    turns = np.kron(np.eye(size), np.pi * np.arange(1, frequencies + 1)[:, None])
    later = np.repeat([0.0, np.pi / 2], len(turns))
    return np.asfortranarray(np.column_stack([np.tile(turns, (2, 1)), later]), dtype=np.float32)


def _numbers(inputs: Inputs) -> Callable[[np.ndarray], np.ndarray]:
    """`Inputs` of one observation, flattened."""
    shift, scale, chosen = inputs.shift, inputs.scale, inputs.chosen

    def numbers(observation: np.ndarray) -> np.ndarray:
        flat = observation.ravel() if chosen is None else observation.ravel()[chosen]
        if shift is not None and scale is not None:
            return (flat - shift) * scale
        return flat / np.float32(255) - np.float32(0.5) if flat.dtype == np.uint8 else flat

    return numbers
