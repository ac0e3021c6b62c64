"""Vectors over grid worlds, over scenes of MiniGrid, or over the states of any MDP; and a page."""

import base64
import html
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import offset_copy

from drogo.errors import ArgumentError, ArgumentTypeError, check_choice, check_whole
from drogo.mdp.arrays import as_floats
from drogo.plot.panels import (
    COLOURS,
    LOW_REWARD,
    MINUS_INFINITY,
    WALL,
    Below,
    History,
    Panel,
    check_history,
    draw_cells,
    draw_cloud,
    figure_of,
    finite_range,
    of_fit,
    scaled,
    side_by_side,
    write_letter,
)
from drogo.worlds.grid import GridWorld

if TYPE_CHECKING:
    from drogo.worlds.scenes import Scene

Values = Float[np.ndarray, " states"]
LARGEST_WITH_NUMBERS = 22
CELL_INCHES = 0.46
PANEL_INCHES = 4.4
PIXELS_OF_PAGE = 640
LETTERS = {"goal": "G", "start": "S", "key": "K", "door": "D", "ball": "B", "box": "X",
           "terminal": "T"}  # fmt: skip
SCENE_INCHES = (2.9, 2.7)
LETTERS_PER_INCH, LETTERS_BELOW = 15, 48


def heatmap(
    world: GridWorld,
    values: Values,
    *,
    title: str = "",
    label: str = "log e",
    axes: Axes | None = None,
    colours: str = COLOURS,
    limits: tuple[float, float] | None = None,
    numbers: bool = True,
) -> Figure:
    """Draws a vector over a map, with start and goals lettered and low-reward cells framed. With
    `numbers`, the cells of a small map show their values. Where one is not finite, it is grey."""
    values = _over(world, "values", values, 1)
    height, width = world.shape
    if axes is None:
        inches = min(CELL_INCHES, 9.0 / max(width, height))
        size = max(4.2, 1.05 * width * inches + 2.0), max(2.6, height * inches + 1.1)
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.1)
        axes = Figure(figsize=size, layout=layout).add_subplot()
    check_choice("colours", colours, list(matplotlib.colormaps))
    given = as_floats("limits", finite_range(values) if limits is None else limits)
    if given.shape != (2,) or not given[0] <= given[1]:
        problem = f"limits is {limits}; give the lowest and the highest value."
        raise ArgumentError(problem, argument="limits")
    limits = (float(given[0]), float(given[1]))
    image = world.as_image(np.where(np.isfinite(values), values, np.nan))
    shown = draw_cells(axes, Panel(image, title, label, colours, limits), world.walls)
    if world.low_reward.any():
        _frame_low_reward(axes, world)
    numbers = numbers and max(height, width) <= LARGEST_WITH_NUMBERS
    if numbers:
        _write_values(axes, world, values, shown.norm)
    letter(axes, world, above=0.18 if numbers else 0.0)
    axes.set_xlabel(textwrap.fill(f"({legend(world)})", LETTERS_BELOW, initial_indent="column\n"))
    return figure_of(axes)


def learned(
    world: GridWorld, truth: Values | None, v: np.ndarray, history: History, *, title: str
) -> Figure:
    """Draws the truth, the mean of the learned vectors, its error and the learning curves. Without
    a truth, only the mean and the largest violations of an equation are drawn."""

    v = _over(world, "v", v, 2)
    truth = None if truth is None else _over(world, "truth", truth, 1)
    check_history(history, *["cosine_column"] * (truth is not None))

    def draw(axes: Axes, panel: Panel) -> None:
        heatmap(world, axes=axes, numbers=False, **panel._asdict())

    height, width = (max(min(0.3 * cells, 6.0), 2.6) for cells in world.shape)
    size = (2 * width + 3.4, 2 * height + 2.6)
    return side_by_side(draw, of_fit(truth, v.mean(axis=0), history), title=title, size=size)


