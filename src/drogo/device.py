"""`to_device`: arrays of NumPy become arrays of JAX without anything being compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped


def to_device(array: Any, dtype: Any = None) -> Shaped[Array, ...]:
    """Returns a copy of an array on the device.

    `jnp.asarray` does the same, but compiles a program for every new shape, which takes longer than
    most copies and, with the small programs of a first fit, as long as many of these.

    Args:
        array: The array. One that is on the device already stays there.
        dtype: Its type there; by default its own, as far as JAX has it.
    """
    if isinstance(array, jax.Array):
        return jnp.asarray(array, dtype)
    return jax.device_put(np.asarray(array, dtype), may_alias=False)
