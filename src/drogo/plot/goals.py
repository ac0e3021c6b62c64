"""The map to each of some goals, as panels; and the distances between all states, as a matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from drogo.errors import ArgumentError
from drogo.plot.maps import heatmap
from drogo.plot.panels import colour_bar

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

LABEL = "v(s, g)"
PANELS_A_ROW = 3
INCHES = 4.4


def goal_maps(
    world: GridWorld,
    maps: Mapping[str, Float[np.ndarray, " states"]],
    *,
    title: str = "",
    columns: int = PANELS_A_ROW,
) -> Figure:
    """Draws maps beside each other, such as those to several goals. A star marks the best state of
    each, which is its goal.

    Args:
        world: The grid world.
        maps: The vectors, by the titles of their panels.
        title: The title of the figure.
        columns: The number of panels in a row.
    """
    if not maps:
        raise ArgumentError("there are no maps to draw.", argument="maps")
    columns = min(columns, len(maps))
    rows = math.ceil(len(maps) / columns)
    height = INCHES * world.shape[0] / world.shape[1]
    size = (1.2 * INCHES * columns, (0.85 * height + 0.9) * rows + 0.2)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, values) in zip(panels, maps.items(), strict=False):
        heatmap(world, values, title=name, label=LABEL, axes=axes, numbers=False)
        row, column = world.cells[np.argmax(values)]
        axes.plot(column, row, "*", color="white", markeredgecolor="black", markersize=15, zorder=5)
    for axes in panels[len(maps) :]:
        axes.set_axis_off()
    figure.suptitle(title)
    return figure


def distances(log_columns: Float[np.ndarray, "goals states"], *, title: str = "") -> Figure:
    """Draws the distances between all states: `-v(s, g)`, which is not symmetric.

    Args:
        log_columns: `v(s, g)`, a row for each goal. Where it is not finite, the cell is grey.
        title: The title of the figure.
    """
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    axes = figure.add_subplot()
    shown = np.where(np.isfinite(log_columns), -log_columns, np.nan).T
    axes.set_facecolor("#d9d9d9")
    image = axes.imshow(shown, cmap="viridis_r", interpolation="nearest")
    colour_bar(axes, image, "distance -v(s, g)")
    axes.set(xlabel="goal g", ylabel="state s (grey: g is not reached)", title=title)
    return figure
