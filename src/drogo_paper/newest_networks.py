"""The networks of the authors' newest code (encoder.py), which differ from those of the text."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from drogo.learn import MLP

WIDTH, DEPTH, FILTERS = 256, 3, 16
CONVOLUTIONS = ((8, 4), (4, 2), (3, 2))
"""The size and the stride of each convolution."""
DENSE = MLP(width=WIDTH, depth=DEPTH, frequencies=0, normalise=False)


class Strided(eqx.Module):
    """Three convolutions with strides and a dense layer, before the layers of `DENSE`."""

    convolutions: tuple[eqx.nn.Conv2d, ...]
    dense: tuple[eqx.nn.Linear, ...]

    def __init__(self, shape: tuple[int, int], key: PRNGKeyArray) -> None:
        keys, channels, convolutions = jax.random.split(key, 8), 3, []
        for key, (size, stride) in zip(keys, CONVOLUTIONS, strict=False):
            layer = eqx.nn.Conv2d(channels, FILTERS, size, stride, padding="SAME", key=key)
            convolutions.append(layer)
            channels, shape = FILTERS, (-(-shape[0] // stride), -(-shape[1] // stride))
        sizes = [FILTERS * shape[0] * shape[1], *[WIDTH] * (1 + DEPTH), 1]
        pairs = zip(sizes[:-1], sizes[1:], keys[3:], strict=True)
        self.dense = tuple(eqx.nn.Linear(*pair[:2], key=pair[2]) for pair in pairs)
        self.convolutions = tuple(convolutions)

    def __call__(self, images: Float[Array, "n height width 3"]) -> Float[Array, " n"]:
        def of_one(image: Any) -> Any:
            x = jnp.moveaxis(image, -1, 0).astype(self.dense[0].weight.dtype)
            for layer in self.convolutions:
                x = jax.nn.relu(layer(x))
            x = x.ravel()
            for layer in self.dense[:-1]:
                x = jax.nn.relu(layer(x))
            return self.dense[-1](x)[0]

        return jax.vmap(of_one)(images)
