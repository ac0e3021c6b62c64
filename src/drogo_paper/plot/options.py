"""Options over the map of a grid world: the vector that they climb, arrows, and terminations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo.plot.maps import heatmap
from drogo.plot.panels import LINE, finite_range
from drogo_paper.plot.figures import OKABE_ITO

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

INCHES = 4.4
PANELS_A_ROW = 3
BESIDE = "arrows: the option, dots: it ends, grey: not visited; goals are plain cells"
VISITS = "visits, log10(1 + n)"


@dataclass(frozen=True, eq=False)
class Stage:
    """An iteration of option discovery: the vector and the option by state, and all visits."""

    number: int
    vector: Float[np.ndarray, " states"]
    action: Int[np.ndarray, " states"]
    ends: Bool[np.ndarray, " states"]
    visits: Int[np.ndarray, " states"]


def _draw_option(
    world: GridWorld,
    vector: Float[np.ndarray, " states"],
    action: Int[np.ndarray, " states"],
    ends: Bool[np.ndarray, " states"],
    seen: Bool[np.ndarray, " states"],
    *,
    title: str,
    axes: Axes,
) -> None:
    """Draws an option over its vector: arrows where it acts, dots where it ends."""
    shown = np.where(seen, vector, np.nan)
    heatmap(world, shown, title=title, label="vector", axes=axes, numbers=False)
    state = np.arange(world.n_states)
    moves = world.without_goals().next_state
    by = world.cells[moves[state, action]] - world.cells
    acts = seen & ~ends & by.any(axis=1)
    row, column = world.cells[acts].T
    axes.quiver(column, row, by[acts, 1], by[acts, 0], color="white", edgecolor="black",
                linewidth=0.4, angles="xy", scale_units="xy", scale=1.6, pivot="mid", width=0.008,
                headwidth=4, headlength=4, headaxislength=3.5, zorder=2.5)  # fmt: skip
    row, column = world.cells[seen & ends].T
    size = float(np.clip(100 / max(world.shape), 2.5, 7.0))
    axes.plot(column, row, "o", color=OKABE_ITO[5], markeredgecolor="white", markeredgewidth=0.6,
              markersize=size, zorder=4)  # fmt: skip


def option_maps(world: GridWorld, stages: Sequence[Stage], *, title: str) -> Figure:
    """Draws the vectors and options of several iterations beside each other."""
    across = min(PANELS_A_ROW, len(stages))
    down = math.ceil(len(stages) / across)
    height = INCHES * world.shape[0] / world.shape[1]
    size = (1.2 * INCHES * across, (0.85 * height + 1.0) * down + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, stage in zip(panels, stages, strict=False):
        _draw_option(world, stage.vector, stage.action, stage.ends, stage.visits > 0, axes=axes,
                    title=f"iteration {stage.number}")  # fmt: skip
    for axes in panels[len(stages) :]:
        axes.set_axis_off()
    figure.suptitle(title)
    figure.supxlabel(BESIDE, fontsize=9)
    return figure


def visit_frames(world: GridWorld, stages: Sequence[Stage], *, title: str) -> list[Figure]:
    """Draws visits beside vector and option: a figure for each iteration, for `as_gif`."""
    limits = finite_range(np.log10(1.0 + stages[-1].visits), np.zeros(1))
    height = INCHES * world.shape[0] / world.shape[1]
    frames = []
    for stage in stages:
        figure = Figure(figsize=(2.5 * INCHES, 0.85 * height + 1.3), layout="constrained")
        left, right = figure.subplots(1, 2)
        count = np.where(stage.visits > 0, np.log10(1.0 + stage.visits), np.nan)
        seen = f"{(stage.visits > 0).sum()} of {world.n_states} states"
        heatmap(world, count, title=f"visits: {seen}", label=VISITS, axes=left, limits=limits,
                numbers=False, colours="magma")  # fmt: skip
        _draw_option(world, stage.vector, stage.action, stage.ends, stage.visits > 0, axes=right,
                    title="vector and option")  # fmt: skip
        figure.suptitle(f"{title}, iteration {stage.number}")
        frames.append(figure)
    return frames


def exploration(
    visited: Float[np.ndarray, "seeds iterations"],
    reward: Float[np.ndarray, "seeds iterations"],
    *,
    title: str,
) -> Figure:
    """Draws the share of visited states and the mean reward of a step, by iteration."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    panels = figure.subplots(1, 2)
    number = np.arange(1, visited.shape[1] + 1)
    for axes, curves, label in zip(
        panels, (visited, reward), ("share of states visited", "mean reward of a step"), strict=True
    ):
        axes.plot(number, curves.T, color=LINE, alpha=0.25, linewidth=0.8)
        axes.plot(number, curves.mean(axis=0), color=LINE, linewidth=2)
        axes.set(xlabel="iteration", ylabel=label)
        axes.grid(alpha=0.3)
    panels[0].set_ylim(0, 1.02)
    seeds = f", {len(visited)} seeds and their mean" if len(visited) > 1 else ""
    figure.suptitle(title + seeds)
    return figure
