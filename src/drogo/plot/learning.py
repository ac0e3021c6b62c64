"""Pictures of a fit: what was learned, beside the truth, and how it came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from drogo.plot.maps import heatmap

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

DIVERGING = "RdBu"
LINE = "#0072b2"


def learned(
    world: GridWorld,
    truth: Float[np.ndarray, " states"],
    v: Float[np.ndarray, "seeds states"],
    history: Mapping[str, np.ndarray],
    *,
    title: str,
) -> Figure:
    """Truth, the mean of what the seeds learned, its error, and every seed's learning curve."""
    height, width = world.shape
    panel = max(min(0.3 * width, 6.0) + 1.6, 4.6), max(min(0.3 * height, 6.0) + 1.2, 3.8)
    figure = Figure(figsize=(2 * panel[0], 2 * panel[1]))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)
    (top_left, top_right), (bottom_left, bottom_right) = figure.subplots(2, 2)
    mean = v.mean(axis=0)
    limits = (float(min(truth.min(), mean.min())), float(max(truth.max(), mean.max())))
    heatmap(world, truth, title="exact column", axes=top_left, limits=limits, numbers=False)
    name = f"learned, mean of {len(v)} seeds" if len(v) > 1 else "learned"
    heatmap(world, mean, title=name, axes=top_right, limits=limits, numbers=False)
    error = mean - truth
    most = max(float(np.abs(error).max()), 1e-6)
    heatmap(
        world,
        error,
        title="learned - exact",
        label="difference of logs",
        axes=bottom_left,
        colours=DIVERGING,
        limits=(-most, most),
        numbers=False,
    )
    curves(bottom_right, history)
    figure.suptitle(title)
    return figure


def curves(axes: Axes, history: Mapping[str, np.ndarray], name: str = "column") -> None:
    """Distance from a perfect cosine, every seed of it: an average would hide one that failed."""
    gap = np.maximum(1 - history[f"cosine_{name}"], 1e-8)
    axes.plot(history["update"], gap, color=LINE, alpha=0.5, linewidth=1)
    axes.plot(history["update"], np.median(gap, axis=1), color="black", linewidth=2, label="median")
    axes.plot([], [], color=LINE, alpha=0.5, label="each seed")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("updates")
    axes.set_ylabel(f"1 - cosine with the exact {name}")
    axes.set_title("learning curves")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
