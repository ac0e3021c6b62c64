"""Builds the network of a fit: one of the shipped ones, or the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from drogo.config import CUSTOM, MOST_COORDINATES, Config
from drogo.device import to_device
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.learn.convolution import CNN
from drogo.learn.inputs import Inputs
from drogo.learn.networks import MLP, AbstractNetwork, Custom, Outputs, Table

UserNetwork = eqx.Module | Callable[[PRNGKeyArray], eqx.Module]
"""A module from a batch of observations to one number each, or a function from a key to one."""


def choose(observations: np.ndarray) -> str:
    """Returns the name of the network that suits a table of observations."""
    return {1: "table", 4: "cnn"}.get(observations.ndim, "mlp")


def build(
    config: Config,
    observations: np.ndarray,
    inputs: Inputs,
    key: PRNGKeyArray,
    initial_output: float | None = 0.0,
    outputs: Outputs = "scalar",
    user_network: UserNetwork | None = None,
) -> AbstractNetwork:
    """Returns a fresh network for observations like these.

    Args:
        config: The settings of the fit; `config.network` is not "auto".
        observations: The table of observations.
        inputs: How observations are turned into numbers.
        key: Decides the initial parameters.
        initial_output: The first value of every entry of a table; None to draw them.
        outputs: The number of outputs for each observation.
        user_network: The user's own network, where `config.network` is "custom".
    """
    if config.network == "table":
        assert inputs.states is not None
        shape = (len(inputs.states),) if outputs == "scalar" else (len(inputs.states), outputs)
        if initial_output is None:
            return Table(jax.random.normal(key, shape))
        return Table(jnp.full(shape, initial_output, dtype=jnp.float32))
    example = inputs(observations[:1])
    shape = example.shape[1:]
    size = math.prod(shape)
    if config.network == CUSTOM:
        return _custom(user_network, example, key, outputs)
    if config.network == "mlp":
        few = observations.ndim == 2 and size <= MOST_COORDINATES
        frequencies = config.frequencies if few else 0
        sizes = (config.width, config.depth or 4, outputs)
        return MLP(size, frequencies, key, *sizes, config.leak)
    if len(shape) != 3 or min(shape[:2]) < 4:
        raise ArgumentError(
            "network='cnn' needs images (height, width, channels) of at least 4 x 4; these "
            f"observations have shape {shape}."
        )
    return CNN(shape, key, config.width, config.depth or 1, outputs)


def _custom(
    given: Any, example: np.ndarray, key: PRNGKeyArray, outputs: Outputs
) -> AbstractNetwork:
    """Checks a user's network on one observation."""
    if given is None:
        raise ArgumentError(
            "this fit has a network of the user's own, which a file cannot hold.",
            remedy="Give the network again: load(path, network=...).",
        )
    module = given if isinstance(given, eqx.Module) else given(key)
    if isinstance(module, AbstractNetwork):
        return module
    if not isinstance(module, eqx.Module) or not callable(module):
        raise ArgumentTypeError(
            f"network is a {type(module).__name__}; give an equinox.Module that can be called with "
            "a batch of observations, or a function from a JAX key to such a module."
        )
    numbers = to_device(np.repeat(example, 3, axis=0))
    try:
        out = eqx.filter_eval_shape(module, numbers)
    except Exception as error:
        raise ArgumentError(
            f"network failed on a batch of 3 observations of shape {numbers.shape[1:]} "
            f"({type(error).__name__}: {error}). It is called with a batch; a module for single "
            "observations needs jax.vmap."
        ) from error
    expected = (3,) if outputs == "scalar" else (3, outputs)
    if getattr(out, "shape", None) != expected:
        each = "one number" if outputs == "scalar" else f"{outputs} numbers"
        raise ArgumentError(
            f"network returned {getattr(out, 'shape', type(out).__name__)} for a batch of 3 "
            f"observations; it must return {each} for each: shape {expected}."
        )
    return Custom(module)
