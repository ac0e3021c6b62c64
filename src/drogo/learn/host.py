"""A learned value as a fast function of single observations, for environments that run in Python.

Calling a compiled JAX program with one observation takes many times as long as a cheap environment
takes to step. An MLP on one observation is a handful of small matrix products, which NumPy does in
a fraction of that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from drogo.learn.inputs import Inputs
from drogo.learn.networks import MLP, AbstractNetwork

Single = Callable[[np.ndarray], Any]
"""From one observation to a number."""


def single_output(network: AbstractNetwork, inputs: Inputs) -> Single:
    """Returns the output of a network as a function of one observation.

    Args:
        network: The network.
        inputs: How observations are turned into numbers.
    """
    if isinstance(network, MLP):
        return _mlp(network, inputs)

    @jax.jit
    def compiled(observation: Array) -> Float[Array, ""]:
        return network(inputs(observation[None]))[0]

    return compiled


def _mlp(network: MLP, inputs: Inputs) -> Single:
    """An MLP whose layers are single matrix products, into arrays that are allocated once.

    The bias of a layer is the last column of its matrix, and the vector that it is multiplied with
    ends in 1. A lock keeps two threads from using the arrays at once.
    """
    weights = [np.asarray(layer.weight) for layer in network.layers]
    biases = [np.asarray(layer.bias) for layer in network.layers]
    size = weights[0].shape[1] // (1 + 2 * network.frequencies)
    x, angles = np.ones(size + 1, dtype=np.float32), _angles(size, network.frequencies)
    features = np.ones(weights[0].shape[1] + 1, dtype=np.float32)
    layers = []
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        matrix = np.asfortranarray(np.column_stack([weight, bias]), dtype=np.float32)
        after = np.ones(len(bias) + 1, dtype=np.float32)
        layers.append((matrix.dot, after[:-1], np.zeros(len(bias), dtype=np.float32), after))
    last = np.append(weights[-1][0], biases[-1]).astype(np.float32)
    numbers, lock = _numbers(inputs), threading.Lock()

    def output(observation: np.ndarray) -> np.float32:
        with lock:
            features[:size] = x[:size] = numbers(observation)
            if angles.size:
                np.sin(angles.dot(x), out=features[size:-1])
            vector = features
            for multiply, units, zeros, after in layers:
                multiply(vector, units)
                np.maximum(units, zeros, out=units)
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
