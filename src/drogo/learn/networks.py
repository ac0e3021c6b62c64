"""Networks from observations to numbers, a batch at a time. The layers are the paper's.

Each has two halves: `features`, which holds no parameters, and `values`, the rest. Where the same
table of observations is shown again and again, `of_table` computes its features once, beforehand.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from drogo.data.transitions import merge_equal
from drogo.errors import ArgumentError
from drogo.learn.inputs import Inputs

UNCHANGED = Inputs()
WIDTH = 128
DEPTH = 4
FILTERS = (16, 32, 64)


class Network(eqx.Module):
    """What `train` needs of a network. `inputs` is done to observations before anything else."""

    inputs: Inputs = eqx.field(static=True)

    @abc.abstractmethod
    def features(self, observations: Shaped[Array, "n ..."]) -> Any:
        """What `values` needs, without parameters."""

    @abc.abstractmethod
    def values(self, features: Any) -> Float[Array, " n"]:
        """One number for each observation."""

    def of_table(self, observations: Shaped[np.ndarray, "n ..."]) -> Any:
        """Features of observations that are known before anything is compiled."""
        return self.features(jnp.asarray(self.inputs(observations)))

    def some(self, features: Any, rows: Int[Array, " k"]) -> Any:
        """Features of some rows of a table."""
        return features[rows]

    def __call__(self, observations: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        return self.values(self.features(self.inputs(observations)))


class Table(Network):
    """The tabular case: one number per state; observations are state indices."""

    table: Float[Array, " states"]

    def __init__(self, states: int, value: float):
        self.inputs = Inputs()
        self.table = jnp.full(states, value, dtype=jnp.float32)

    def features(self, observations: Int[Array, " n"]) -> Int[Array, " n"]:
        return observations

    def of_table(self, observations: Int[np.ndarray, " n"]) -> Int[Array, " n"]:
        return jnp.asarray(observations)  # indices, whatever their type: nothing to scale

    def __call__(self, observations: Int[Array, " n"]) -> Float[Array, " n"]:
        return self.values(observations)

    def values(self, features: Int[Array, " n"]) -> Float[Array, " n"]:
        return self.table[features]


class MLP(Network):
    """Four layers of 128 rectified units and a linear output, on the flattened observation.

    With `frequencies`, each number x is joined by sin and cos of pi k x, k = 1..frequencies: what
    the network needs to see thin walls.
    """

    layers: tuple[eqx.nn.Linear, ...]
    frequencies: int = eqx.field(static=True)

    def __init__(self, size: int, frequencies: int, key: PRNGKeyArray, inputs: Inputs = UNCHANGED):
        self.inputs = inputs
        self.frequencies = frequencies
        sizes = [size * (1 + 2 * frequencies), *[WIDTH] * DEPTH, 1]
        keys = jax.random.split(key, DEPTH + 1)
        self.layers = tuple(
            eqx.nn.Linear(fan_in, fan_out, key=k)
            for fan_in, fan_out, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )

    def features(self, observations: Float[Array, "n ..."]) -> Float[Array, "n size"]:
        x = observations.reshape(len(observations), -1)
        if not self.frequencies:
            return x
        k = jnp.pi * jnp.arange(1, self.frequencies + 1, dtype=x.dtype)
        angles = (x[:, :, None] * k[None, None, :]).reshape(len(x), -1)
        return jnp.concatenate([x, jnp.sin(angles), jnp.cos(angles)], axis=1)

    def values(self, features: Float[Array, "n size"]) -> Float[Array, " n"]:
        x = features
        for layer in self.layers[:-1]:
            x = jax.nn.relu(_linear(layer, x))
        return _linear(self.layers[-1], x)[:, 0]


class Convolution(eqx.Module):
    """3 x 3, stride 1, padding 1."""

    weight: Float[Array, "3 3 channels filters"]
    bias: Float[Array, " filters"]

    def __init__(self, channels: int, filters: int, key: PRNGKeyArray):
        bound = 1 / np.sqrt(9 * channels)
        w_key, b_key = jax.random.split(key)
        shape = (3, 3, channels, filters)
        self.weight = jax.random.uniform(w_key, shape, minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(b_key, (filters,), minval=-bound, maxval=bound)

    def of_patches(self, patches: Float[Array, "h w n c9"]) -> Float[Array, "h w n filters"]:
        """As one matrix product: on a CPU several times faster than a convolution, and under a map
        over seeds far more (a `vmap` of convolutions is a grouped one)."""
        flat = patches.reshape(-1, patches.shape[-1]) @ self.weight.reshape(patches.shape[-1], -1)
        return flat.reshape(*patches.shape[:-1], -1) + self.bias[None, None, None, :]

    def of_rows(self, patches: Float[Array, "4 m c9"]) -> Float[Array, "4 m filters"]:
        """The same for patches that lie in no image."""
        return self.of_patches(patches[None])[0]

    def of_images(self, images: Float[Array, "h w n channels"]) -> Float[Array, "h w n filters"]:
        """Left to the accelerator's own convolution."""
        layout = ("HWNC", "HWIO", "HWNC")
        out = jax.lax.conv_general_dilated(
            images, self.weight, (1, 1), "SAME", dimension_numbers=layout
        )
        return out + self.bias[None, None, None, :]


