"""Networks: from a batch of observations to one number for each, or to several. Only `values` of a
network has parameters, so that the `features` of a table are computed once."""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from drogo.device import to_device
from drogo.errors import ArgumentError, DataError

ROWS_LOOKED_AT, NUMBERS_LOOKED_AT = 100_000, 2**24
"""The largest part of a long table from which the range of its numbers is taken."""
IMAGES_AT_ONCE = 1000
NARROW = 0.1  # A coordinate with a smaller range than this is hard for a network to tell apart.
STEPS_OF_SINGLE_PRECISION = 2**18
"""A range smaller than its distance from 0 by this factor has fewer than 64 numbers in it."""


class Inputs(eqx.Module):
    """Turns bytes into numbers in [-0.5, 0.5], state numbers into rows of a table, and normalises
    other numbers if asked to. The statistics are of double precision and NumPy's, because
    coordinates such as 1e8 + k must be shifted before they go to the device."""

    shift: Float[np.ndarray | Array, " size"] | None = None
    scale: Float[np.ndarray | Array, " size"] | None = None
    chosen: Int[np.ndarray | Array, " size"] | None = None
    """The pixels of a flattened image that are used, or None for all of them."""
    states: Int[np.ndarray | Array, " states"] | None = None
    """The sorted state numbers whose rows a table has; None if the network is not a table."""

    def __check_init__(self) -> None:
        if (self.shift is None) != (self.scale is None):
            raise ArgumentError("a shift and a scale of inputs come together.")

    def __call__(self, observations: Any) -> Any:
        """Returns the numbers for a batch of observations, in NumPy or in JAX as it came."""
        if self.states is not None:
            return self._row(observations)
        if self.chosen is not None:
            flat = observations.reshape(len(observations), math.prod(observations.shape[1:]))
            return self._scaled(flat[:, self.chosen])
        if observations.dtype == np.uint8:
            return observations.astype(np.float32) / np.float32(255) - np.float32(0.5)
        if self.shift is None:
            short = observations.dtype in (bool, np.float16)
            return observations.astype(np.float32) if short else observations
        return self._scaled(observations)

    def prepare(self, observations: Shaped[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "n ..."]:
        """Returns observations for the device, where `finish` does the rest; bytes stay bytes."""
        return observations if self._stays(observations) else self(observations)

    def finish(self, prepared: Shaped[Array, "n ..."]) -> Shaped[Array, "n ..."]:
        """Returns the numbers for a batch of prepared observations."""
        return self(prepared) if self._stays(prepared) else prepared

    def _stays(self, observations: Any) -> bool:
        return (self.shift is None and self.states is None) or observations.dtype == np.uint8

    def _row(self, numbers: Any) -> Any:
        """Returns the rows of state numbers, in a program a row beyond the table if unknown."""
        library = np if isinstance(numbers, np.ndarray) else jnp
        states = library.asarray(self.states, numbers.dtype)
        row = library.searchsorted(states, numbers)
        seen = states[library.minimum(row, len(states) - 1)] == numbers
        if library is np and not seen.all():
            wrong = f"state {numbers[~seen][0]} is not in the data."
            raise DataError(wrong, remedy="Collect transitions that visit it.")
        return library.where(seen, row, len(states)).astype(np.int32)

    def _scaled(self, numbers: Any) -> Any:
        library = np if isinstance(numbers, np.ndarray) else jnp
        precise = numbers.astype(np.result_type(float) if library is np else jnp.result_type(float))
        shift, scale = (library.asarray(part, precise.dtype) for part in (self.shift, self.scale))
        return ((precise - shift[None]) * scale[None]).astype(np.float32)


def fit_inputs(observations: np.ndarray, *, normalise: bool, by_pixel: bool = False) -> Inputs:
    """Returns the inputs that suit a table of observations."""
    if observations.ndim == 4 and by_pixel and normalise:
        # Takes the pixels that ever change: a layer that sees the background learns slowly.
        size = math.prod(observations.shape[1:])
        low, high, total = np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size)
        for begin in range(0, len(observations), IMAGES_AT_ONCE):
            some = np.asarray(observations[begin : begin + IMAGES_AT_ONCE], np.float64)
            rows = some.reshape(-1, size)
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
            total += rows.sum(axis=0)
        chosen = np.flatnonzero(high > low)
        if not chosen.size:
            return Inputs()
        mean, width = total[chosen] / len(observations), (high - low)[chosen]
        return Inputs(mean, 1 / width, chosen.astype(np.int32))
    if observations.ndim != 2 or observations.dtype == np.uint8:
        return Inputs()
    most = max(1, min(ROWS_LOOKED_AT, NUMBERS_LOOKED_AT // observations.shape[1]))
    every = -(-len(observations) // most)
    seen = np.asarray(observations[::every], dtype=np.float64)
    low, high = seen.min(axis=0), seen.max(axis=0)
    width, largest = high - low, np.abs(seen).max(axis=0)
    varies = width > 0
    lost = varies & (largest > STEPS_OF_SINGLE_PRECISION * width)
    if not normalise and lost.any():
        k = int(lost.argmax())
        wrong = f"number {k} of observations, from {low[k]} to {high[k]}, needs double precision."
        raise DataError(wrong, remedy="Use a network with normalise=True, or shift the numbers.")
    if not normalise or (largest.max() <= 1 and (width[varies] >= NARROW).all()):
        return Inputs()
    return Inputs((low + high) / 2, np.divide(1.0, width, out=np.ones_like(width), where=varies))


Features = Any
"""The input of `values`: an array, or a tree of arrays, that `take` can select rows from."""
Outputs = int | Literal["scalar"]
"""The number of outputs for each observation, in a row unless they are scalar."""


class AbstractNetwork(eqx.Module):
    """A network whose features can be computed beforehand."""

    def features(self, inputs: Shaped[Array, "n ..."]) -> Features:
        """Returns the input of `values`, computed without parameters: by default the inputs."""
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

    def extra(self) -> Float[Array, "..."] | None:
        """Returns numbers that are trained beside the network, such as an eigenvalue, or None."""
        return None

    def __call__(self, inputs: Shaped[Array, "n ..."]) -> Float[Array, "n ..."]:
        return self.values(self.features(inputs))


class WithExtra(AbstractNetwork):
    """A network, and numbers that are trained beside it."""

    network: AbstractNetwork
    numbers: Float[Array, "..."]

    def features(self, inputs: Shaped[Array, "n ..."]) -> Features:
        return self.network.features(inputs)

    def of_table(self, inputs: Shaped[np.ndarray, "n ..."]) -> Features:
        return self.network.of_table(inputs)

    def take(self, features: Features, rows: Int[Array, " k"]) -> Features:
        return self.network.take(features, rows)

    def values(self, features: Features) -> Float[Array, "n ..."]:
        return self.network.values(features)

    def extra(self) -> Float[Array, "..."]:
        return self.numbers


class TableNetwork(AbstractNetwork):
    """A table of outputs. The inputs are its rows; rows beyond its end give NaN."""

    table: Float[Array, "states ..."]

    def values(self, features: Int[Array, " n"]) -> Float[Array, "n ..."]:
        return self.table.at[features].get(mode="fill", fill_value=jnp.nan)


class AbstractFourierNetwork(AbstractNetwork):
    """A network of flattened observations and their Fourier features."""

    frequencies: eqx.AbstractVar[int]

    def features(self, inputs: Float[Array, "n ..."]) -> Float[Array, "n size"]:
        return fourier(inputs, self.frequencies)


class DenseNetwork(AbstractFourierNetwork):
    """Layers of rectified units, with a slope `leak` if they are off, and a linear output."""

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

    def values(self, features: Float[Array, "n size"]) -> Float[Array, "n ..."]:
        return dense(self.layers, features, self.leak)


class CustomNetwork(AbstractNetwork):
    """An equinox module of the user."""

    module: Callable[[Array], Array]

    def values(self, features: Shaped[Array, "n ..."]) -> Float[Array, "n ..."]:
        return self.module(features)


def fourier(inputs: Float[Any, "n ..."], frequencies: int) -> Float[Any, "n size"]:
    """Flattens observations and appends sin(pi k x) and cos(pi k x) for k up to `frequencies`."""
    library = np if isinstance(inputs, np.ndarray) else jnp
    x = inputs.reshape(len(inputs), math.prod(inputs.shape[1:]))
    if not frequencies:
        return x
    k = np.pi * library.arange(1, frequencies + 1, dtype=x.dtype)
    angles = (x[:, :, None] * k[None, None, :]).reshape(len(x), x.shape[1] * frequencies)
    return library.concatenate([x, library.sin(angles), library.cos(angles)], axis=1)


def dense_layers(sizes: Sequence[int], outputs: Outputs, keys: Array) -> tuple[eqx.nn.Linear, ...]:
    """Returns linear layers from each size to the next and to the outputs, one for each key."""
    following: list[Outputs] = [*sizes[1:], outputs]
    pairs = zip(sizes, following, keys, strict=True)
    return tuple(eqx.nn.Linear(fan_in, fan_out, key=k) for fan_in, fan_out, k in pairs)


def dense(layers: Sequence[Any], x: Float[Any, "n size"], leak: float = 0.0) -> Float[Any, "n ..."]:
    """Applies linear layers with rectified units of this leak between them, in NumPy or in JAX."""
    for k, layer in enumerate(layers):
        x = x @ layer.weight.T + layer.bias[None, :]
        if k == len(layers) - 1:
            break
        if isinstance(x, np.ndarray):
            x = np.maximum(x, leak * x) if leak else np.maximum(x, 0)
        else:
            x = jax.nn.leaky_relu(x, leak) if leak else jax.nn.relu(x)
    return x[:, 0] if layers[-1].out_features == "scalar" else x


# Networks of a state s and a goal g: v(s, g). Layers that see one observation alone are evaluated
# once for each row of a table, and not for each pair.


class Pairs(NamedTuple):
    """Pairs of a state and a goal, of which the features are rows of two tables."""

    states: Float[Array, "m size"]
    goals: Float[Array, "k size"]
    state: Int[Array, " n"] | None = None
    """The row of each pair's state, or None for all rows in order."""
    goal: Int[Array, " n"] | None = None
    """The row of each pair's goal, or None for all rows in order."""

    def of_states(self, table: Shaped[Array, "m width"]) -> Shaped[Array, "n width"]:
        """Returns the rows of a table over `states` for each pair."""
        return table if self.state is None else table[self.state]


class PairDense(AbstractFourierNetwork):
    """Layers of rectified units on each observation alone, and then on the sum of both."""

    frequencies: int = eqx.field(static=True)
    of_state: tuple[eqx.nn.Linear, ...]
    of_goal: tuple[eqx.nn.Linear, ...]
    layers: tuple[eqx.nn.Linear, ...]
    negative: bool = eqx.field(static=True)
    """Whether outputs are below 0, since the loss pushes up harder where values are not known."""

    def values(self, features: Pairs) -> Float[Array, "n ..."]:
        state = features.of_states(dense(self.of_state, features.states))
        goal = dense(self.of_goal, features.goals)
        goal = goal if features.goal is None else goal[features.goal]
        out = dense(self.layers, jax.nn.relu(state + goal))
        return -jax.nn.softplus(out) if self.negative else out


class QuasimetricNetwork(AbstractFourierNetwork):
    """Minus an interval quasimetric embedding (Wang and Isola, 2022) of both observations.

    An encoder gives `components` lists of numbers. The distance in each is the length of the union
    of the intervals [x, max(x, y)] over the numbers x of the state and y of the goal; v is minus a
    mixture of the largest and the mean of these lengths. So v(g, g) = 0, v <= 0 and v(s, g) >=
    v(s, h) + v(h, g) hold for all parameters and observations.
    """

    frequencies: int = eqx.field(static=True)
    layers: tuple[eqx.nn.Linear, ...]
    mixing: Float[Array, ""]  # The logit of the share of the largest length.
    components: int = eqx.field(static=True)

    def values(self, features: Pairs) -> Float[Array, " n"]:
        left, right = (dense(self.layers, part) for part in (features.states, features.goals))
        shape = (-1, self.components, left.shape[1] // self.components)
        # Intervals are taken in the order of their left ends, which is that of the state alone.
        order = jnp.argsort(jax.lax.stop_gradient(left).reshape(shape), axis=-1)
        first = jnp.arange(self.components)[None, :, None] * shape[-1]
        places = (first + order).reshape(left.shape)
        x = features.of_states(jnp.take_along_axis(left, places, axis=1)).reshape(shape)
        goal = jnp.arange(len(right)) if features.goal is None else features.goal
        y = right[goal[:, None], features.of_states(places)].reshape(shape)
        lengths = union_length(x, y)
        share = jax.nn.sigmoid(self.mixing)
        return -(share * lengths.max(axis=1) + (1 - share) * lengths.mean(axis=1))


Lengths = Float[Array, "*batch length"]


def union_length(left: Lengths, right: Lengths) -> Float[Array, "*batch"]:
    """Computes the length of the union of the intervals [x, max(x, y)] over the last axis. In the
    order of their left ends, each interval adds what is beyond all right ends before it."""
    right = jnp.maximum(left, right)
    reach = jax.lax.cummax(right, axis=right.ndim - 1)
    before = jnp.concatenate([left[..., :1], reach[..., :-1]], axis=-1)
    return jax.nn.relu(right - jnp.maximum(left, before)).sum(axis=-1)
