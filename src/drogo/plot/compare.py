"""Two fits as a figure: both maps and their difference, and the learning curves of both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from drogo.plot import panels

SECOND = "#d55e00"
"""The colour of the second fit."""
Histories = tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]


def of_two_fits(first: np.ndarray, second: np.ndarray, histories: Histories) -> panels.Panels:
    """Returns what a figure shows of two fits.

    Args:
        first: The mean of what the seeds of the first fit learned.
        second: That of the second fit.
        histories: The histories of both fits.
    """
    a, b = map(panels.name_of_mean, histories)
    names = (b.replace("learned", "B"), a.replace("learned", "A"), "A - B")
    b, a, difference = panels.of_two(names, second, first)
    return [a, b, difference], partial(_draw_curves, histories=histories)


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


def _draw_curves(axes: Axes, histories: Histories) -> None:
    """Draws how far both fits are from the exact column, or else their largest violations."""
    is_known = all("cosine_column" in history for history in histories)
    measure = panels.distance if is_known else panels.violation
    (first, label), (second, _) = map(measure, histories)
    styles = ((first, "A", panels.LINE, "-"), (second, "B", SECOND, "--"))
    for history, (values, fit, colour, line) in zip(histories, styles, strict=True):
        axes.plot(history["update"], values, color=colour, alpha=0.35, linewidth=0.8)
        axes.plot(history["update"], np.median(values, axis=1), line, color=colour, linewidth=2,
                  label=f"{fit}, median" if values.shape[1] > 1 else fit)  # fmt: skip
    panels.scale_curves(axes, label, first, second)
    axes.legend(frameon=False)
