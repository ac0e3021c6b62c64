"""Vectors over the map of a grid world, or over the states of any MDP."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from drogo.plot.panels import COLOURS, LINE, WALL, colour_bar, figure_of, finite_range

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

MINUS_INFINITY = "#d9d9d9"
LOW_REWARD = "#d55e00"
LARGEST_WITH_NUMBERS = 22
"""The largest height or width, in cells, of a map whose cells show their values."""
CELL_INCHES = 0.46


def heatmap(
    world: GridWorld,
    values: Float[np.ndarray, " states"],
    *,
    title: str = "",
    label: str = "log e",
    axes: Axes | None = None,
    colours: str = COLOURS,
    limits: tuple[float, float] | None = None,
    numbers: bool = True,
) -> Figure:
    """Draws a vector over a map, with start and goals lettered and low-reward cells framed.

    Args:
        world: The map.
        values: One value per state. Where it is not finite, the cell is grey.
        title: The title of the panel.
        label: The name of the values.
        axes: The panel, or None for a new figure.
        colours: The colour map.
        limits: The range of the colour scale, by default that of the values.
        numbers: Whether cells show their values, if the map is small enough.
    """
    height, width = world.shape
    if axes is None:
        inches = min(CELL_INCHES, 9.0 / max(width, height))
        size = max(4.2, 1.05 * width * inches + 2.0), max(2.6, height * inches + 1.1)
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.1)
        axes = Figure(figsize=size, layout=layout).add_subplot()
    scale = Normalize(*(limits or finite_range(values)))
    axes.imshow(world.walls, cmap=ListedColormap([MINUS_INFINITY, WALL]), interpolation="nearest")
    image = world.as_image(np.where(np.isfinite(values), values, np.nan))
    shown = axes.imshow(image, cmap=colours, norm=scale, interpolation="nearest")
    colour_bar(axes, shown, label)
    if world.low_reward.any():
        frame_low_reward(axes, world)
    numbers = numbers and max(height, width) <= LARGEST_WITH_NUMBERS
    if numbers:
        _write_values(axes, world, values, scale)
    letter(axes, world, above=0.18 if numbers else 0.0)
    legend = ["G: goal", "S: start"] if world.has_start else ["G: goal"]
    legend += ["orange: low reward"] if world.low_reward.any() else []
    axes.set(xlabel=f"column\n({', '.join(legend)})", ylabel="row", title=title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return figure_of(axes)


def profile(
    values: Float[np.ndarray, " states"], *, title: str = "", label: str = "log e"
) -> Figure:
    """Draws a vector over the states of an MDP that has no map.

    Args:
        values: One value per state. Where it is not finite, nothing is drawn.
        title: The title of the figure.
        label: The name of the values.
    """
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    size = 4 if values.size <= 200 else 1.5
    axes.plot(np.where(np.isfinite(values), values, np.nan), "o", color=LINE, markersize=size)
    axes.set(xlabel="state, in the order of mdp.states", ylabel=label, title=title)
    axes.grid(alpha=0.3)
    return figure


def frame_low_reward(axes: Axes, world: GridWorld) -> None:
    """Draws a line around each area of low reward, orange on white to stand out from any colour."""
    low = np.zeros(world.shape, dtype=bool)
    low[tuple(world.cells[world.low_reward].T)] = True
    row, column = np.nonzero(low[1:] != low[:-1])
    across = [((x - 0.5, y + 0.5), (x + 0.5, y + 0.5)) for y, x in zip(row, column, strict=True)]
    row, column = np.nonzero(low[:, 1:] != low[:, :-1])
    up = [((x + 0.5, y - 0.5), (x + 0.5, y + 0.5)) for y, x in zip(row, column, strict=True)]
    width = float(np.clip(66 / max(world.shape), 1.0, 2.2))
    for colour, share in (("white", 1.8), (LOW_REWARD, 1.0)):
        lines = LineCollection(across + up, colors=colour, linewidths=share * width)
        lines.set_capstyle("projecting")
        axes.add_collection(lines)


def letter(axes: Axes, world: GridWorld, above: float = 0.0) -> None:
    """Writes G into the goals and S into the starts of a map."""
    starts = world.has_start & (world.start > 0)
    box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "linewidth": 0.6}
    for text, states in (("G", world.terminal), ("S", starts)):
        for row, column in world.cells[states]:
            axes.text(column, row - above, text, ha="center", va="center", fontsize=8,
                      fontweight="bold", bbox=box)  # fmt: skip


def _write_values(axes: Axes, world: GridWorld, values: np.ndarray, scale: Normalize) -> None:
    """Writes the value of each cell, below its letter if it has one."""
    low, high = finite_range(values)
    largest, digits = max(abs(low), abs(high)), 1 - math.floor(math.log10(high - low))
    form = f".{max(digits, 1)}f" if largest < 100 else ".0f"
    if largest >= 1e5 or digits > 3:
        form = ".0e"
    lettered = world.terminal | (world.has_start & (world.start > 0))
    for (row, column), value, lower in zip(world.cells, values, lettered, strict=True):
        text = f"{value:{form}}" if np.isfinite(value) else "-inf"
        dark = np.isfinite(value) and scale(value) < 0.6
        axes.text(column, row + (0.2 if lower else 0.0), text, ha="center", va="center",
                  fontsize=6.5, color="white" if dark else "black")  # fmt: skip
