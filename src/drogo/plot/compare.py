"""Two fits as a figure: both maps and their difference, and the learning curves of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from drogo.plot import panels
from drogo.plot.scenes import Row, draw_scene, row_over, rows_of_scenes, write_legend

if TYPE_CHECKING:
    from drogo.worlds.minigrid.scenes import Scene

SECOND = "#d55e00"
"""The colour of the second fit."""
Histories = tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]


def compared_by(
    draw: Callable[..., object],
    first: np.ndarray,
    second: np.ndarray,
    histories: Histories,
    *,
    title: str,
) -> Figure:
    """Draws two vectors, their difference and the learning curves.

    Args:
        draw: Called with a vector, `axes`, `title` and `limits`, and with `colours` and `label` for
            the difference.
        first: The mean of what the seeds of the first fit learned.
        second: That of the second fit.
        histories: The histories of both fits.
        title: The title of the figure.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(11.0, 9.0), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
    (top_left, top_right), (left, right) = figure.subplots(2, 2)
    limits, most = _limits([first, second], [first - second])
    draw(first, axes=top_left, title=_title("A", histories[0]), limits=limits)
    draw(second, axes=top_right, title=_title("B", histories[1]), limits=limits)
    draw(first - second, axes=left, title="A - B", label="difference of logs",
         colours=panels.DIVERGING, limits=(-most, most))  # fmt: skip
    _draw_curves(right, histories)
    figure.suptitle(title)
    return figure


def compared_scenes(
    scenes: Sequence[Scene],
    first: Float[np.ndarray, " states"],
    second: Float[np.ndarray, " states"],
    histories: Histories,
    *,
    title: str,
) -> Figure:
    """Draws two vectors over the scenes of a MiniGrid environment.

    Args:
        scenes: The scenes.
        first: The mean of what the seeds of the first fit learned, over all states.
        second: That of the second fit.
        histories: The histories of both fits.
        title: The title of the figure.

    Returns:
        The figure.
    """
    if len(scenes) == 1:
        (scene,) = scenes
        draw = partial(draw_scene, scene)
        fields = (scene.over_cells(first), scene.over_cells(second))
        figure = compared_by(draw, *fields, histories, title=title)
        write_legend(figure, scenes)
        return figure
    vectors = [row_over(scenes, part) for part in (first, second)]
    limits, most = _limits(vectors, [row_over(scenes, first - second)])
    rows = [
        Row(_title("A", histories[0]), first, limits),
        Row(_title("B", histories[1]), second, limits),
        Row("A - B", first - second, (-most, most), panels.DIVERGING, "difference of logs"),
    ]
    return rows_of_scenes(scenes, rows, partial(_draw_curves, histories=histories), title=title)


def compared_curves(
    first: Float[np.ndarray, " shared"],
    second: Float[np.ndarray, " shared"],
    histories: Histories,
    *,
    title: str,
) -> Figure:
    """Draws the learning curves of two fits, and the values of one against those of the other.

    Args:
        first: The mean of what the seeds of the first fit learned, where both have a value.
        second: That of the second fit. If both are empty, only the curves are drawn.
        histories: The histories of both fits.
        title: The title of the figure.

    Returns:
        The figure.
    """
    has_values = first.size > 0
    size = (11.0, 4.8) if has_values else (7.0, 4.8)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    axes = figure.subplots(1, 1 + has_values, squeeze=False)[0]
    _draw_curves(axes[-1], histories)
    if has_values:
        low, high = panels.finite_range(first, second)
        axes[0].axline((low, low), (high, high), color="#777777", linewidth=0.8)
        axes[0].plot(first, second, "o", color=panels.LINE, markersize=3, alpha=0.5)
        axes[0].set(xlabel="log e in A", ylabel="log e in B", title="observations in common")
        axes[0].grid(alpha=0.3)
    figure.suptitle(title)
    return figure


def _limits(
    vectors: Sequence[np.ndarray], difference: Sequence[np.ndarray]
) -> tuple[tuple[float, float], float]:
    """The range of two vectors, and the largest absolute difference between them."""
    most = max(1e-6, *np.abs(panels.finite_range(*difference)))
    return panels.finite_range(*vectors), float(most)


def _title(name: str, history: Mapping[str, np.ndarray]) -> str:
    return panels.name_of_mean(history).replace("learned", name)


def _draw_curves(axes: Axes, histories: Histories) -> None:
    """Draws how far both fits are from the exact column, or else their largest violations."""
    label, worst = "largest violation of an equation", 1e-6
    name = "worst"
    if all("cosine_column" in history for history in histories):
        name, label, worst = "cosine_column", "1 - cosine with the exact column", 1e-8
    lowest, largest = np.inf, 1e-8
    styles = (("A", panels.LINE, "-"), ("B", SECOND, "--"))
    for history, (fit, colour, line) in zip(histories, styles, strict=True):
        values = 1 - history[name] if name == "cosine_column" else history[name]
        values = np.maximum(values, worst)
        axes.plot(history["update"], values, color=colour, alpha=0.35, linewidth=0.8)
        axes.plot(history["update"], np.median(values, axis=1), line, color=colour, linewidth=2,
                  label=f"{fit}, median" if values.shape[1] > 1 else fit)  # fmt: skip
        finite = values[np.isfinite(values)]
        lowest = min(lowest, float(finite.min(initial=np.inf)))
        largest = max(largest, float(finite.max(initial=1e-8)))
    axes.set_yscale("log")
    axes.set_ylim(bottom=min(lowest, largest / 10) / 1.3)  # At least a decade.
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    axes.set(xlabel="updates", ylabel=label, title="learning curves")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
