"""What trained networks say of observations, for a bounded number of observations at a time."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from drogo.data import Transitions
from drogo.data.table import read_rows
from drogo.learn.learner import Learner

NUMBERS_AT_ONCE, MOST_AT_ONCE, FEW = 2**22, 4096, 64


@eqx.filter_jit
def _outputs(learner: Learner, params: PyTree[Array], prepared: Array) -> Array:
    numbers = learner.inputs.finish(prepared)
    return jax.lax.map(lambda lane: learner.network(lane)(numbers), params)


def outputs(
    learner: Learner, params: PyTree[Array], observations: Shaped[np.ndarray, "n ..."]
) -> Float[np.ndarray, "lanes n"]:
    """Returns the outputs of every lane at some observations.

    Each shape is compiled once, so the pieces are filled up to few different sizes.

    Args:
        learner: The learner.
        params: The parameters of every lane, stacked.
        observations: Any number of observations.
    """
    row = max(1, math.prod(observations.shape[1:]))
    size = int(np.clip(NUMBERS_AT_ONCE // row, FEW, MOST_AT_ONCE))
    parts = []
    for begin in range(0, len(observations), size):
        shown = learner.inputs.prepare(np.asarray(observations[begin : begin + size]))
        missing = size - len(shown) if begin else 0
        if len(observations) <= FEW:
            missing = (1 << (len(shown) - 1).bit_length()) - len(shown)
        if missing:
            shown = np.concatenate([shown, np.repeat(shown[-1:], missing, axis=0)])
        out = np.asarray(_outputs(learner, params, jnp.asarray(shown)), dtype=np.float64)
        parts.append(out[:, : out.shape[1] - missing])
    return np.concatenate(parts, axis=1)


def outputs_at(
    learner: Learner, params: PyTree[Array], data: Transitions, which: np.ndarray
) -> Float[np.ndarray, "lanes n"]:
    """Returns the outputs of every lane at some rows of the table of observations.

    Args:
        learner: The learner.
        params: The parameters of every lane, stacked.
        data: The transitions whose table it is.
        which: The rows.
    """
    table = data.observations
    whole = which.size == len(table) and np.array_equal(which, np.arange(which.size))
    return outputs(learner, params, table if whole else read_rows(table, which))
