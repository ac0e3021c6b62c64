"""Pictures of shaped agents: how their returns grew, and where they ended up walking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

OKABE_ITO = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#999999")
LINES = ("-", "--", "-.", ":")


class Curve(NamedTuple):
    """One method's learning curves."""

    seeds: Float[np.ndarray, "seeds evaluations"]
    low: Float[np.ndarray, " evaluations"]
    high: Float[np.ndarray, " evaluations"]


def returns(
    curves: Mapping[str, Curve], every: int, best: float, *, title: str, axes: Axes | None = None
) -> Figure:
    """Return of the greedy episode by training step: mean, band, and every seed faint behind.

    Given `axes`, the legend is left to the caller, who may have many of them.
    """
    alone = axes is None
    if axes is None:
        figure = Figure(figsize=(8, 4.8), layout="constrained")
        axes = figure.add_subplot()
    else:
        figure = axes.get_figure(root=True)
        assert figure is not None
    for k, (name, curve) in enumerate(curves.items()):
        colour, line = OKABE_ITO[k % len(OKABE_ITO)], LINES[k % len(LINES)]
        steps = every * np.arange(1, curve.seeds.shape[1] + 1)
        axes.plot(steps, curve.seeds.T, color=colour, alpha=0.12, linewidth=0.6)
        axes.fill_between(steps, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(steps, curve.seeds.mean(axis=0), line, color=colour, linewidth=1.8, label=name)
    axes.axhline(best, color="#777777", linewidth=0.8, linestyle=(0, (1, 2)))
    axes.annotate(
        f"best: {best:g}", (1, best), xycoords=("axes fraction", "data"), ha="right", va="bottom",
        fontsize=8, color="#555555", xytext=(-4, 2), textcoords="offset points",
    )  # fmt: skip
    axes.set_xscale("log")
    # A few early episodes through the costly places would squeeze all the rest into a line.
    lowest = min(float(np.quantile(curve.seeds, 0.02)) for curve in curves.values())
    span = max(best - lowest, 1e-9)
    axes.set_ylim(best - 1.15 * span, best + 0.1 * span)
    axes.set_xlabel("training steps")
    axes.set_ylabel("return of a greedy episode")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if alone:
        legend_below(figure, axes)
    return figure


def legend_below(figure: Figure, axes: Axes) -> None:
    """Under everything, in one line: where no curve can run into it."""
    lines, labels = axes.get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def paths(
    world: GridWorld, walked: Mapping[str, Sequence[Int[np.ndarray, " length"]]], *, title: str
) -> Figure:
    """Where the final greedy policies walk: a panel for each method, a line for each seed."""
    height, width = world.shape
    across = min(4, len(walked))
    down = math.ceil(len(walked) / across)
    side = 3.1
    figure = Figure(figsize=(across * side, down * side * height / width + 0.9 + 0.3 * down))
    figure.set_layout_engine("constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (name, of_seeds) in zip(panels, walked.items(), strict=False):
        axes.imshow(world.picture(), interpolation="nearest")
        for k, path in enumerate(of_seeds):
            # Side by side, so that seeds on one path can be counted.
            aside = 0.5 * (k - (len(of_seeds) - 1) / 2) / max(len(of_seeds), 1)
            row, column = world.cells[path].T
            axes.plot(column + aside, row + aside, color=OKABE_ITO[6], alpha=0.7, linewidth=1.0)
        arrived = sum(bool(world.terminal[path[-1]]) for path in of_seeds)
        axes.set_title(f"{name}: {arrived} of {len(of_seeds)} arrive", fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    for axes in panels[len(walked) :]:
        axes.set_visible(False)
    figure.suptitle(title)
    figure.supxlabel("orange: low reward, green: goal", fontsize=8)
    return figure
