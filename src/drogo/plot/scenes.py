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
    is drawn by `side_by_side`."""
    if len(scenes) == 1:
        (scene,) = scenes
        cells = [panel._replace(values=scene.over_cells(panel.values)) for panel in vectors]
        figure = side_by_side(partial(_draw_scene, scene), (cells, below), title=title)
    else:
        figure = _rows(scenes, vectors, below)
        figure.suptitle(title)
    letters_in_a_line = int(LETTERS_PER_INCH * figure.get_size_inches()[0])
    figure.supxlabel(textwrap.fill(_legend(scenes), letters_in_a_line), fontsize=9)
    return figure


def _rows(
    scenes: Sequence[Scene], vectors: Sequence[Panel], below: Callable[[Axes], None] | None
) -> Figure:
    rows, count = len(vectors) + (below is not None), len(scenes)
    size = (max(PANEL[0] * count + 1.4, 7.0), PANEL[1] * rows + 1.2)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    grid = figure.add_gridspec(rows, count)
    for k, panel in enumerate(
        scaled(vectors, lambda v: np.stack([s.over_cells(v) for s in scenes]))
    ):
        for j, scene in enumerate(scenes):
            axes, cells = figure.add_subplot(grid[k, j]), scene.over_cells(panel.values)
            _draw_scene(scene, axes, panel._replace(values=cells), has_bar=j == count - 1)
            axes.set(xticks=[], yticks=[], xlabel="", ylabel="" if j else panel.title)
            axes.set_title("" if k else scene.name, fontsize=10)
    if below is not None:
        below(figure.add_subplot(grid[-1, :]))
    return figure


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
