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
from drogo.plot.maps import MINUS_INFINITY, heatmap

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
    """Draws the truth, the mean of the learned vectors, its error and the learning curves.

    Args:
        world: The map.
        truth: The exact vector, or None if there is none: then only the mean is drawn, beside the
            largest violations of an equation.
        v: The learned vector of each seed.
        history: The history of the fit.
        title: The title of the figure.
    """
    height, width = (max(min(0.3 * cells, 6.0), 2.6) for cells in world.shape)
    size = (2 * width + 3.4, 2 * height + 2.6)
    draw = partial(heatmap, world, numbers=False)
    shown = panels.of_fit(truth, v.mean(axis=0), history)
    return side_by_side(draw, shown, title=title, size=size)


def side_by_side(
    draw: Callable[..., object],
    shown: panels.Panels,
    *,
    title: str,
    size: tuple[float, float] = (11.0, 9.0),
) -> Figure:
    """Draws vectors beside each other, with a function that draws one into a panel.

    Args:
        draw: Called with a vector and with `axes`, `title`, `label`, `colours` and `limits`.
        shown: One vector, or two and their difference, and the panel after them.
        title: The title of the figure.
        size: Width and height in inches, if there are two vectors.
    """
    rows, below = shown
    alone = len(rows) == 1
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=None if alone else 0.12)
    figure = Figure(figsize=WIDE if alone else size, layout=layout)
    *first, last = figure.subplots(1 if alone else 2, 2).ravel()
    for axes, row in zip(first, panels.options(rows, np.asarray), strict=True):
        draw(row.pop("values"), axes=axes, **row)
    below(last)
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
    limits: tuple[float, float],
    colours: str,
    label: str,
) -> None:
    """Draws a vector over a plane, whose `extent` and `aspect` are those of matplotlib."""
    axes.set_facecolor(panels.WALL)
    shown = axes.imshow(values, extent=extent, aspect=aspect, cmap=colours, clim=limits,
                        interpolation="nearest")  # fmt: skip
    panels.colour_bar(axes, shown, label)
    axes.set(xlabel=names[0], ylabel=names[1], title=title)


def draw_cloud(
    observations: Shaped[np.ndarray, "n ..."],
    values: Float[np.ndarray, " n"],
    *,
    axes: Axes,
    title: str,
    limits: tuple[float, float],
    colours: str,
    label: str,
    names: tuple[str, str] | None = None,
) -> None:
    """Draws values at their observations, projected on two principal components. Values that are
    not finite are grey.

    Args:
        observations: The observations, or the coordinates that `plane_of` returned.
        values: A value for each.
        axes: The panel.
        title: The title of the panel.
        limits: The range of the colour scale.
        colours: The colour map.
        label: The name of the values.
        names: The names of the coordinates, if coordinates are given.
    """
    low, high = limits
    some = np.random.default_rng(0).permutation(len(observations))[:MOST_POINTS]
    axes.set_title(title)
    if observations[0].size == 1 or (names is not None and not names[1]):
        observations = observations.reshape(len(observations), -1)[:, :1]
        axes.plot(observations[some].ravel(), values[some], "o", color=panels.LINE, markersize=4)
        margin = 0.05 * (high - low)
        axes.set(xlabel="observation", ylabel=label, ylim=(low - margin, high + margin))
        axes.grid(alpha=0.3)
        return
    rows, names = plane_of(observations[some]) if names is None else (observations[some], names)
    infinite = ~np.isfinite(values[some])
    axes.scatter(*rows[infinite].T, c=MINUS_INFINITY, s=6, linewidths=0)
    shown = axes.scatter(*rows.T, c=values[some], cmap=colours, vmin=low, vmax=high, s=6,
                         linewidths=0)  # fmt: skip
    panels.colour_bar(axes, shown, label)
    axes.set(xlabel=names[0], ylabel=names[1])


def plane_of(
    observations: Shaped[np.ndarray, "n ..."],
) -> tuple[Float[np.ndarray, "n 2"], tuple[str, str]]:
    """Returns two coordinates of each observation and their names: its numbers, or principal
    components."""
    rows = observations.reshape(len(observations), -1).astype(np.float64)
    if rows.shape[1] == 1:
        return np.column_stack([rows, np.zeros(len(rows))]), ("observation", "")
    if rows.shape[1] == 2:
        return rows, ("first number of the observation", "second number of the observation")
    rows = rows - rows.mean(axis=0)
    few = rows[:MOST_POINTS_FOR_DIRECTIONS]
    directions = np.zeros((2, rows.shape[1]))
    components = np.linalg.svd(few, full_matrices=False)[2][:2]
    directions[: len(components)] = components  # a single observation has one direction
    name = "principal component of the observations"
    return rows @ directions.T, (f"1st {name}", f"2nd {name}")
