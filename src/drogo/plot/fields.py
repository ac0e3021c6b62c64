"""A fit over a plane: the cells of any grid, or two continuous numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo.plot.learning import DIVERGING, LINE, curves
from drogo.plot.maps import COLOURS, WALL

MOST_POINTS = 10_000
SEEN_FROM = 1000
"""Observations from which the directions of a picture are taken."""


@dataclass(frozen=True)
class Plane:
    """Where a picture's pixels are. `extent` is matplotlib's: left, right, bottom, top."""

    extent: tuple[float, float, float, float]
    across: str
    up: str
    equal: bool = False
    """Square cells."""


def learned_field(
    plane: Plane,
    truth: Float[np.ndarray, "h w"] | None,
    mean: Float[np.ndarray, "h w"],
    history: Mapping[str, np.ndarray],
    *,
    seeds: int,
    title: str,
) -> Figure:
    """Like `learned`; without a truth, the map and how badly its equations are violated. NaN is
    where there is nothing."""
    name = _name(seeds)
    if truth is None:
        figure = Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _field(left, plane, mean, name)
        violation(right, history)
    else:
        figure = Figure(figsize=(11, 9), layout="constrained")
        (top_left, top_right), (left, right) = figure.subplots(2, 2)
        limits = float(np.nanmin([truth, mean])), float(np.nanmax([truth, mean]))
        _field(top_left, plane, truth, "exact column", limits=limits)
        _field(top_right, plane, mean, name, limits=limits)
        error = mean - truth
        most = max(float(np.nanmax(np.abs(error))), 1e-6)
        _field(left, plane, error, "learned - exact", limits=(-most, most), colours=DIVERGING,
               label="difference of logs")  # fmt: skip
        curves(right, history)
    figure.suptitle(title)
    return figure


def learned_cloud(
    observations: Shaped[np.ndarray, "n ..."],
    mean: Float[np.ndarray, " n"],
    history: Mapping[str, np.ndarray],
    *,
    seeds: int,
    title: str,
) -> Figure:
    """Where there is neither a map nor a truth: values where the data are, seen from the side on
    which they spread most, and how badly the equations are violated."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    some = np.random.default_rng(0).permutation(len(observations))[:MOST_POINTS]
    rows = observations[some].reshape(some.size, -1).astype(np.float64)
    left.set_title(_name(seeds))
    if rows.shape[1] == 1:
        left.plot(rows[:, 0], mean[some], "o", color=LINE, markersize=4)
        left.set_xlabel("observation")
        left.set_ylabel("log e")
        left.grid(alpha=0.3)
    else:
        at, labels = _from_the_side(rows)
        shown = left.scatter(*at.T, c=mean[some], cmap=COLOURS, s=6, linewidths=0)
        figure.colorbar(shown, ax=left, shrink=0.85, pad=0.02).set_label("log e")
        left.set_xlabel(labels[0])
        left.set_ylabel(labels[1])
    violation(right, history)
    figure.suptitle(title)
    return figure


def _name(seeds: int) -> str:
    return f"learned, mean of {seeds} seeds" if seeds > 1 else "learned"


def _from_the_side(
    rows: Float[np.ndarray, "n numbers"],
) -> tuple[Float[np.ndarray, "n 2"], tuple[str, str]]:
    """Two numbers as they are; more, along the two principal directions."""
    if rows.shape[1] == 2:
        return rows, ("observation, first number", "observation, second number")
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.svd(centred[:SEEN_FROM], full_matrices=False)[2][:2]
    name = "principal direction of the observations"
    return centred @ directions.T, (f"first {name}", f"second {name}")


def violation(axes: Axes, history: Mapping[str, np.ndarray]) -> None:
    """Where there is no truth: the largest violation of an equation, every seed of it."""
    worst = np.maximum(history["worst"], 1e-6)
    axes.plot(history["update"], worst, color=LINE, alpha=0.5, linewidth=1)
    axes.plot(history["update"], np.median(worst, axis=1), color="black", linewidth=2,
              label="median")  # fmt: skip
    if worst.shape[1] > 1:
        axes.plot([], [], color=LINE, alpha=0.5, label="each seed")
    axes.set_yscale("log")
    high = float(worst[np.isfinite(worst)].max(initial=1e-6))
    axes.set_ylim(bottom=min(float(worst.min()), high / 10) / 1.3)  # a decade at least
    axes.set_xlabel("updates")
    axes.set_ylabel("worst violation of an equation")
    axes.set_title("learning curves")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _field(
    axes: Axes,
    plane: Plane,
    values: Float[np.ndarray, "h w"],
    title: str,
    *,
    limits: tuple[float, float] | None = None,
    colours: str = COLOURS,
    label: str = "log e",
) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    low, high = limits or (None, None)
    axes.set_facecolor(WALL)
    aspect = "equal" if plane.equal else "auto"
    shown = axes.imshow(values, extent=plane.extent, aspect=aspect, cmap=colours, vmin=low,
                        vmax=high, interpolation="nearest")  # fmt: skip
    figure.colorbar(shown, ax=axes, shrink=0.85, pad=0.02).set_label(label)
    axes.set_xlabel(plane.across)
    axes.set_ylabel(plane.up)
    axes.set_title(title)
