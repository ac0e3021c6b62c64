"""Learning curves and paths of agents, animations, and parts that the report's figures share."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, SymmetricalLogLocator
from PIL import Image

from drogo.plot.maps import legend, letter, write_below
from drogo.plot.panels import LINE, LOW_REWARD, as_png, figure_of
from drogo_paper.statistics import bootstrap_band

if TYPE_CHECKING:
    from drogo.worlds.grid import GridWorld

OKABE_ITO = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#999999")
LINES = ("-", "--", "-.", ":")
PAD = 0.1
"""Inches around each panel, so that texts do not touch the edge."""
FAR = 10.0
"""Returns are shown on a logarithmic scale if the lowest is this many times the highest."""
Curve = tuple[np.ndarray, np.ndarray]
"""Steps, and the return after each."""


def new_figure(width: float | int, height: float | int) -> Figure:
    """Returns an empty figure of a size in inches, whose panels make room for their texts."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=PAD, h_pad=PAD)
    return figure


def returns(
    curves: Mapping[str, Float[np.ndarray, "seeds _"]],
    every: int,
    best: float,
    *,
    title: str,
    axes: Axes | None = None,
) -> Figure:
    """Plots the return of greedy episodes during training, by method: the mean with its 95 %
    bootstrap interval, and all seeds faintly. Without axes the figure is new, with a legend."""
    alone = axes is None
    if axes is None:
        axes = Figure(figsize=(8, 4.8), layout="constrained").add_subplot()
    for k, (name, seeds) in enumerate(curves.items()):
        steps, line = every * np.arange(1, seeds.shape[1] + 1), LINES[k % len(LINES)]
        draw_seeds(axes, steps, seeds, line, color=OKABE_ITO[k % len(OKABE_ITO)], label=name)
    axes.axhline(best, color="#777777", linewidth=0.8, linestyle=(0, (1, 2)))
    axes.annotate(
        f"best: {best:g}", (1, best), xycoords=("axes fraction", "data"), ha="right", va="bottom",
        fontsize=8, color="#555555", xytext=(-4, 2), textcoords="offset points",
    )  # fmt: skip
    # Without limits, a few early episodes in low-reward cells would flatten everything else.
    lowest = min(float(np.quantile(seeds, 0.02)) for seeds in curves.values())
    span = max(best - lowest, 1e-9)
    axes.set_ylim(best - 1.15 * span, best + 0.1 * span)
    axes.set(xscale="log", xlabel="training steps", ylabel="return of a greedy episode")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if alone:
        legend_below(figure_of(axes), axes)
    return figure_of(axes)


def draw_seeds(
    axes: Axes, x: np.ndarray, seeds: np.ndarray, line: str, *, color: str, label: str
) -> None:
    """Draws the mean over seeds with its 95 % bootstrap band, and every seed faintly."""
    band = bootstrap_band(seeds, np.random.default_rng(0))
    axes.plot(x, seeds.T, color=color, alpha=0.12, linewidth=0.6)
    axes.fill_between(x, *band, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, seeds.mean(axis=0), line, color=color, linewidth=1.8, label=label, zorder=3)


