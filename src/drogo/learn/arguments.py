"""What fits of all kinds are given: seeds, and objects of the user's own; and how they report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np
import optax

from drogo.config import CHOICES, CUSTOM, is_a
from drogo.errors import ArgumentError, Diverged
from drogo.learn.objectives import OBJECTIVES

Seeds = int | np.integer | Sequence[int] | np.ndarray
"""How many seeds, or which."""
MOST_SEEDS = 10**6


def own_parts(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits off what the user gave as objects, for which the configuration says "custom"."""
    named = dict(settings)
    own: dict[str, Any] = {}
    for name, choices in CHOICES.items():
        if settings.get(name) == CUSTOM:
            raise ArgumentError(f"{name} is 'custom'; choose one of {', '.join(choices)}.")
    for name in ("network", "optimiser", "objective"):
        if name in settings and not isinstance(settings[name], str):
            own[name] = settings[name]
            named[name] = CUSTOM
    if callable(settings.get("step_size")):
        own["schedule"] = settings["step_size"]
        named |= {"step_size": 1.0, "schedule": CUSTOM}
    optimiser = own.get("optimiser")
    if optimiser is not None:
        if not isinstance(optimiser, optax.GradientTransformation):
            raise ArgumentError(
                f"optimiser is a {type(optimiser).__name__}; give a name or an optax "
                "transformation such as optax.adamw(1e-3)."
            )
        if {"step_size", "schedule", "clip_norm"} & settings.keys():
            raise ArgumentError(
                "an optax optimiser of your own has its own step size, schedule and clipping: put "
                "them into it and leave out step_size, schedule and clip_norm."
            )
    if not callable(own.get("objective", print)):
        raise ArgumentError(
            f"objective is {own['objective']!r}; give a name ({', '.join(OBJECTIVES)}), a subclass "
            "of drogo.learn.AbstractObjective, or a function from Numbers to such an objective."
        )
    return own, named


def grid_points(
    grid: Mapping[str, Sequence[float]], swept: Sequence[str]
) -> list[tuple[float, ...]]:
    """Returns the points of a grid of settings.

    Args:
        grid: The values of each swept setting, by name.
        swept: The settings that may be swept.
    """
    unknown = set(grid) - set(swept)
    if unknown or not grid:
        raise ArgumentError(
            f"a sweep varies {', '.join(swept)}, not {', '.join(sorted(unknown)) or 'nothing'}."
        )
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
            raise ArgumentError(f"{name} is {values!r} in the grid; give a list of its values.")
        numbers = all(is_a(value, Real) for value in values)
        if not numbers or not len(values) or len(set(values)) < len(values):
            raise ArgumentError(
                f"{name} is {list(values)} in the grid; give at least one number, and none twice."
            )
    return [tuple(map(float, point)) for point in product(*grid.values())]


def seed_list(seeds: Any) -> list[int]:
    """Returns the seeds that an argument stands for."""
    listed: Sequence[Any] = ()
    if isinstance(seeds, Integral):
        listed = range(int(seeds)) if seeds <= MOST_SEEDS else ()
    elif isinstance(seeds, Iterable):
        listed = list(seeds)
    whole = all(is_a(seed, Integral) and 0 <= seed < 2**32 for seed in listed)
    if isinstance(seeds, bool) or not listed or not whole or len(set(listed)) < len(listed):
        raise ArgumentError(
            f"seeds is {seeds!r}; give how many (at most {MOST_SEEDS}), or distinct whole numbers "
            "from 0 to 2**32 - 1."
        )
    return [int(seed) for seed in listed]


def report_divergence(seeds: Sequence[int], diverged_at: Sequence[int | None], remedy: str) -> None:
    """Warns of seeds that diverged, and raises an error if all did.

    Args:
        seeds: The seeds.
        diverged_at: The update at which each diverged, or None.
        remedy: What to do about it.
    """
    lost = [seed for seed, at in zip(seeds, diverged_at, strict=True) if at is not None]
    if not lost:
        return
    if len(lost) == len(seeds):
        first = min(at for at in diverged_at if at is not None)
        raise Diverged(
            f"all {len(lost)} seed(s) diverged, the first at update {first}.", remedy=remedy
        )
    warnings.warn(
        f"{len(lost)} of {len(seeds)} seeds diverged ({lost}). Their rows of v are the last "
        f"finite ones and not the answer. {remedy}",
        RuntimeWarning,
        stacklevel=3,
    )
