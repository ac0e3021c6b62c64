"""Parts that several figures have in common."""

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
    """Draws a figure as PNG. The same figure gives the same bytes.

    Args:
        figure: The figure.
        dpi: Pixels per inch.

    Returns:
        The content of the file.
    """
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def figure_of(axes: Axes) -> Figure:
    """The figure that holds a panel."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def colour_bar(axes: Axes, shown: ScalarMappable, label: str) -> None:
    """Draws a colour bar that is as high as its panel."""
    figure_of(axes).colorbar(shown, cax=axes.inset_axes((1.03, 0, 0.05, 1))).set_label(label)


def finite_range(*arrays: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest finite value, a little apart if they are equal."""
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
"""What a figure shows: vectors, and a function that draws into the panel after them."""


def of_two(names: Sequence[str], first: np.ndarray, second: np.ndarray) -> list[Row]:
    """Returns two vectors and how far the second is above the first."""
    with np.errstate(invalid="ignore"):
        difference = Row(names[2], second - first, "difference of logs", DIVERGING)
    return [Row(names[0], first), Row(names[1], second), difference]


def of_fit(truth: np.ndarray | None, mean: np.ndarray, history: History) -> Panels:
    """Returns what a figure shows of a fit.

    Args:
        truth: The exact vector, or None if it is not known: then only the mean is drawn, beside the
            largest violations of an equation.
        mean: The mean of what the seeds learned.
        history: The history of the fit.
    """
    name = name_of_mean(history)
    if truth is None:
        return [Row(name, mean)], partial(violations, history=history)
    rows = of_two(("exact column", name, "learned - exact"), truth, mean)
    return rows, partial(curves, history=history)


def options(rows: Sequence[Row], view: Callable[[np.ndarray], np.ndarray]) -> list[dict[str, Any]]:
    """Returns how each vector is drawn: differences around 0, and all others in the same colours.

    Args:
        rows: The vectors.
        view: Returns those values of a vector that are shown.
    """
    shared = finite_range(*(view(row.values) for row in rows if row.colours != DIVERGING))
    drawn = []
    for row in rows:
        most = float(max(1e-6, *np.abs(finite_range(view(row.values)))))
        limits = (-most, most) if row.colours == DIVERGING else shared
        drawn.append({**row._asdict(), "limits": limits})
    return drawn


def curves(axes: Axes, history: History, name: str = "column") -> None:
    """Plot the distance from a perfect cosine for all seeds: a mean would hide one that failed.

    Args:
        axes: The panel.
        history: The history of a fit that had a truth to compare with.
        name: The name of the truth.
    """
    _learning_curves(axes, history["update"], *distance(history, name))


def violations(axes: Axes, history: History) -> None:
    """Plots the largest violation of an equation, which is known without a truth."""
    _learning_curves(axes, history["update"], *violation(history))


def distance(history: History, name: str = "column") -> tuple[np.ndarray, str]:
    """Returns the distance from a perfect cosine at each logged update, and what it is."""
    return np.maximum(1 - history[f"cosine_{name}"], 1e-8), f"1 - cosine with the exact {name}"


def violation(history: History) -> tuple[np.ndarray, str]:
    """Returns the largest violation of an equation at each logged update, and what it is."""
    return np.maximum(history["worst"], 1e-6), "largest violation of an equation"


def name_of_mean(history: History) -> str:
    """Returns the title of a panel with the mean of what the seeds of a fit learned."""
    seeds = history["worst"].shape[1]
    return f"learned, mean of {seeds} seeds" if seeds > 1 else "learned"


def _learning_curves(
    axes: Axes, updates: np.ndarray, values: Float[np.ndarray, "logged seeds"], label: str
) -> None:
    """Draws the values of all seeds over the updates, and their median."""
    axes.plot(updates, values, color=LINE, alpha=0.5, linewidth=1)
    axes.plot(updates, np.median(values, axis=1), color="black", linewidth=2, label="median")
    if values.shape[1] > 1:
        axes.plot([], [], color=LINE, alpha=0.5, label="each seed")
        axes.legend(frameon=False)
    scale_curves(axes, label, values)


def scale_curves(axes: Axes, label: str, *values: np.ndarray) -> None:
    """Scales a panel with learning curves logarithmically, over a decade or more, and labels it."""
    finite = np.concatenate([array[np.isfinite(array)] for array in values])
    lowest, largest = finite.min(initial=np.inf), finite.max(initial=1e-8)
    axes.set_yscale("log")
    axes.set_ylim(bottom=float(min(lowest, largest / 10)) / 1.3)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    axes.set(xlabel="updates", ylabel=label, title="learning curves")
    axes.grid(alpha=0.3)