def legend_below(figure: Figure, axes: Axes) -> None:
    """Puts the legend of a panel below the figure, where it hides no curve."""
    lines, labels = axes.get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def paths(
    world: GridWorld, walked: Mapping[str, Sequence[Int[np.ndarray, " _"]]], *, title: str
) -> Figure:
    """Draws the paths of final greedy policies: a panel for each method, a line for each seed."""
    height, width = world.shape
    down = math.ceil(len(walked) / 4)
    across = math.ceil(len(walked) / down)
    size = (max(across * 3.2, 6.0), down * (3.2 * height / width + 0.3) + 0.8)
    figure = Figure(figsize=size, layout="compressed")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (name, of_seeds) in zip(panels, walked.items(), strict=False):
        picture = world.picture()
        picture[tuple(world.cells[world.worse_ends].T)] = to_rgb(LOW_REWARD)
        axes.imshow(picture, interpolation="nearest")
        for k, path in enumerate(of_seeds):
            # Lines lie side by side, so that seeds on the same path can be counted.
            aside = 0.5 * (k - (len(of_seeds) - 1) / 2) / max(len(of_seeds), 1)
            row, column = world.cells[path].T
            axes.plot(column + aside, row + aside, color=LINE, alpha=0.7, linewidth=1.0)
        letter(axes, world)
        goal = world.terminal & ~world.worse_ends
        arrived = sum(bool(goal[path[-1]]) for path in of_seeds)
        axes.set_title(f"{name}: {arrived} of {len(of_seeds)} arrive", fontsize=9)
        axes.set(xticks=[], yticks=[])
    for axes in panels[len(walked) :]:
        axes.set_visible(False)
    figure.suptitle(title)
    write_below(figure, legend(world))
    return figure


def growth(curves: Mapping[str, Sequence[Curve]], *, title: str, label: str) -> Figure:
    """Draws learning curves: a thin line for each seed, and a thick one for their median."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for k, (name, seeds) in enumerate(curves.items()):
        colour, steps = OKABE_ITO[(6, 1)[k % 2]], seeds[0][0]
        alone = "o" if steps.size == 1 else None  # a line of one point is invisible
        for curve in seeds if len(seeds) > 1 else ():
            axes.plot(*curve, color=colour, alpha=0.45, linewidth=0.8, marker=alone)
        median = np.median([np.interp(steps, *curve) for curve in seeds], axis=0)
        axes.plot(steps, median, LINES[k % len(LINES)], color=colour, linewidth=2.2, marker=alone,
                  label=f"{name}, median" if len(seeds) > 1 else name, zorder=3)  # fmt: skip
    scale_returns(axes, np.concatenate([curve[1] for seeds in curves.values() for curve in seeds]))
    axes.set(xlabel="environment steps", ylabel=label, title=title)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.grid(alpha=0.3)
    legend_below(figure, axes)
    return figure


def scale_returns(axes: Axes, returns: np.ndarray) -> None:
    """Scales a panel logarithmically if some of its returns are much lower than others."""
    low, high = float(returns.min()), float(returns.max())
    if not low < FAR * high < 0:
        return
    axes.set_yscale("symlog", linthresh=-high, subs=(2, 5))
    locator = SymmetricalLogLocator(base=10, linthresh=-high, subs=(1, 2, 5))
    axes.yaxis.set_major_locator(locator)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.set_ylim(low * 1.3, high * 0.8)


COLOURS = 256
"""The number of colours of an animation, which all its frames share."""
METHOD = Image.Quantize.MAXCOVERAGE
"""Keeps the colours of large areas, such as white."""


def as_gif(figures: Sequence[Figure]) -> bytes:
    """Returns figures of one size as an animated GIF, which shows the last frame for longer."""
    frames = []
    for figure in figures:
        if frames:
            _lay_out_like(figures[0], figure)
        frames.append(Image.open(io.BytesIO(as_png(figure, 80))).convert("RGB"))
    some = np.hstack([frames[0], frames[len(frames) // 2], frames[-1]])
    palette = Image.fromarray(some).quantize(COLOURS, METHOD)
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    milliseconds = [250] * (len(few) - 1) + [2000]
    stream = io.BytesIO()
    few[0].save(stream, "GIF", save_all=True, append_images=few[1:], duration=milliseconds, loop=0)
    return stream.getvalue()


def _lay_out_like(first: Figure, figure: Figure) -> None:
    """Copies the layout of another figure, so that nothing jumps and it is computed once."""
    figure.set_layout_engine("none")
    for panel, pattern in zip(figure.axes, first.axes, strict=True):
        panel.set_axes_locator(None)  # pyright: ignore[reportArgumentType]
        panel.set_position(pattern.get_position())
