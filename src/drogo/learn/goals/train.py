"""Trains a network of pairs, one seed after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from drogo.device import to_device
from drogo.learn.goals.batches import Device, Draw, Sampler
from drogo.learn.goals.config import GoalConfig
from drogo.learn.learner import Learner, State

CHUNK = 100
"""Updates of one compiled call."""
LOGGED = 10
"""How often errors are computed."""


class Trained(NamedTuple):
    """The outcome of one seed."""

    state: State
    history: dict[str, np.ndarray]
    """`update`, and the mean `loss` and the `error` there."""


def train(
    learner: Learner,
    params: Any,
    device: Device,
    sampler: Sampler,
    config: GoalConfig,
    seed: int,
    error: Callable[[Any], float],
    enough: float,
) -> Trained:
    """Trains one seed, until the last update or until it is accurate.

    Args:
        learner: The learner.
        params: Its first parameters.
        device: What batches are put together from.
        sampler: Draws the batches.
        config: The settings.
        seed: The seed of the draws.
        error: Computes the largest error of some parameters.
        enough: The error at which training stops.
    """
    state = learner.init(params)
    every = -(-config.updates // (LOGGED * CHUNK)) * CHUNK
    rows: list[tuple[int, float, float]] = []
    losses: list[float] = []
    for first in range(0, config.updates, CHUNK):
        count = min(CHUNK, config.updates - first)
        turn = np.pi * np.arange(first, first + count) / config.updates
        step_sizes = to_device(config.step_size * (1 + np.cos(turn)) / 2, jnp.float32)
        draws = jax.tree.map(jnp.asarray, sampler(seed, first, count))
        state, loss = _run(learner, state, device, draws, step_sizes)
        losses.append(float(loss))
        done = first + count
        if done % every == 0 or done == config.updates:
            rows.append((done, float(np.mean(losses)), error(state.params)))
            losses = []
            if rows[-1][2] <= enough or int(state.diverged_at) >= 0:
                break
    columns = zip(*rows, strict=True)
    names = ("update", "loss", "error")
    return Trained(state, {n: np.array(c) for n, c in zip(names, columns, strict=True)})


@eqx.filter_jit
def _run(
    learner: Learner,
    state: State,
    device: Device,
    draws: Draw,
    step_sizes: Float[Array, " updates"],
) -> tuple[State, Float[Array, ""]]:
    """Makes one update for each draw."""

    def update(state: State, packed: tuple[Draw, Array]) -> tuple[State, Array]:
        draw, step_size = packed
        return learner.step(state, device.batch(draw), step_size)

    state, losses = jax.lax.scan(update, state, (draws, step_sizes))
    return state, losses.mean()
