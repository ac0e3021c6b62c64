"""`Optimiser`: the optimiser of a fit and the schedule of its step size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np
import optax
from jaxtyping import Float

from drogo.errors import ArgumentTypeError, check_choice, check_positive
from drogo.learn.settings import Swept, check_fields

BLOCK = 1024
"""The number of step sizes that are computed at once. Longer fits then compile nothing."""


@dataclass(frozen=True)
class Optimiser:
    """An optimiser of optax with its defaults, clipping, and a schedule of the step size."""

    name: str = "adam"
    """Either "adam" or "rmsprop"."""
    step_size: Swept = 1e-3
    """The step size before the schedule."""
    schedule: str = "cosine"
    """Either "constant", or "cosine", which ends at 0."""
    clip_norm: float = 0.5
    """The largest global norm of a gradient. Larger gradients are scaled down to it."""

    is_setting: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("name", self.name, ("adam", "rmsprop"))
        check_choice("schedule", self.schedule, ("constant", "cosine"))
        check_fields(self, step_size=check_positive, clip_norm=check_positive)

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """Returns the transformation, which takes the step size as an argument of every update."""
        return _transformation(self.name, self.clip_norm)

    def step_sizes(self, updates: int) -> Float[np.ndarray, " updates"]:
        """Returns the factor of the step size at every update.

        Args:
            updates: The number of updates.
        """
        if self.schedule == "constant":
            return np.ones(updates)
        return _evaluated(optax.cosine_decay_schedule(1.0, updates), updates)


@dataclass(frozen=True)
class CustomOptimiser:
    """An optax transformation of the user's own, with its own step size and clipping."""

    given: optax.GradientTransformation
    step_size: ClassVar[float] = 1.0

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """Returns the transformation."""
        return optax.with_extra_args_support(self.given)

    def step_sizes(self, updates: int) -> Float[np.ndarray, " updates"]:
        """Returns ones: the transformation has its own step size."""
        return np.ones(updates)


AnyOptimiser = Optimiser | CustomOptimiser


def as_optimiser(given: Any) -> AnyOptimiser:
    """Returns an argument of the user as an optimiser."""
    if isinstance(given, AnyOptimiser):
        return given
    if isinstance(given, optax.GradientTransformation):
        return CustomOptimiser(given)
    raise ArgumentTypeError(
        f"optimiser is a {type(given).__name__}; give drogo.learn.Optimiser(step_size=1e-3), or an "
        "optax transformation such as optax.adamw(1e-3).",
        argument="optimiser",
    )


def _evaluated(schedule: optax.Schedule, updates: int) -> Float[np.ndarray, " updates"]:
    blocks = [np.arange(k, k + BLOCK) for k in range(0, updates, BLOCK)]
    with jax.numpy_dtype_promotion("standard"):  # optax mixes types
        factors = [jax.vmap(schedule)(block) for block in blocks]
    return np.concatenate(factors)[:updates]


@lru_cache
def _transformation(name: str, clip_norm: float) -> optax.GradientTransformationExtraArgs:
    """Returns the same object every time, so that a second fit compiles nothing."""
    scale = {"adam": optax.scale_by_adam, "rmsprop": optax.scale_by_rms}[name]
    return optax.chain(optax.clip_by_global_norm(clip_norm), scale(), _scale_by_step_size())


def _scale_by_step_size() -> optax.GradientTransformationExtraArgs:
    """Multiplies updates by minus a step size that is an argument of every update.

    A schedule then has no place in the compiled program, and seeds with different step sizes share
    one program.
    """

    def update(
        updates: optax.Updates,
        state: optax.OptState,
        params: optax.Params | None = None,
        *,
        step_size: Any = None,
        **extra: Any,
    ) -> tuple[optax.Updates, optax.OptState]:
        return jax.tree.map(lambda change: -step_size * change, updates), state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)
