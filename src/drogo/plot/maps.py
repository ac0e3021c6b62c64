"""Pictures: vectors over a grid world, or over the states of any MDP.

Walls are dark, low-reward cells framed in orange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

COLOURS = "viridis"
WALL = "#3a3a3a"
MINUS_INFINITY = "#d9d9d9"
OUTLINE = "#d55e00"
"""Low-reward cells."""
LARGEST_WITH_NUMBERS = 22
"""Cells a side up to which every cell shows its value."""
LARGEST_WITH_OUTLINES = 60
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
    """A vector over the map: walls dark, low-reward cells outlined, start and goals lettered.

    `limits` are the values at the ends of the colour scale; `numbers` writes each cell's value
    where it fits.
    """
    height, width = world.shape
    numbers = numbers and max(height, width) <= LARGEST_WITH_NUMBERS
    if axes is None:
        figure = Figure(figsize=_size(width, height))
        figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.1)
        axes = figure.add_subplot()
    else:
        figure = axes.get_figure(root=True)
        assert figure is not None
    finite = values[np.isfinite(values)]
    low, high = limits or (finite.min(), finite.max())
    scale = Normalize(low, max(high, low + 1e-12))
    axes.imshow(world.walls, cmap=ListedColormap([MINUS_INFINITY, WALL]), interpolation="nearest")
    image = world.as_image(np.where(np.isfinite(values), values, np.nan))
    shown = axes.imshow(image, cmap=colours, norm=scale, interpolation="nearest")
    bar = figure.colorbar(shown, ax=axes, shrink=0.85, pad=0.02)
    bar.set_label(label)
    if max(height, width) <= LARGEST_WITH_OUTLINES:
        _outline_low_reward(axes, world)
    else:
        _tint_low_reward(axes, world)
    _mark(axes, world, values, scale, numbers)
    axes.set_xlabel(f"column\n({_legend(world)})")
    axes.set_ylabel("row")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(title)
    return figure


def profile(
    values: Float[np.ndarray, " states"], *, title: str = "", label: str = "log e"
) -> Figure:
    """A vector over the states of an MDP that has no map."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    marker = "o" if values.size <= 200 else ","
    axes.plot(np.where(np.isfinite(values), values, np.nan), marker, color="#0072b2", markersize=4)
    axes.set_xlabel("state, in the order of mdp.states")
    axes.set_ylabel(label)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    return figure


def _size(width: int, height: int) -> tuple[float, float]:
    per_cell = min(CELL_INCHES, 9.0 / max(width, height))
    return max(4.2, width * per_cell + 1.8), max(3.4, height * per_cell + 1.1)


def _outline_low_reward(axes: Axes, world: GridWorld) -> None:
    for row, column in world.cells[world.low_reward]:
        # White inside orange: one of the two stands out from any colour of the map.
        for inset, colour, line in ((0.05, OUTLINE, 2.2), (0.11, "white", 1.0)):
            corner, side = (column - 0.5 + inset, row - 0.5 + inset), 1 - 2 * inset
            axes.add_patch(
                Rectangle(corner, side, side, fill=False, edgecolor=colour, linewidth=line)
            )


def _tint_low_reward(axes: Axes, world: GridWorld) -> None:
    """Frames would be thinner than a pixel."""
    tint = np.zeros((*world.shape, 4))
    tint[~world.walls] = np.where(world.low_reward[:, None], to_rgba(OUTLINE, 0.6), 0.0)
    axes.imshow(tint, interpolation="nearest")


def _mark(axes: Axes, world: GridWorld, values: np.ndarray, scale: Any, numbers: bool) -> None:
    """Numbers where they fit; a letter where the episode starts and ends."""
    starts = world.start > 0 if world.has_start else None
    form = _number_format(values[np.isfinite(values)])
    for state in range(world.n_states) if numbers else ():
        row, column = world.cells[state]
        ink = "white" if not np.isfinite(values[state]) or scale(values[state]) < 0.6 else "black"
        text = form.format(values[state]) if np.isfinite(values[state]) else "-inf"
        lettered = world.terminal[state] or (starts is not None and starts[state])
        axes.text(
            column,
            row + (0.2 if lettered else 0.0),
            text,
            ha="center",
            va="center",
            fontsize=6.5,
            color=ink if np.isfinite(values[state]) else "black",
        )
    for letter, where in (("G", world.terminal), ("S", starts)):
        for row, column in world.cells[where] if where is not None else ():
            axes.text(
                column,
                row - (0.18 if numbers else 0.0),
                letter,
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold",
                color="black",
                bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "linewidth": 0.6},
            )


def _legend(world: GridWorld) -> str:
    parts = ["G: goal"]
    if world.has_start:
        parts.append("S: start")
    if world.low_reward.any():
        parts.append("orange: low reward")
    return ", ".join(parts)


def _number_format(values: np.ndarray) -> str:
    """As many digits as fit a cell and tell neighbours apart."""
    largest, spread = np.abs(values).max(initial=0.0), np.ptp(values) if values.size else 0.0
    if largest >= 1e5:
        return "{:.0e}"
    if largest >= 100:
        return "{:.0f}"
    return "{:.1f}" if spread >= 1 else "{:.2f}" if spread >= 0.1 else "{:.0e}"
