"""Published numbers, and verdicts on ours in comparison."""

import tomllib
from importlib import resources
from typing import Any

import numpy as np

from drogo_paper.statistics import Interval

DISCOVERED = ("visited", "visited at the end", "reward")
"""The published numbers of option discovery."""
RETURNED = ("after 60 iterations", "at the end")
"""The published numbers of the best policy during option discovery."""


def published() -> dict[str, Any]:
    """Returns the content of the data file."""
    return tomllib.loads(resources.files("drogo_paper").joinpath("published.toml").read_text())


def shaping(quantity: str, world: str, method: str) -> Interval | None:
    """Returns a number of the shaping table in steps or visits, or None if the table has none."""
    table = published()["shaping"][quantity]
    return _interval(table.get(world, {}).get(method), table["unit"])


def transfer(method: str) -> Interval | None:
    """Returns the published total return of a method in the transfer experiment, or None."""
    return _interval(published()["transfer"]["cumulative_return"].get(method), 1)


def counts(world: str, method: str) -> float | None:
    """Returns the published mean return of a method in a world that never ends, or None."""
    table = published()["counts"]["mean_return"]
    mean = table[world].get(method)
    return None if mean is None else table["unit"] * mean


def options(world: str, method: str) -> dict[str, tuple[float, float]]:
    """Returns each published number of option discovery, and its reading error."""
    table = published()["options"]
    pairs = zip(table.get(world, {}).get(method, ()), table["error"], strict=False)
    return dict(zip(DISCOVERED, pairs, strict=False))


def option_returns(world: str, method: str) -> dict[str, tuple[float, float]]:
    """Returns the published returns of the best policy so far, and their reading errors."""
    table = published()["options-returns"]
    means = zip(RETURNED, table.get(world, {}).get(method, ()), strict=False)
    return {name: (mean, table["error"][world]) for name, mean in means if not np.isnan(mean)}


def _interval(entry: list[float] | None, unit: float) -> Interval | None:
    if entry is None:
        return None
    mean, below, above = (unit * number for number in entry)
    return Interval(mean, mean - below, mean + above)


def verdict_of_mean(ours: Interval, theirs: float, error: float = 0.0) -> str:
    """Compares a published mean, which has a reading error but no interval, with our interval."""
    if ours.low - error <= theirs <= ours.high + error:
        return "the published mean is inside"
    return f"{100 * (ours.mean - theirs) / theirs:+.0f} %, the published mean is outside"


def verdict(ours: Interval, theirs: Interval | None) -> str:
    """Compares our mean and interval with the published ones."""
    if theirs is None and not np.isfinite(ours.mean):
        return "no convergence in either"
    if theirs is None:
        return "converges here, not in the paper"
    if not np.isfinite(ours.mean):
        return "does not converge here"
    if theirs.low <= ours.mean <= theirs.high:
        return "inside the published interval"
    away = 100 * (ours.mean - theirs.mean) / theirs.mean
    overlap = "intervals overlap" if ours.overlaps(theirs) else "intervals apart"
    return f"{away:+.0f} %, {overlap}"
