"""Networks: from a batch of observations to one number for each, or to several.

A network has two parts: `features`, which has no parameters, and `values`, which has all of them.
Where every update evaluates the same table of observations, `of_table` computes its features once.
Any other equinox module takes part through `CustomNetwork`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, Shaped

from drogo.device import to_device

Features = Any
"""What `values` takes: an array, or a tree of arrays, that `take` can select rows from."""
Outputs = int | Literal["scalar"]
"""The number of outputs for each observation, in a row of their own unless they are scalar."""


class AbstractNetwork(eqx.Module):
    """A network whose features can be computed beforehand."""

    def features(self, inputs: Shaped[Array, "n ..."]) -> Features:
        """Returns what `values` takes, computed from the inputs without any parameters. Unless a
        network says otherwise, these are the inputs themselves."""
        return inputs

    def of_table(self, inputs: Shaped[np.ndarray, "n ..."]) -> Features:
        """Returns the features of a whole table that is known before anything is compiled."""
        return self.features(to_device(inputs))

    def take(self, features: Features, rows: Int[Array, " k"]) -> Features:
        """Returns the features of some rows of a table."""
        return features[rows]

    @abc.abstractmethod
    def values(self, features: Features) -> Float[Array, "n ..."]:
        """Returns the outputs for each observation: one number, or a row of them."""

    def extra(self) -> Float[Array, ...] | None:
        """Returns numbers that are trained beside the network, such as an eigenvalue, or None."""
        return None

    def __call__(self, inputs: Shaped[Array, "n ..."]) -> Float[Array, "n ..."]:
        return self.values(self.features(inputs))


class WithExtra(AbstractNetwork):
    """A network, and numbers that are trained beside it."""

    network: AbstractNetwork
    numbers: Float[Array, ...]

    def features(self, inputs: Shaped[Array, "n ..."]) -> Features:
        return self.network.features(inputs)

    def of_table(self, inputs: Shaped[np.ndarray, "n ..."]) -> Features:
        return self.network.of_table(inputs)

    def take(self, features: Features, rows: Int[Array, " k"]) -> Features:
        return self.network.take(features, rows)

    def values(self, features: Features) -> Float[Array, "n ..."]:
        return self.network.values(features)

    def extra(self) -> Float[Array, ...]:
        return self.numbers


class TableNetwork(AbstractNetwork):
    """A table of outputs. The inputs are its rows; rows beyond its end give NaN."""

    table: Float[Array, "states ..."]

    def values(self, features: Int[Array, " n"]) -> Float[Array, "n ..."]:
        return self.table.at[features].get(mode="fill", fill_value=jnp.nan)


class DenseNetwork(AbstractNetwork):
    """Layers of rectified units and a linear output, on the flattened observation.

    Fourier features (`frequencies`) keep values from leaking through thin walls. With `leak`, units
    that are off have this slope, so that none is off for good.
    """

    layers: tuple[eqx.nn.Linear, ...]
    frequencies: int = eqx.field(static=True)
    leak: float = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        frequencies: int,
        key: PRNGKeyArray,
        width: int = 128,
        depth: int = 4,
        outputs: Outputs = "scalar",
        leak: float = 0.0,
    ):
        self.frequencies, self.leak = frequencies, leak
        sizes = [size * (1 + 2 * frequencies), *[width] * depth]
        self.layers = dense_layers(sizes, outputs, jax.random.split(key, depth + 1))

    def features(self, inputs: Float[Array, "n ..."]) -> Float[Array, "n size"]:
        return fourier(inputs, self.frequencies)

    def values(self, features: Float[Array, "n size"]) -> Float[Array, "n ..."]:
        return dense(self.layers, features, self.leak)


class CustomNetwork(AbstractNetwork):
    """An equinox module of the user's own."""

    module: Callable[[Array], Array]

    def values(self, features: Shaped[Array, "n ..."]) -> Float[Array, "n ..."]:
        return self.module(features)


def fourier(inputs: Float[Any, "n ..."], frequencies: int) -> Float[Any, "n size"]:
    """Flattens observations and appends sin(pi k x) and cos(pi k x) of each number x for k up to
    `frequencies`, in NumPy or in JAX."""
    library = np if isinstance(inputs, np.ndarray) else jnp
    x = inputs.reshape(len(inputs), math.prod(inputs.shape[1:]))
    if not frequencies:
        return x
    k = np.pi * library.arange(1, frequencies + 1, dtype=x.dtype)
    angles = (x[:, :, None] * k[None, None, :]).reshape(len(x), x.shape[1] * frequencies)
    return library.concatenate([x, library.sin(angles), library.cos(angles)], axis=1)


def dense_layers(
    sizes: Sequence[int], outputs: Outputs, keys: Key[Array, " layers"]
) -> tuple[eqx.nn.Linear, ...]:
    """Returns linear layers from each size to the next and to the outputs, one for each key."""
    ends: list[Outputs] = [*sizes[1:], outputs]
    pairs = zip(sizes, ends, keys, strict=True)
    return tuple(eqx.nn.Linear(fan_in, fan_out, key=k) for fan_in, fan_out, k in pairs)


def dense(layers: Sequence[Any], x: Float[Any, "n size"], leak: float = 0.0) -> Float[Any, "n ..."]:
    """Applies linear layers with rectified units between them, in NumPy or in JAX.

    Args:
        layers: Layers with a `weight`, a `bias` and `out_features`, as those of equinox.
        x: The input of the first layer.
        leak: The slope of units that are off.
    """

    def rectified(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return np.maximum(x, leak * x) if leak else np.maximum(x, 0)
        return jax.nn.leaky_relu(x, leak) if leak else jax.nn.relu(x)

    for k, layer in enumerate(layers):
        assert layer.bias is not None
        x = x @ layer.weight.T + layer.bias[None, :]
        x = rectified(x) if k < len(layers) - 1 else x
    return x[:, 0] if layers[-1].out_features == "scalar" else x
