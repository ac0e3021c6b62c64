"""`to_device`: arrays of NumPy become arrays of JAX without anything being compiled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped


def to_device(array: Any, dtype: Any = None) -> Shaped[Array, "..."]:
    """Returns a copy of an array on the device, where an array that is there already stays:
    `jnp.asarray` compiles a program for every new shape, which takes longer than most copies."""
    if isinstance(array, jax.Array):
        return jnp.asarray(array, dtype)
    return jax.device_put(np.asarray(array, dtype), may_alias=False)
