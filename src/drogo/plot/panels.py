"""Parts that several figures share."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

COLOURS = "viridis"
DIVERGING = "RdBu"
WALL = "#3a3a3a"
LINE = "#0072b2"


def as_png(figure: Figure, dpi: int = 130) -> bytes:
    """Returns a figure as the content of a PNG file. The same figure gives the same bytes."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def figure_of(axes: Axes) -> Figure:
    """Returns the figure that holds a panel."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def colour_bar(axes: Axes, shown: ScalarMappable, label: str) -> None:
    """Draws a colour bar that is as high as its panel."""
    figure_of(axes).colorbar(shown, cax=axes.inset_axes((1.03, 0, 0.05, 1))).set_label(label)


def finite_range(*arrays: np.ndarray) -> tuple[float, float]:
    """Returns the smallest and the largest finite value, a little apart if they are equal."""
    values = np.concatenate([array[np.isfinite(array)] for array in arrays])
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    return (low, high) if low < high else (low - 0.5, low + 0.5) if low == high else (0.0, 1.0)


class Row(NamedTuple):
    """A vector that is drawn into one panel, or into a row of them."""

    title: str
    values: np.ndarray
    label: str = "log e"
    colours: str = COLOURS


History = Mapping[str, np.ndarray]
Panels = tuple[Sequence[Row], Callable[[Axes], None]]
"""The contents of a figure: vectors, and a function that draws the panel after them."""


def of_fit(truth: np.ndarray | None, mean: np.ndarray, history: History) -> Panels:
    """Returns the contents of the figure of a fit.

    Args:
        truth: The exact vector, or None if there is none: then only the mean is drawn, beside the
            largest violations of an equation.
        mean: The mean of the learned vectors over the seeds.
        history: The history of the fit.
    """
    seeds = history["worst"].shape[1]
    learned = Row(f"learned, mean of {seeds} seeds" if seeds > 1 else "learned", mean)
    if truth is None:
        return [learned], partial(violations, history=history)
    with np.errstate(invalid="ignore"):
        error = Row("learned - exact", mean - truth, "difference of logs", DIVERGING)
    return [Row("exact column", truth), learned, error], partial(curves, history=history)


def options(rows: Sequence[Row], view: Callable[[np.ndarray], np.ndarray]) -> list[dict[str, Any]]:
    """Returns the drawing options of vectors: differences around 0, all others in shared colours.

    Args:
        rows: The vectors.
        view: Returns those values of a vector that are shown.
    """
    shared = finite_range(*(view(row.values) for row in rows if row.colours != DIVERGING))
    styled = []
    for row in rows:
        most = float(max(1e-6, *np.abs(finite_range(view(row.values)))))
        limits = (-most, most) if row.colours == DIVERGING else shared
        styled.append({**row._asdict(), "limits": limits})
    return styled


def curves(axes: Axes, history: History, name: str = "column") -> None:
    """Plots the distance from a perfect cosine for all seeds: a mean would hide one that failed.

    Args:
        axes: The panel.
        history: The history of a fit that was compared with a truth.
        name: The name of the truth.
    """
    distance = np.maximum(1 - history[f"cosine_{name}"], 1e-8)
    _learning_curves(axes, history["update"], distance, f"1 - cosine with the exact {name}")


def violations(axes: Axes, history: History) -> None:
    """Plots the largest violation of an equation, which needs no truth."""
    violation = np.maximum(history["worst"], 1e-6)
    _learning_curves(axes, history["update"], violation, "largest violation of an equation")


def _learning_curves(
    axes: Axes, updates: np.ndarray, values: Float[np.ndarray, "logged seeds"], label: str
) -> None:
    """Draws all seeds and their median over the updates, over a decade or more."""
    axes.plot(updates, values, color=LINE, alpha=0.5, linewidth=1)
    axes.plot(updates, np.median(values, axis=1), color="black", linewidth=2, label="median")
    if values.shape[1] > 1:
        axes.plot([], [], color=LINE, alpha=0.5, label="each seed")
        axes.legend(frameon=False)
    finite = values[np.isfinite(values)]
    lowest, largest = finite.min(initial=np.inf), finite.max(initial=1e-8)
    axes.set_yscale("log")
    axes.set_ylim(bottom=float(min(lowest, largest / 10)) / 1.3)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    axes.set(xlabel="updates", ylabel=label, title="learning curves")
    axes.grid(alpha=0.3)
