"""A fit as a figure: over the map of a grid world, over a plane, or over its observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo.plot.maps import heatmap
from drogo.plot.panels import (
    COLOURS,
    DIVERGING,
    LINE,
    WALL,
    colour_bar,
    curves,
    finite_range,
    violation,
)

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

MOST_POINTS = 10_000
MOST_POINTS_FOR_DIRECTIONS = 1000
WIDE = (11.0, 4.6)


@dataclass(frozen=True)
class Plane:
    """Where the pixels of a picture lie: the extent of matplotlib, and the names of both axes."""

    extent: tuple[float, float, float, float]
    across: str
    up: str
    equal: bool = False
    """Whether pixels are square."""


def learned(
    world: GridWorld,
    truth: Float[np.ndarray, " states"],
    v: Float[np.ndarray, "seeds states"],
    history: Mapping[str, np.ndarray],
    *,
    title: str,
) -> Figure:
    """Draws the truth, the mean of what the seeds learned, its error and the learning curves.

    Args:
        world: The map.
        truth: The exact vector.
        v: The learned vector of each seed.
        history: The history of the fit.
        title: The title of the figure.

    Returns:
        The figure.
    """
    height, width = (max(min(0.3 * cells, 6.0), 2.6) for cells in world.shape)
    figure = Figure(figsize=(2 * width + 3.4, 2 * height + 2.6))
    draw = partial(heatmap, world, numbers=False)
    return _compared(figure, draw, truth, v.mean(axis=0), history, len(v), title)


def learned_field(
    plane: Plane,
    truth: Float[np.ndarray, "h w"] | None,
    mean: Float[np.ndarray, "h w"],
    history: Mapping[str, np.ndarray],
    *,
    seeds: int,
    title: str,
) -> Figure:
    """Draws what `learned` draws, over a plane; without a truth, only the mean and the curves."""
    draw = partial(_field, plane)
    if truth is not None:
        return _compared(Figure(figsize=(11, 9)), draw, truth, mean, history, seeds, title)
    figure, axes = _beside_violations(history, title)
    draw(mean, axes=axes, title=_name(seeds))
    return figure


def learned_cloud(
    observations: Shaped[np.ndarray, "n ..."],
    mean: Float[np.ndarray, " n"],
    history: Mapping[str, np.ndarray],
    *,
    seeds: int,
    title: str,
) -> Figure:
    """Draws learned values where the observations are, from the side on which they spread most."""
    figure, axes = _beside_violations(history, title)
    some = np.random.default_rng(0).permutation(len(observations))[:MOST_POINTS]
    rows = observations[some].reshape(some.size, -1).astype(np.float64)
    axes.set_title(_name(seeds))
    if rows.shape[1] == 1:
        axes.plot(rows[:, 0], mean[some], "o", color=LINE, markersize=4)
        axes.set(xlabel="observation", ylabel="log e")
        axes.grid(alpha=0.3)
        return figure
    names = [f"{rank} number of the observation" for rank in ("first", "second")]
    if rows.shape[1] > 2:
        rows = rows - rows.mean(axis=0)
        few = rows[:MOST_POINTS_FOR_DIRECTIONS]
        rows = rows @ np.linalg.svd(few, full_matrices=False)[2][:2].T
        names = [f"{rank} principal component of the observations" for rank in ("1st", "2nd")]
    shown = axes.scatter(*rows.T, c=mean[some], cmap=COLOURS, s=6, linewidths=0)
    colour_bar(axes, shown, "log e")
    axes.set(xlabel=names[0], ylabel=names[1])
    return figure


def _compared(
    figure: Figure,
    draw: Callable[..., object],
    truth: np.ndarray,
    mean: np.ndarray,
    history: Mapping[str, np.ndarray],
    seeds: int,
    title: str,
) -> Figure:
    """Truth, mean and error as `draw` draws them, and learning curves."""
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)
    (top_left, top_right), (left, right) = figure.subplots(2, 2)
    limits = finite_range(truth, mean)
    draw(truth, axes=top_left, title="exact column", limits=limits)
    draw(mean, axes=top_right, title=_name(seeds), limits=limits)
    with np.errstate(invalid="ignore"):
        error = mean - truth
    most = max(1e-6, *np.abs(finite_range(error)))
    draw(error, axes=left, title="learned - exact", label="difference of logs", colours=DIVERGING,
         limits=(-most, most))  # fmt: skip
    curves(right, history)
    figure.suptitle(title)
    return figure


def _beside_violations(history: Mapping[str, np.ndarray], title: str) -> tuple[Figure, Axes]:
    """A figure whose right panel shows learning curves, and its left panel."""
    figure = Figure(figsize=WIDE)
    figure.set_layout_engine("constrained", w_pad=0.12)
    left, right = figure.subplots(1, 2)
    violation(right, history)
    figure.suptitle(title)
    return figure, left


def _name(seeds: int) -> str:
    return f"learned, mean of {seeds} seeds" if seeds > 1 else "learned"


def _field(
    plane: Plane,
    values: Float[np.ndarray, "h w"],
    *,
    axes: Axes,
    title: str,
    limits: tuple[float, float] | None = None,
    colours: str = COLOURS,
    label: str = "log e",
) -> None:
    low, high = limits or finite_range(values)
    axes.set_facecolor(WALL)
    aspect = "equal" if plane.equal else "auto"
    shown = axes.imshow(values, extent=plane.extent, aspect=aspect, cmap=colours, vmin=low,
                        vmax=high, interpolation="nearest")  # fmt: skip
    colour_bar(axes, shown, label)
    axes.set(xlabel=plane.across, ylabel=plane.up, title=title)
