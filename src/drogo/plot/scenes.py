"""Vectors over the scenes of a MiniGrid environment, with its goal, keys, doors and lava."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from drogo.plot import panels
from drogo.plot.fields import side_by_side
from drogo.plot.maps import LOW_REWARD, MINUS_INFINITY

if TYPE_CHECKING:
    from drogo.worlds.minigrid.scenes import Mark, Scene

LETTERS = {"goal": "G", "start": "S", "key": "K", "door": "D", "ball": "B", "box": "X"}
"""The letter of each kind of thing, in the order of the legend."""
CLOSED = "#222222"
PANEL = (2.9, 2.7)
"""Width and height of one of several panels in inches."""

LETTERS_PER_INCH = 15
"""Letters of the legend that fit into an inch."""


def draw_scene(
    scene: Scene,
    values: Float[np.ndarray, "h w"],
    *,
    axes: Axes,
    title: str,
    limits: tuple[float, float],
    colours: str,
    label: str,
    has_bar: bool = True,
) -> None:
    """Draws values over the cells of a scene. Where there are none, a cell is grey.

    Args:
        scene: The scene.
        values: The result of `scene.over_cells`.
        axes: The panel.
        title: The title of the panel.
        limits: The range of the colour scale.
        colours: The colour map.
        label: The name of the values.
        has_bar: Whether to draw a colour bar.
    """
    ground = np.where(scene.walls, 1, np.where(scene.lava, 2, 0))
    palette = ListedColormap([MINUS_INFINITY, panels.WALL, LOW_REWARD])
    axes.imshow(ground, cmap=palette, vmin=0, vmax=2, interpolation="nearest")
    shown = axes.imshow(values, cmap=colours, clim=limits, interpolation="nearest")
    if has_bar:
        panels.colour_bar(axes, shown, label)
    # Some grids are much larger than the rooms in them.
    rows, columns = (np.flatnonzero((ground > 0).any(axis=axis)) for axis in (1, 0))
    height, width = np.ptp(rows), np.ptp(columns)
    size = float(np.clip(130 / max(height, width), 5.0, 9.0))
    for mark in scene.marks:
        _write(axes, mark, size)
    axes.set_xlim(columns[0] - 0.5, columns[-1] + 0.5)
    axes.set_ylim(rows[-1] + 0.5, rows[0] - 0.5)
    axes.set(title=title, xlabel="column", ylabel="row")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def exact_scenes(
    scenes: Sequence[Scene],
    values: Float[np.ndarray, " states"],
    *,
    title: str,
    label: str,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draws a vector over the states of a MiniGrid environment, a panel for each scene.

    Args:
        scenes: The scenes.
        values: One value for each state of the world. Where it is not finite, a cell is grey.
        title: The title of the figure.
        label: The name of the values.
        limits: The range of the colour scale, by default that of the values.
    """
    width = max(PANEL[0] * len(scenes) + 1.4, 5.6)
    figure = Figure(figsize=(width, 4.2), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    finite = np.where(np.isfinite(values), values, np.nan)
    axes = figure.subplots(1, len(scenes), squeeze=False)
    _draw_rows(axes, scenes, [panels.Row("", finite, label)], limits)
    figure.suptitle(title)
    write_legend(figure, scenes)
    return figure


def over_scenes(scenes: Sequence[Scene], shown: panels.Panels, *, title: str) -> Figure:
    """Draws vectors over the scenes of a MiniGrid environment.

    Args:
        scenes: The scenes. For one, the figure is that of `side_by_side`; for several, there is a
            row for each vector, with a panel for each scene.
        shown: The vectors, and the panel below them.
        title: The title of the figure.
    """
    rows, below = shown
    if len(scenes) == 1:
        (scene,) = scenes
        rows = [row._replace(values=scene.over_cells(row.values)) for row in rows]
        figure = side_by_side(partial(draw_scene, scene), (rows, below), title=title)
        write_legend(figure, scenes)
        return figure
    size = (max(PANEL[0] * len(scenes) + 1.4, 7.0), PANEL[1] * len(rows) + 3.6)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    grid = figure.add_gridspec(len(rows) + 1, len(scenes))
    axes = [figure.add_subplot(grid[k, j]) for k, j in np.ndindex(len(rows), len(scenes))]
    _draw_rows(np.array(axes).reshape(-1, len(scenes)), scenes, rows)
    below(figure.add_subplot(grid[len(rows), :]))
    figure.suptitle(title)
    write_legend(figure, scenes)
    return figure


def _draw_rows(
    axes: np.ndarray,
    scenes: Sequence[Scene],
    rows: Sequence[panels.Row],
    limits: tuple[float, float] | None = None,
) -> None:
    """Draws each vector over each scene; the first row has titles, the first column labels."""
    view = partial(_over_all, scenes)
    for k, options in enumerate(panels.options(rows, view)):
        name, values = options.pop("title"), options.pop("values")
        options.update({} if limits is None else {"limits": limits})
        for panel, scene in zip(axes[k], scenes, strict=True):
            title, is_last = scene.name if k == 0 else "", panel is axes[k, -1]
            over_cells = scene.over_cells(values)
            draw_scene(scene, over_cells, axes=panel, title=title, has_bar=is_last, **options)
            if len(scenes) > 1:
                panel.set(xticks=[], yticks=[], xlabel="", ylabel="")
                panel.set_title(title, fontsize=10)
        if len(scenes) > 1:
            axes[k, 0].set_ylabel(name)


def _over_all(scenes: Sequence[Scene], values: Float[np.ndarray, " states"]) -> np.ndarray:
    """Returns the values of all cells of all scenes."""
    return np.stack([scene.over_cells(values) for scene in scenes])


def _write(axes: Axes, mark: Mark, size: float) -> None:
    """Writes the letter of a thing into its cell; a closed door is white on black."""
    is_closed = mark.kind == "door" and not mark.is_open
    face, ink = (CLOSED, "white") if is_closed else ("white", "black")
    box = {"boxstyle": "round,pad=0.14", "facecolor": face, "edgecolor": ink, "linewidth": 0.6}
    axes.text(mark.column, mark.row, LETTERS.get(mark.kind, "?"), ha="center", va="center",
              fontsize=size, fontweight="bold", color=ink, bbox=box)  # fmt: skip


def _legend(scenes: Sequence[Scene]) -> str:
    kinds = {mark.kind for scene in scenes for mark in scene.marks}
    texts = [f"{letter}: {kind}" for kind, letter in LETTERS.items() if kind in kinds]
    texts = [f"{text} (black: closed)" if text.endswith("door") else text for text in texts]
    texts += ["orange: lava"] if any(scene.lava.any() for scene in scenes) else []
    texts += ["light grey: out of reach"] if any(map(_has_unreached, scenes)) else []
    texts += ["mean over the agent's directions"]
    return ", ".join(texts) + ("; scenes on a way to the goal" if len(scenes) > 1 else "")


def _has_unreached(scene: Scene) -> bool:
    ground = ~(scene.walls | scene.lava)
    return bool(np.isin(np.flatnonzero(ground), scene.cell, invert=True).any())


def write_legend(figure: Figure, scenes: Sequence[Scene]) -> None:
    """Writes a legend of the letters and colours below the figure of some scenes."""
    letters_in_a_line = int(LETTERS_PER_INCH * figure.get_size_inches()[0])
    figure.supxlabel(textwrap.fill(_legend(scenes), letters_in_a_line), fontsize=9)
