"""The outputs of trained networks for any pairs of observations."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from drogo.device import to_device
from drogo.learn.goals.networks import Pairs
from drogo.learn.learner import Learner

AT_ONCE = 4**7
"""How many pairs go through a network at a time."""


def pair_outputs(
    learner: Learner,
    params: Any,
    observations: np.ndarray,
    goals: np.ndarray,
    state: Int[np.ndarray, " n"],
    goal: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "lanes n ..."]:
    """Returns the scaled outputs of every lane for some pairs: v(s, g), or x(s, a, g) of every
    action.

    Args:
        learner: The learner.
        params: The parameters of every lane, stacked.
        observations: A table of observations.
        goals: A table of goals.
        state: The row of the observation of each pair.
        goal: The row of the goal of each pair.
    """
    tables = [_filled(np.asarray(learner.inputs(part))) for part in (observations, goals)]
    both = [to_device(part) for part in tables]
    parts = []
    for begin in range(0, state.size, AT_ONCE):
        rows = [part[begin : begin + AT_ONCE].astype(np.int32) for part in (state, goal)]
        out = _outputs(learner, params, *both, *map(jnp.asarray, map(_filled, rows)))
        parts.append(np.asarray(out, dtype=np.float64)[:, : rows[0].size])
    return np.concatenate(parts, axis=1)


def pair_values(learner: Learner, *arguments: Any) -> Float[np.ndarray, "lanes n"]:
    """Returns v(s, g) of every lane for some pairs; the arguments are those of `pair_outputs`."""
    outputs = pair_outputs(learner, *arguments)
    return np.logaddexp.reduce(outputs, axis=2) if learner.objective.per_action else outputs


def _filled(rows: np.ndarray) -> np.ndarray:
    """Repeats rows up to a power of four, so that few shapes are compiled."""
    size = 1 << 2 * (((len(rows) - 1).bit_length() + 1) // 2)
    return np.resize(rows, (size, *rows.shape[1:]))


@eqx.filter_jit
def _outputs(
    learner: Learner, params: Any, observations: Array, goals: Array, state: Array, goal: Array
) -> Array:
    def of_lane(lane: Any) -> Array:
        network = learner.network(lane)
        pairs = Pairs(network.features(observations), network.features(goals), state, goal)
        return learner.objective.numbers.scale * network.values(pairs)

    return jax.lax.map(of_lane, params)
