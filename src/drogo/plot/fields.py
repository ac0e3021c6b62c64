"""A fit as a figure: over the map of a grid world, over a plane, or over its observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from drogo.plot import panels
from drogo.plot.maps import heatmap

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

MOST_POINTS = 10_000
MOST_POINTS_FOR_DIRECTIONS = 1000
WIDE = (11.0, 4.6)


def learned(
    world: GridWorld,
    truth: Float[np.ndarray, " states"] | None,
    v: Float[np.ndarray, "seeds states"],
    history: Mapping[str, np.ndarray],
    *,
    title: str,
) -> Figure:
    """Draws the truth, the mean of what the seeds learned, its error and the learning curves.

    Args:
        world: The map.
        truth: The exact vector, or None if it is not known: then only the mean is drawn, beside the
            largest violations of an equation.
        v: The learned vector of each seed.
        history: The history of the fit.
        title: The title of the figure.

    Returns:
        The figure.
    """
    height, width = (max(min(0.3 * cells, 6.0), 2.6) for cells in world.shape)
    size = (2 * width + 3.4, 2 * height + 2.6)
    draw = partial(heatmap, world, numbers=False)
    return learned_by(draw, truth, v.mean(axis=0), history, title=title, size=size)


def learned_by(
    draw: Callable[..., object],
    truth: np.ndarray | None,
    mean: np.ndarray,
    history: Mapping[str, np.ndarray],
    *,
    title: str,
    size: tuple[float, float] = (11.0, 9.0),
) -> Figure:
    """Draws what `learned` draws, with a function that draws a vector into a panel.

    Args:
        draw: Called with a vector, `axes` and `title`; if there is a truth, also with `limits`,
            and with `colours` and `label` for the error.
        truth: The exact vector, or None.
        mean: The mean of what the seeds learned.
        history: The history of the fit.
        title: The title of the figure.
        size: Width and height in inches, if there is a truth.

    Returns:
        The figure.
    """
    name = panels.name_of_mean(history)
    if truth is None:
        figure = Figure(figsize=WIDE, layout=ConstrainedLayoutEngine(w_pad=0.12))
        left, right = figure.subplots(1, 2)
        draw(mean, axes=left, title=name)
        panels.violations(right, history)
    else:
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
        (top_left, top_right), (left, right) = figure.subplots(2, 2)
        limits = panels.finite_range(truth, mean)
        draw(truth, axes=top_left, title="exact column", limits=limits)
        draw(mean, axes=top_right, title=name, limits=limits)
        with np.errstate(invalid="ignore"):
            error = mean - truth
        most = max(1e-6, *np.abs(panels.finite_range(error)))
        draw(error, axes=left, title="learned - exact", label="difference of logs",
             colours=panels.DIVERGING, limits=(-most, most))  # fmt: skip
        panels.curves(right, history)
    figure.suptitle(title)
    return figure


def draw_image(
    values: Float[np.ndarray, "h w"],
    *,
    axes: Axes,
    title: str,
    extent: tuple[float, float, float, float],
    names: tuple[str, str],
    aspect: Literal["auto", "equal"] = "auto",
    limits: tuple[float, float] | None = None,
    colours: str = panels.COLOURS,
    label: str = "log e",
) -> None:
    """Draws a vector over a plane, whose `extent` and `aspect` are those of matplotlib."""
    low, high = limits or panels.finite_range(values)
    axes.set_facecolor(panels.WALL)
    shown = axes.imshow(values, extent=extent, aspect=aspect, cmap=colours, vmin=low, vmax=high,
                        interpolation="nearest")  # fmt: skip
    panels.colour_bar(axes, shown, label)
    axes.set(xlabel=names[0], ylabel=names[1], title=title)


def draw_cloud(
    observations: Shaped[np.ndarray, "n ..."],
    values: Float[np.ndarray, " n"],
    *,
    axes: Axes,
    title: str,
    limits: tuple[float, float] | None = None,
    colours: str = panels.COLOURS,
    label: str = "log e",
) -> None:
    """Draws values where the observations are, from the side on which they spread most."""
    low, high = limits or panels.finite_range(values)
    some = np.random.default_rng(0).permutation(len(observations))[:MOST_POINTS]
    axes.set_title(title)
    if observations[0].size == 1:
        axes.plot(observations[some].ravel(), values[some], "o", color=panels.LINE, markersize=4)
        margin = 0.05 * (high - low)
        axes.set(xlabel="observation", ylabel=label, ylim=(low - margin, high + margin))
        axes.grid(alpha=0.3)
        return
    rows, names = plane_of(observations[some])
    shown = axes.scatter(*rows.T, c=values[some], cmap=colours, vmin=low, vmax=high, s=6,
                         linewidths=0)  # fmt: skip
    panels.colour_bar(axes, shown, label)
    axes.set(xlabel=names[0], ylabel=names[1])


def plane_of(
    observations: Shaped[np.ndarray, "n ..."],
) -> tuple[Float[np.ndarray, "n 2"], tuple[str, str]]:
    """Returns two coordinates of each observation, from the side on which they spread most.

    Args:
        observations: The observations.

    Returns:
        The coordinates, and what they are.
    """
    rows = observations.reshape(len(observations), -1).astype(np.float64)
    if rows.shape[1] == 1:
        return np.column_stack([rows, np.zeros(len(rows))]), ("observation", "")
    if rows.shape[1] == 2:
        return rows, ("first number of the observation", "second number of the observation")
    rows = rows - rows.mean(axis=0)
    few = rows[:MOST_POINTS_FOR_DIRECTIONS]
    directions = np.linalg.svd(few, full_matrices=False)[2][:2]
    name = "principal component of the observations"
    return rows @ directions.T, (f"1st {name}", f"2nd {name}")
