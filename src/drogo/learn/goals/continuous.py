"""Worlds whose states do not repeat: DROGO on transitions whose goals are chosen afterwards."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from drogo.data import Transitions
from drogo.device import to_device
from drogo.errors import DataError
from drogo.learn.goals.batches import Device, Draw, Reached, Relabelled
from drogo.learn.goals.build import make_learner
from drogo.learn.goals.config import GoalConfig
from drogo.learn.goals.evaluate import pair_values
from drogo.learn.goals.train import CHUNK, Trained, train
from drogo.learn.inputs import Inputs, fit_inputs
from drogo.learn.numbers import STEPS_OF_A_SCALE, cap_from_data

MISSED = -20.0
"""The value of a goal that is missed for good, in units of the scale of outputs. It is minus
infinity, towards which a network falls without end, and its neighbours with it."""
KEPT = 100
"""The number of transitions whose ends a map keeps."""


def fit_continuous(
    data: Transitions,
    config: GoalConfig,
    seeds: list[int],
    reached: Reached | None,
    radius: float | None,
) -> tuple[dict[str, Any], list[Trained]]:
    """Returns what a `GoalMap` holds of such a world, and the outcome of each seed.

    Args:
        data: The transitions.
        config: The settings.
        seeds: The seeds.
        reached: Whether a goal is reached.
        radius: The distance at which it is reached, if there is no function that tells.
    """
    table = data.observations
    inputs = fit_inputs(table, normalise=True, by_pixel=True)
    seen = np.asarray(inputs(table))
    if reached is None:
        assert radius is not None
        reached = Within(inputs, radius)
    rng = np.random.default_rng(seeds[0])
    some = rng.permutation(len(data))[: max(1, config.most_goals // 2)]
    goals = np.unique(np.concatenate([data.state[some], data.next_state[some]]))
    scale = max(float(STEPS_OF_A_SCALE * -data.reward.mean() / config.lam), 1.0)
    numbers = {
        "lam": config.lam,
        "cap": cap_from_data(data, config.lam, True),
        "ceiling": 0.0,
        "scaling": 1.0,
        "scale": scale,
    }
    parts = (config, inputs, seen.shape[1:], numbers, data.n_actions)
    learner, first = make_learner(*parts, direct=False)
    device = Device(learner.skeleton.features(to_device(seen)), to_device(config.lam))
    sampler = Relabelled.of(data, goals, seen, reached, MISSED * scale, config)
    arriving = _arriving(sampler(seeds[0], 0, CHUNK))
    outcomes = [
        train(learner, first(seed), device, sampler, config, seed, lambda _: np.inf, 0.0)
        for seed in seeds
    ]
    kept, ends = np.unique(
        np.stack([data.state[some[:KEPT]], data.next_state[some[:KEPT]]], axis=1),
        return_inverse=True,
    )
    ends = ends.reshape(-1, 2)
    params = [outcome.state.params for outcome in outcomes]
    n, shown = kept.size, np.asarray(table[kept])
    goal, state = np.divmod(np.arange(n * n), n)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    v = pair_values(learner, stacked, shown, shown, state, goal)
    v[:, reached(shown[state], shown[goal]) | (state == goal)] = 0.0
    return {
        "v": v.reshape(-1, n, n),
        "learner": learner,
        "error": np.full(len(seeds), np.inf),
        "status": ["unverified"] * len(seeds),
        "goals": np.arange(n),
        "observations": shown,
        "terminal_states": np.flatnonzero(np.isin(kept, data.terminal_states)),
        "neighbours": ends[ends[:, 0] != ends[:, 1]],
        "model": None,
        "reached": reached,
        "radius": radius,
        "notes": [f"{arriving:.1%} of the steps that are learned from reach their goal."],
    }, outcomes


def _arriving(draw: Draw) -> float:
    """Returns the share of steps that reach their goal, which is all that holds a map in place.

    Args:
        draw: What some updates see.
    """
    begun = draw.weight > 0
    if not begun.any():
        raise DataError(
            f"all of {begun.size:,} steps began in the goal that was drawn for them, so there is "
            "nothing to learn.",
            remedy="Give a smaller radius, or a function reached that is stricter.",
        )
    share = float((draw.known & (draw.value == 0) & begun).sum() / begun.sum())
    if not share:
        raise DataError(
            f"none of {int(begun.sum()):,} steps reached the goal that was drawn for it, and "
            "nothing else holds the values of a map in place.",
            remedy="Give a larger radius, which is a distance between normalised observations, or "
            "a function reached that is less strict.",
        )
    return share


class Within:
    """Whether an observation is within some distance of a goal, both being normalised."""

    def __init__(self, inputs: Inputs, radius: float) -> None:
        self.inputs, self.radius = inputs, radius

    def __call__(self, observations: np.ndarray, goals: np.ndarray) -> Bool[np.ndarray, " n"]:
        apart = np.asarray(self.inputs(observations)) - np.asarray(self.inputs(goals))
        return np.linalg.norm(apart.reshape(len(apart), -1), axis=1) <= self.radius
