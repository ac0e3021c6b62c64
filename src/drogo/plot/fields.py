"""A fit over a plane: the cells of any grid, or two continuous numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo.plot.learning import DIVERGING, LINE, curves
from drogo.plot.maps import COLOURS, WALL


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
    name = f"learned, mean of {seeds} seeds" if seeds > 1 else "learned"
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


def violation(axes: Axes, history: Mapping[str, np.ndarray]) -> None:
    """Where there is no truth: the largest violation of an equation, every seed of it."""
    worst = np.maximum(history["worst"], 1e-6)
    axes.plot(history["update"], worst, color=LINE, alpha=0.5, linewidth=1)
    axes.plot(history["update"], np.median(worst, axis=1), color="black", linewidth=2,
              label="median")  # fmt: skip
    axes.plot([], [], color=LINE, alpha=0.5, label="each seed")
    axes.set_yscale("log")
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