def solution(found: Any, *, title: str = "") -> Figure:
    """Draws the mean map of the seeds of a solution over its observations, projected on two
    principal components where they have more coordinates. Over a grid world, `heatmap` draws
    `found(world.observations("coordinates")).mean(axis=0)`."""
    v: Any = getattr(found, "v", None)
    if np.ndim(v) != 2 or not hasattr(found, "observations"):
        problem = "found is no solution of drogo.fit or drogo.solve with one number for each state."
        raise ArgumentTypeError(problem, argument="found")
    axes = Figure(figsize=(7, 5.4), layout="constrained").add_subplot()
    panel = Panel(v.mean(axis=0), title or textwrap.fill(repr(found), 70))
    draw_cloud(axes, panel, found.observations)
    return figure_of(axes)


def _over(world: Any, name: str, values: Any, axes: int) -> np.ndarray:
    """Returns a vector over the states of a grid world, or several, checked."""
    array = as_floats(name, values)
    if array.ndim != axes or array.shape[-1] != len(world.cells):
        problem = f"{name} has shape {array.shape}; the world has {len(world.cells)} states."
        raise ArgumentError(problem, argument=name)
    return array


def goal_maps(
    world: GridWorld, maps: Mapping[str, Values], *, title: str = "", columns: int = 3
) -> Figure:
    """Draws maps beside each other. A star beside the best state of each marks its goal."""
    if not maps:
        raise ArgumentError("there are no maps to draw.", argument="maps")
    for vector in maps.values():
        _over(world, "maps", vector, 1)
    columns = min(check_whole("columns", columns, 1), len(maps))
    rows = math.ceil(len(maps) / columns)
    height = PANEL_INCHES * world.shape[0] / world.shape[1]
    size = (1.2 * PANEL_INCHES * columns, (0.85 * height + 0.9) * rows + 0.2)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, values) in zip(panels, maps.items(), strict=False):
        heatmap(world, values, title=name, label="v(s, g)", axes=axes, numbers=False)
        row, column = world.cells[np.argmax(values)]
        beside = offset_copy(axes.transData, figure, x=8, y=8, units="points")
        axes.plot(column, row, "*", color="white", markeredgecolor="black", markersize=13,
                  transform=beside, zorder=5)  # fmt: skip
        axes.set_xlabel("column")
    for axes in panels[len(maps) :]:
        axes.set_axis_off()
    figure.suptitle(title)
    write_below(figure, f"{legend(world)}, star: the goal of this map")
    return figure


def letter(axes: Axes, world: GridWorld, above: float = 0.0) -> None:
    """Writes S into the starts of a map, and the symbols of its terminal cells into these."""
    for state in np.flatnonzero(world.terminal | (world.has_start & (world.start > 0))):
        row, column = world.cells[state]
        text = _symbol(world, state) if world.terminal[state] else "S"
        write_letter(axes, (column, row - above), text, dark=bool(world.worse_ends[state]))


def _symbol(world: GridWorld, state: Any) -> str:
    symbol = chr(world.characters[tuple(world.cells[state])])
    return symbol if symbol.isascii() and symbol.isalnum() else "G"  # a font has not every one


def legend(world: GridWorld) -> str:
    """Returns what the letters and frames of a map mean."""
    best = np.flatnonzero(world.terminal & ~world.worse_ends)
    texts = [f"{symbol}: goal" for symbol in sorted({_symbol(world, state) for state in best})]
    ends = np.flatnonzero(world.worse_ends)
    worse = {(_symbol(world, state), world.reward[state]) for state in ends}
    texts += [f"{symbol} (black): terminal reward {reward:g}" for symbol, reward in sorted(worse)]
    texts += ["S: start"] if world.has_start else []
    return ", ".join(texts + (["orange: low reward"] if world.low_reward.any() else []))


def _frame_low_reward(axes: Axes, world: GridWorld) -> None:
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


def _write_values(axes: Axes, world: GridWorld, values: np.ndarray, scale: Any) -> None:
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


PAGE = Template(files("drogo.plot").joinpath("goals.html").read_text(encoding="utf-8"))


