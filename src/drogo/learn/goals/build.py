"""Builds the learner of a map to every goal, and the first parameters of each seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from drogo.learn.goals.config import GoalConfig
from drogo.learn.goals.networks import AbstractPairNetwork, PairMLP, Quasimetric
from drogo.learn.inputs import Inputs
from drogo.learn.learner import Learner
from drogo.learn.objectives import ActionValues, Drogo, Numbers
from drogo.learn.prepare import make_optimiser

ANCHOR_CAP = 6.0
"""Exponents of pairs that reach their goal are capped here, which is right as long as a goal next
to a state is reached in one of exp(6) = 400 steps. A single map has few such pairs and a higher
cap; here a few that are far too low would outweigh all others."""


class GoalDrogo(Drogo):
    """`Drogo` for pairs of a state and a goal."""

    anchor_cap: ClassVar[float] = ANCHOR_CAP


class GoalActionValues(ActionValues):
    """`ActionValues` for pairs of a state and a goal."""

    anchor_cap: ClassVar[float] = ANCHOR_CAP


def make_learner(
    config: GoalConfig,
    inputs: Inputs,
    shape: tuple[int, ...],
    numbers: Mapping[str, Any],
    n_actions: int | None,
    *,
    direct: bool,
) -> tuple[Learner, Callable[[int], Any]]:
    """Returns the learner, and a function from a seed to its first parameters.

    Args:
        config: The settings.
        inputs: How observations are turned into numbers.
        shape: The shape of these numbers for one observation.
        numbers: The numbers of the objective, by name.
        n_actions: The number of actions, if they are discrete and known.
        direct: Whether values are known.
    """
    size = math.prod(shape)

    def network(key: PRNGKeyArray) -> AbstractPairNetwork:
        layers = (size, config.frequencies, key, config.width, config.depth)
        if config.network == "quasimetric":
            return Quasimetric(*layers, config.components, config.length)
        outputs = n_actions if config.objective == "q" else None
        return PairMLP(*layers, "scalar" if outputs is None else outputs, negative=not direct)

    kind = GoalActionValues if config.objective == "q" else GoalDrogo
    objective = kind(Numbers(**{name: jnp.asarray(number) for name, number in numbers.items()}))
    learner = Learner(
        objective,
        network(jax.random.key(0)),
        make_optimiser("adam", config.clip_norm),
        inputs=inputs,
        target_rate=1.0 if direct else config.target_rate,
        direct=direct,
    )

    def first(seed: int) -> Any:
        return eqx.filter(network(jax.random.key(seed)), eqx.is_inexact_array)

    return learner, first
