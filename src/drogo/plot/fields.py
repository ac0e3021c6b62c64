"""A fit as a figure: over the map of a grid world, or over its observations; and certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from drogo.errors import counted
from drogo.plot.maps import heatmap
from drogo.plot.panels import (
    LINE,
    MINUS_INFINITY,
    History,
    Panel,
    Panels,
    colour_bar,
    finite_range,
    of_fit,
    scaled,
)

if TYPE_CHECKING:
    from drogo.learn.certify import Certificate
    from drogo.worlds.grid import GridWorld

MOST_POINTS = 10_000
MOST_POINTS_FOR_DIRECTIONS = 1000
WIDE = (11.0, 4.6)
VERDICTS = (
    ("within the tolerance", "#009e73", "o"),
    ("undecided", "#999999", "s"),
    ("off by more", "#d55e00", "X"),
)


def learned(
    world: GridWorld,
    truth: Float[np.ndarray, " states"] | None,
    v: Float[np.ndarray, "seeds states"],
    history: History,
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

    def draw(axes: Axes, panel: Panel) -> None:
        heatmap(world, axes=axes, numbers=False, **panel._asdict())

    height, width = (max(min(0.3 * cells, 6.0), 2.6) for cells in world.shape)
    size = (2 * width + 3.4, 2 * height + 2.6)
    return side_by_side(draw, of_fit(truth, v.mean(axis=0), history), title=title, size=size)


def side_by_side(
    draw: Callable[[Axes, Panel], object],
    shown: Panels,
    *,
    title: str,
    size: tuple[float, float] = (11.0, 9.0),
) -> Figure:
    """Draws one vector, or two and their difference, and the panel after them. `size` is that of
    the figure of two vectors, in inches."""
    panels, below = shown
    alone = len(panels) == 1
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=None if alone else 0.12)
    figure = Figure(figsize=WIDE if alone else size, layout=layout)
    *first, last = figure.subplots(1 if alone else 2, 2).ravel()
    for axes, panel in zip(first, scaled(panels), strict=True):
        draw(axes, panel)
    below(last)
    figure.suptitle(title)
    return figure


def draw_cloud(
    axes: Axes,
    panel: Panel,
    observations: Shaped[np.ndarray, "n ..."],
    names: tuple[str, str] | None = None,
) -> None:
    """Draws values at their observations, projected on two principal components, or at coordinates
    from `plane_of`, whose names are given. Values that are not finite are grey."""
    low, high = panel.limits or finite_range(panel.values)
    some = np.random.default_rng(0).permutation(len(observations))[:MOST_POINTS]
    values = panel.values[some]
    axes.set_title(panel.title)
    if observations[0].size == 1 or (names is not None and not names[1]):
        observations = observations.reshape(len(observations), -1)[:, :1]
        axes.plot(observations[some].ravel(), values, "o", color=LINE, markersize=4)
        margin = 0.05 * (high - low)
        axes.set(xlabel="observation", ylabel=panel.label, ylim=(low - margin, high + margin))
        axes.grid(alpha=0.3)
        return
    rows, names = plane_of(observations[some]) if names is None else (observations[some], names)
    axes.scatter(*rows[~np.isfinite(values)].T, c=MINUS_INFINITY, s=6, linewidths=0)
    shown = axes.scatter(*rows.T, c=values, cmap=panel.colours, vmin=low, vmax=high, s=6,
                         linewidths=0)  # fmt: skip
    colour_bar(axes, shown, panel.label)
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


def certificate(result: Certificate, *, title: str = "") -> Figure:
    """Draws where the values of all seeds hold, and each value beside its interval.

    Args:
        result: The certificate.
        title: The title of the figure.
    """
    places, names = plane_of(result.observations)
    figure = Figure(figsize=WIDE, layout=ConstrainedLayoutEngine(w_pad=0.12))
    left, right = figure.subplots(1, 2)
    verdict = np.where(result.refuted, 2, np.where(result.held, 0, 1))
    worst = verdict.max(axis=0)
    for k, (label, colour, mark) in enumerate(VERDICTS):
        at, those = worst == k, verdict == k
        left.scatter(*places[at].T, c=colour, marker=mark, s=45, label=f"{label} ({at.sum()})")
        claimed, estimate = result.claimed[those], result.estimate[those]
        interval = np.stack([estimate - result.low[those], result.high[those] - estimate])
        right.errorbar(
            claimed, np.where(np.isfinite(estimate), estimate, np.nan),
            np.where(np.isfinite(interval), np.maximum(interval, 0.0), 0.0),
            fmt=mark, color=colour, markersize=5, elinewidth=1,
        )  # fmt: skip
    low, high = float(result.claimed.min()), float(result.claimed.max())
    right.plot([low, high], [low, high], color="black", linewidth=1, zorder=0)
    left.set(
        title=f"worst of {counted(len(result.seeds), 'seed')}", xlabel=names[0], ylabel=names[1]
    )
    left.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)
    right.set(xlabel="learned value", ylabel="value by rollouts", title="every seed")
    right.grid(alpha=0.3)
    figure.suptitle(title)
    return figure
