"""Vectors over the scenes of a MiniGrid environment, with its goal, keys, doors and lava."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from drogo.plot.panels import Panel, draw_cells, scaled, side_by_side, write_letter

if TYPE_CHECKING:
    from drogo.worlds.scenes import Scene

LETTERS = {"goal": "G", "start": "S", "key": "K", "door": "D", "ball": "B", "box": "X"}
PANEL = (2.9, 2.7)
LETTERS_PER_INCH = 15


def over_scenes(
    scenes: Sequence[Scene],
    vectors: Sequence[Panel],
    below: Callable[[Axes], None] | None = None,
    *,
    title: str,
) -> Figure:
    """Draws a row for each vector, with a panel for each scene, and the panel below them. One scene
    of a fit is drawn by `side_by_side`."""
    count = len(scenes)
    if count == 1 and below is not None:
        (scene,) = scenes
        cells = [panel._replace(values=scene.over_cells(panel.values)) for panel in vectors]
        figure = side_by_side(partial(_draw_scene, scene), (cells, below), title=title)
    else:

        def over_all(values: np.ndarray) -> np.ndarray:
            return np.stack([scene.over_cells(values) for scene in scenes])

        width = max(PANEL[0] * count + 1.4, 5.6 if below is None else 7.0)
        size = (width, PANEL[1] * len(vectors) + (1.5 if below is None else 3.6))
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        grid = figure.add_gridspec(len(vectors) + (below is not None), count)
        for k, panel in enumerate(scaled(vectors, over_all)):
            axes = [figure.add_subplot(grid[k, j]) for j in range(count)]
            _draw_row(axes, scenes, panel, is_first=k == 0)
        if below is not None:
            below(figure.add_subplot(grid[-1, :]))
        figure.suptitle(title)
    letters_in_a_line = int(LETTERS_PER_INCH * figure.get_size_inches()[0])
    figure.supxlabel(textwrap.fill(_legend(scenes), letters_in_a_line), fontsize=9)
    return figure


def _draw_row(axes: Sequence[Axes], scenes: Sequence[Scene], panel: Panel, is_first: bool) -> None:
    """Draws a vector over each scene; the first row has titles, the first column labels."""
    for place, scene in zip(axes, scenes, strict=True):
        cells = panel._replace(values=scene.over_cells(panel.values), title="")
        _draw_scene(scene, place, cells, has_bar=place is axes[-1])
        title = scene.name if is_first else ""
        if len(scenes) == 1:
            place.set_title(title)
            continue
        place.set(xticks=[], yticks=[], xlabel="", ylabel="")
        place.set_title(title, fontsize=10)
        axes[0].set_ylabel(panel.title)


def _draw_scene(scene: Scene, axes: Axes, panel: Panel, *, has_bar: bool = True) -> None:
    """Draws values over the cells of a scene, with the letters of its things."""
    ground = np.where(scene.walls, 1, np.where(scene.lava, 2, 0))
    draw_cells(axes, panel, ground, has_bar=has_bar)
    # Some grids are much larger than the rooms in them.
    rows, columns = (np.flatnonzero((ground > 0).any(axis=axis)) for axis in (1, 0))
    size = float(np.clip(130 / max(np.ptp(rows), np.ptp(columns)), 5.0, 9.0))
    for mark in scene.marks:
        is_closed = mark.kind == "door" and not mark.is_open
        letter = LETTERS.get(mark.kind, "?")
        write_letter(axes, (mark.column, mark.row), letter, size=size, dark=is_closed)
    axes.set_xlim(columns[0] - 0.5, columns[-1] + 0.5)
    axes.set_ylim(rows[-1] + 0.5, rows[0] - 0.5)


def _legend(scenes: Sequence[Scene]) -> str:
    kinds = {mark.kind for scene in scenes for mark in scene.marks}
    texts = [f"{letter}: {kind}" for kind, letter in LETTERS.items() if kind in kinds]
    texts = [f"{text} (black: closed)" if text.endswith("door") else text for text in texts]
    texts += ["orange: lava"] if any(scene.lava.any() for scene in scenes) else []
    grounds = (np.flatnonzero(~(scene.walls | scene.lava)) for scene in scenes)
    reached = (np.isin(cells, s.cell).all() for cells, s in zip(grounds, scenes, strict=True))
    texts += [] if all(reached) else ["light grey: out of reach"]
    texts += ["mean over the agent's directions"]
    return ", ".join(texts) + ("; scenes on a way to the goal" if len(scenes) > 1 else "")