class Windows(NamedTuple):
    """A table of images as its distinct pieces.

    Images of one world differ in a few pixels, so that most of what the first layers see they see
    again in every image. A pooled cell depends on a 4 x 4 window of the layer below; each distinct
    window is computed once, and cells point to theirs.
    """

    patches: Float[Array, "4 first c9"]
    """The four 3 x 3 patches of each distinct window of pixels."""
    cells: Int[Array, "4 second 9"]
    """The same of each distinct window of pooled cells, which point into the first table; its
    length stands for the zeros around an image."""
    places: Int[Array, "h w n"]
    """Of each place of the second pooled layer, into the second table."""


class CNN(Network):
    """Convolutions of 16, 32 and 64 filters, 2 x 2 max-pooling after the first two, then 128 units.

    Inside, images lie as (height, width, n, channels): shifting them is then a copy of whole
    blocks, and a matrix product needs no transposition.
    """

    convolutions: tuple[Convolution, ...]
    hidden: eqx.nn.Linear
    output: eqx.nn.Linear
    by_patches: bool = eqx.field(static=True)

    def __init__(
        self,
        shape: Sequence[int],
        key: PRNGKeyArray,
        by_patches: bool | None = None,
        inputs: Inputs = UNCHANGED,
    ):
        """`shape` is that of an image after `inputs`."""
        self.inputs = inputs
        height, width, channels = shape
        keys = jax.random.split(key, len(FILTERS) + 2)
        sizes = (channels, *FILTERS)
        self.convolutions = tuple(
            Convolution(c, f, k) for c, f, k in zip(sizes[:-1], sizes[1:], keys[:-2], strict=True)
        )
        flat = (height // 4) * (width // 4) * FILTERS[-1]
        self.hidden = eqx.nn.Linear(flat, WIDTH, key=keys[-2])
        self.output = eqx.nn.Linear(WIDTH, 1, key=keys[-1])
        self.by_patches = jax.default_backend() == "cpu" if by_patches is None else by_patches

    def features(self, observations: Float[Array, "n h w channels"]) -> Float[Array, "h2 w2 n c"]:
        images = observations.transpose(1, 2, 0, 3)
        return _patches(images, even=True) if self.by_patches else images

    def of_table(self, observations: Shaped[np.ndarray, "n h w channels"]) -> Any:
        if not self.by_patches:
            return self.features(jnp.asarray(self.inputs(observations)))
        return _windows(np.asarray(self.inputs(observations)))

    def some(self, features: Any, rows: Int[Array, " k"]) -> Any:
        if isinstance(features, Windows):
            return features._replace(places=features.places[:, :, rows])
        return features[:, :, rows]

    def values(self, features: Any) -> Float[Array, " n"]:
        first, second, third = self.convolutions
        if isinstance(features, Windows):
            pooled = jax.nn.relu(first.of_rows(features.patches).max(axis=0))
            pooled = jnp.concatenate([pooled, jnp.zeros_like(pooled[:1])])
            patches = pooled[features.cells].reshape(*features.cells.shape[:2], -1)
            pooled = jax.nn.relu(second.of_rows(patches).max(axis=0))
            x = jax.nn.relu(third.of_patches(_patches(pooled[features.places])))
        elif self.by_patches:
            x = _pool(first.of_patches(features))
            x = _pool(second.of_patches(_patches(x, even=True)))
            x = jax.nn.relu(third.of_patches(_patches(x)))
        else:
            x = _pool(second.of_images(_pool(first.of_images(features))))
            x = jax.nn.relu(third.of_images(x))
        x = x.transpose(2, 0, 1, 3).reshape(x.shape[2], -1)
        return _linear(self.output, jax.nn.relu(_linear(self.hidden, x)))[:, 0]


def _linear(layer: eqx.nn.Linear, x: Float[Array, "n size"]) -> Float[Array, "n out"]:
    assert layer.bias is not None
    return x @ layer.weight.T + layer.bias[None, :]


def _patches(
    images: Float[Array, "h w n channels"], even: bool = False
) -> Float[Array, "h2 w2 n c9"]:
    """The nine neighbours of every place side by side, in the order of a kernel's weights.

    `even` leaves out an odd last row or column, which pooling would drop.
    """
    height, width = images.shape[:2]
    padded = jnp.pad(images, ((1, 1), (1, 1), (0, 0), (0, 0)))
    if even:
        height, width = height // 2 * 2, width // 2 * 2
    shifted = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return jnp.concatenate(shifted, axis=-1)


def _pool(images: Float[Array, "h w n c"]) -> Float[Array, "h2 w2 n c"]:
    """2 x 2 max-pooling and rectification (which commute; this order rectifies a quarter)."""
    height, width, n, channels = images.shape
    even = images[: height // 2 * 2, : width // 2 * 2]
    blocks = even.reshape(height // 2, 2, width // 2, 2, n, channels)
    return jax.nn.relu(blocks.max(axis=(1, 3)))


def _windows(images: np.ndarray) -> Windows:
    """Find the distinct windows of a table of images, for both pooled layers."""
    n, height, width, channels = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0))).transpose(1, 2, 0, 3)
    seen, first = merge_equal(_four_by_four(padded, height // 2, width // 2))
    # Patches in the order of a kernel's weights, for each of the four places of a window.
    patches = _inner_patches(seen.reshape(-1, 4, 4, channels))
    cells = first.reshape(height // 2, width // 2, n)
    around = np.pad(cells, ((1, 1), (1, 1), (0, 0)), constant_values=len(seen))[..., None]
    held, second = merge_equal(_four_by_four(around, height // 4, width // 4))
    return Windows(
        jnp.asarray(patches),
        jnp.asarray(_inner_patches(held.reshape(-1, 4, 4, 1)), dtype=jnp.int32),
        jnp.asarray(second.reshape(height // 4, width // 4, n), dtype=jnp.int32),
    )


def _four_by_four(padded: np.ndarray, height: int, width: int) -> np.ndarray:
    """The 4 x 4 windows at every second place, one row each: (height * width * n, 16 c)."""
    rows = 2 * np.arange(height)[:, None] + np.arange(4)
    columns = 2 * np.arange(width)[:, None] + np.arange(4)
    taken = padded[rows[:, None, :, None], columns[None, :, None, :]]
    return taken.transpose(0, 1, 4, 2, 3, 5).reshape(height * width * padded.shape[2], -1)


def _inner_patches(windows: np.ndarray) -> np.ndarray:
    """The four 3 x 3 patches of each 4 x 4 window: (4, m, 9 c)."""
    corners = [windows[:, i : i + 3, j : j + 3] for i in range(2) for j in range(2)]
    return np.stack([corner.reshape(len(windows), -1) for corner in corners])


def choose(observations: np.ndarray) -> str:
    """Which network suits a table of observations."""
    if observations.ndim == 1:
        return "table"
    return "cnn" if observations.ndim == 4 else "mlp"


def build(
    kind: str,
    observations: np.ndarray,
    frequencies: int,
    initial: float,
    key: PRNGKeyArray,
    inputs: Inputs = UNCHANGED,
) -> Network:
    """A fresh network for observations shaped like these; `initial` is a table's first value."""
    shape = inputs(observations[:1]).shape[1:]
    if kind == "table":
        if observations.ndim != 1 or not np.issubdtype(observations.dtype, np.integer):
            raise ArgumentError(
                "network='table' needs state indices as observations (observation='state'); these "
                f"have shape {shape} and type {observations.dtype}."
            )
        return Table(int(np.max(observations)) + 1, initial)
    if kind == "mlp":
        return MLP(int(np.prod(shape, dtype=np.int64)), frequencies, key, inputs)
    if kind == "cnn":
        if len(shape) != 3 or min(shape[:2]) < 4:
            raise ArgumentError(
                "network='cnn' needs images (height, width, channels) of at least 4 x 4; these "
                f"have shape {shape}."
            )
        return CNN(shape, key, inputs=inputs)
    raise ArgumentError(f"network is {kind!r}; choose table, mlp, cnn or auto.")
