"""A learned value as a fast function of single observations, for environments that run in Python.

Calling a compiled JAX program with one observation takes many times as long as a cheap environment
takes to step. An MLP on one observation is a handful of small matrix products, which NumPy does in
a fraction of that.
"""

from __future__ import annotations

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
    layers = [(np.array(layer.weight), np.array(layer.bias)) for layer in network.layers]
    (last, last_bias), hidden = layers[-1], layers[:-1]
    bytes_to_numbers = np.float32(1 / 255), np.float32(0.5)
    shift, scale, chosen = (
        None if part is None else np.asarray(part)
        for part in (inputs.shift, inputs.scale, inputs.chosen)
    )
    angles = np.pi * np.arange(1, network.frequencies + 1, dtype=np.float32)

    def numbers(observation: np.ndarray) -> np.ndarray:
        flat = observation.ravel() if chosen is None else observation.ravel()[chosen]
        if shift is not None and scale is not None:
            return (flat.astype(np.float32) - shift) * scale
        if flat.dtype == np.uint8:
            return flat * bytes_to_numbers[0] - bytes_to_numbers[1]
        return flat.astype(np.float32, copy=False)

    def output(observation: np.ndarray) -> np.float32:
        x = numbers(observation)
        if angles.size:
            turns = np.multiply.outer(x, angles).ravel()
            x = np.concatenate((x, np.sin(turns), np.cos(turns)))
        for weight, bias in hidden:
            x = weight @ x
            x += bias
            np.maximum(x, 0, out=x)
        return last[0] @ x + last_bias[0]

    return output