def goal_page(
    world: GridWorld, log_columns: Float[np.ndarray, "states states"], goal: int, *, title: str
) -> bytes:
    """Returns a page that shows the map to `goal`, and then to any cell that is clicked."""
    height, width = world.shape
    side = max(4, PIXELS_OF_PAGE // max(height, width))
    colours = matplotlib.colormaps[COLOURS](np.linspace(0, 1, 256))
    content = {"cells": world.cells.tolist(), "low": world.low_reward.tolist(), "goal": goal}
    content |= {"side": side, "wall": WALL, "grey": MINUS_INFINITY, "frame": LOW_REWARD}
    content["colours"] = [to_hex(colour) for colour in colours]
    content["columns"] = base64.b64encode(log_columns.astype("<f4").tobytes()).decode()
    content |= {"width": width * side, "height": height * side}
    return PAGE.substitute(title=html.escape(title), data=json.dumps(content)).encode()


def over_scenes(
    scenes: Sequence["Scene"], vectors: Sequence[Panel], below: Below = None, *, title: str
) -> Figure:
    """Draws a row for each vector, a column for each scene, and the panel below them."""
    if len(scenes) == 1:
        (scene,) = scenes
        cells = [panel._replace(values=scene.over_cells(panel.values)) for panel in vectors]
        figure = side_by_side(partial(_draw_scene, scene), (cells, below), title=title)
    else:
        rows, count = len(vectors) + (below is not None), len(scenes)
        size = (max(SCENE_INCHES[0] * count + 1.4, 7.0), SCENE_INCHES[1] * rows + 1.2)
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        grid = figure.add_gridspec(rows, count)
        over_all = lambda v: np.stack([scene.over_cells(v) for scene in scenes])  # noqa: E731
        for k, panel in enumerate(scaled(vectors, over_all)):
            for j, scene in enumerate(scenes):
                axes, cells = figure.add_subplot(grid[k, j]), scene.over_cells(panel.values)
                _draw_scene(scene, axes, panel._replace(values=cells), has_bar=j == count - 1)
                axes.set(xticks=[], yticks=[], xlabel="", ylabel="" if j else panel.title)
                axes.set_title("" if k else scene.name, fontsize=10)
        if below is not None:
            below(figure.add_subplot(grid[-1, :]))
        figure.suptitle(title)
    write_below(figure, _legend(scenes))
    return figure


def write_below(figure: Figure, text: str) -> None:
    """Writes a text below all panels of a figure, in lines that fit into it."""
    letters = int(LETTERS_PER_INCH * figure.get_size_inches()[0])
    figure.supxlabel(textwrap.fill(text, letters), fontsize=9)


def _draw_scene(scene: "Scene", axes: Axes, panel: Panel, *, has_bar: bool = True) -> None:
    ground = np.where(scene.walls, 1, np.where(scene.lava, 2, 0))
    draw_cells(axes, panel, ground, has_bar=has_bar)
    # Some grids are much larger than the rooms in them.
    shown = ground > 0 if ground.any() else ground == 0
    rows, columns = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    size = float(np.clip(130 / max(np.ptp(rows), np.ptp(columns)), 5.0, 9.0))
    for mark in scene.marks:
        is_closed = mark.kind == "door" and not mark.is_open
        letter = LETTERS.get(mark.kind, "?")
        write_letter(axes, (mark.column, mark.row), letter, size=size, dark=is_closed)
    axes.set_xlim(columns[0] - 0.5, columns[-1] + 0.5)
    axes.set_ylim(rows[-1] + 0.5, rows[0] - 0.5)


def _legend(scenes: Sequence["Scene"]) -> str:
    kinds = {mark.kind for scene in scenes for mark in scene.marks}
    texts = [f"{letter}: {kind}" for kind, letter in LETTERS.items() if kind in kinds]
    texts = [f"{text} (black: closed)" if text.endswith("door") else text for text in texts]
    texts += ["orange: lava"] if any(scene.lava.any() for scene in scenes) else []
    grounds = (np.flatnonzero(~(scene.walls | scene.lava)) for scene in scenes)
    reached = (np.isin(cells, s.cell).all() for cells, s in zip(grounds, scenes, strict=True))
    texts += [] if all(reached) else ["light grey: out of reach"]
    directed = any(len(scene.cell) > len(set(scene.cell.tolist())) for scene in scenes)
    texts += ["mean over the agent's directions"] if directed else []
    return ", ".join(texts) + ("; scenes on a way to the goal" if len(scenes) > 1 else "")
