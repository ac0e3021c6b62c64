"""Panels: vectors over images, cells or observations; learning curves; certificates; files."""

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from drogo.errors import ArgumentError, ArgumentTypeError, check_whole, counted

MOST_POINTS = 10_000
MOST_POINTS_FOR_DIRECTIONS = 1000
AREA, FEW_POINTS = 12_000.0, 60
"""The area of all points of a cloud, in square points, and the number below which it is less."""
VERDICTS = (
    ("within the tolerance", "#009e73", "o"),
    ("undecided", "#999999", "s"),
    ("off by more", "#d55e00", "X"),
)
COLOURS, DIVERGING = "viridis", "RdBu"
WALL, LOW_REWARD, MINUS_INFINITY = "#3a3a3a", "#d55e00", "#d9d9d9"
LINE = "#0072b2"


class Panel(NamedTuple):
    """A vector, and how it is drawn into a panel."""

    values: np.ndarray
    title: str = ""
    label: str = "log e"  # The name of the values.
    colours: str = COLOURS
    limits: tuple[float, float] | None = None
    """The range of the colour scale, by default that of the values."""


Observations = Shaped[np.ndarray, "n ..."]
Below = Callable[[Axes], None] | None
View = Callable[[np.ndarray], np.ndarray]
Draw = Callable[[Axes, Panel], object]
History = Mapping[str, np.ndarray]
Panels = tuple[Sequence[Panel], Below]
"""The contents of a figure: vectors, and a function that draws the panel after them, if any."""


def as_png(figure: Figure, dpi: int = 130) -> bytes:
    """Returns a figure as the content of a PNG file. The same figure gives the same bytes."""
    check_whole("dpi", dpi, 1, 10_000)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def figure_of(axes: Axes) -> Figure:
    """Returns the figure that holds a panel."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def finite_range(*arrays: np.ndarray) -> tuple[float, float]:
    """Returns the smallest and the largest finite value, a little apart if they are equal."""
    values = np.concatenate([array[np.isfinite(array)] for array in arrays])
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    return (low, high) if low < high else (low - 0.5, low + 0.5) if low == high else (0.0, 1.0)


def scaled(panels: Sequence[Panel], view: View = np.asarray) -> list[Panel]:
    """Returns panels with colour scales: symmetric for differences, one for all other values."""
    shared = finite_range(*(view(panel.values) for panel in panels if panel.colours != DIVERGING))

    def limits(panel: Panel) -> tuple[float, float]:
        if panel.colours != DIVERGING:
            return panel.limits or shared
        most = float(max(1e-6, *np.abs(finite_range(view(panel.values)))))
        return -most, most

    return [panel._replace(limits=limits(panel)) for panel in panels]


def draw_image(axes: Axes, panel: Panel, *, has_bar: bool = True, **options: Any) -> AxesImage:
    """Draws a panel whose values are an image, with the `options` of `imshow`."""
    options |= {"cmap": panel.colours, "clim": panel.limits, "interpolation": "nearest"}
    image = axes.imshow(panel.values, **options)
    if has_bar:
        colour_bar(axes, image, panel.label)
    axes.set_title(panel.title)
    return image


def draw_cells(
    axes: Axes, panel: Panel, ground: Shaped[np.ndarray, "h w"], *, has_bar: bool = True
) -> AxesImage:
    """Draws a panel over cells, which are 0, or 1 for a wall, or 2 for lava."""
    palette = ListedColormap([MINUS_INFINITY, WALL, LOW_REWARD])
    axes.imshow(ground, cmap=palette, vmin=0, vmax=2, interpolation="nearest")
    image = draw_image(axes, panel, has_bar=has_bar)
    axes.set(xlabel="column", ylabel="row")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return image


def colour_bar(axes: Axes, shown: ScalarMappable, label: str) -> None:
    """Draws a colour bar that is as high as its panel."""
    figure_of(axes).colorbar(shown, cax=axes.inset_axes((1.03, 0, 0.05, 1))).set_label(label)


def write_letter(
    axes: Axes, at: tuple[Any, Any], letter: str, *, size: float = 8.0, dark: bool = False
) -> None:
    """Writes a letter in a box around a point, black on white or, if `dark`, white on black."""
    face, ink = ("#222222", "white") if dark else ("white", "black")
    box = {"boxstyle": "round,pad=0.12", "facecolor": face, "edgecolor": ink, "linewidth": 0.6}
    axes.text(*at, letter, ha="center", va="center", fontsize=size, fontweight="bold", color=ink,
              bbox=box)  # fmt: skip


def of_fit(truth: np.ndarray | None, mean: np.ndarray, history: History) -> Panels:
    """Returns the contents of the figure of a fit: with a truth, that and the error too."""
    seeds = history["worst"].shape[1]
    learned = Panel(mean, f"learned, mean of {seeds} seeds" if seeds > 1 else "learned")
    below = partial(curves, history=history, has_truth=truth is not None)
    if truth is None:
        return [learned], below
    with np.errstate(invalid="ignore"):
        error = Panel(mean - truth, "learned - exact", "difference of logs", DIVERGING)
    return [Panel(truth, "exact column"), learned, error], below


def check_history(history: Any, *more: str) -> None:
    """Raises an error unless an argument is the history of a fit, with some rows."""
    for name in {"update", "worst", *more} - history.keys():
        raise ArgumentError(f"history has no {name}; give solution.history.", argument="history")


def curves(axes: Axes, history: History, *, has_truth: bool = True) -> None:
    """Plots the distance of all seeds from a perfect cosine, or the largest violations."""
    check_history(history, *["cosine_column"] * has_truth)
    worst, label = history["worst"], "largest violation of an equation"
    values = np.maximum(worst, worst[worst > 0].min(initial=1.0))  # 0 where it is within noise
    if has_truth:
        values = np.maximum(1 - history["cosine_column"], 1e-8)
        label = "1 - cosine with the exact column"
    axes.plot(history["update"], values, color=LINE, alpha=0.5, linewidth=1)
    median = np.median(values, axis=1)  # a mean would hide a seed that failed
    axes.plot(history["update"], median, color="black", linewidth=2, label="median")
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


def side_by_side(
    draw: Draw, shown: Panels, *, title: str, size: tuple[float, float] = (11.0, 9.0)
) -> Figure:
    """Draws one vector, or two and their difference, and the panel after them, if there is one."""
    panels, below = shown
    rows, columns = len(panels) // 2 + 1, 1 if below is None else 2
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=None if rows == 1 else 0.12)
    figure = Figure(figsize=size if rows > 1 else (columns * 5.5, 4.6), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, panel in zip(axes, scaled(panels), strict=False):
        draw(place, panel)
    if below is not None:
        below(axes[-1])
    figure.suptitle(title)
    return figure


def draw_cloud(
    axes: Axes, panel: Panel, observations: Observations, names: tuple[str, str] | None = None
) -> None:
    """Draws values at observations, on two principal components, or at named coordinates."""
    low, high = panel.limits or finite_range(panel.values)
    some = np.random.default_rng(0).permutation(len(observations))[:MOST_POINTS]
    values = panel.values[some]
    axes.set_title(panel.title)
    if observations[0].size == 1 or (names is not None and not names[1]):
        observations = observations.reshape(len(observations), -1)[:, :1]
        axes.plot(observations[some].ravel(), values, "o", color=LINE, markersize=4)
        margin = 0.05 * (high - low)
        axes.set(xlabel=names[0] if names else "observation", ylabel=panel.label)
        axes.set_ylim(low - margin, high + margin)
        axes.grid(alpha=0.3)
        return
    rows, names = plane_of(observations[some]) if names is None else (observations[some], names)
    look: dict[str, Any] = {"s": max(AREA / max(len(rows), FEW_POINTS), 6.0), "linewidths": 0}
    axes.scatter(*rows[~np.isfinite(values)].T, c=MINUS_INFINITY, **look)
    shown = axes.scatter(*rows.T, c=values, cmap=panel.colours, vmin=low, vmax=high, **look)
    colour_bar(axes, shown, panel.label)
    axes.set(xlabel=names[0], ylabel=names[1])


def plane_of(observations: Observations) -> tuple[Float[np.ndarray, "n 2"], tuple[str, str]]:
    """Returns two coordinates of each observation and their names."""
    rows = observations.reshape(len(observations), -1).astype(np.float64)
    if rows.shape[1] == 1:
        return np.column_stack([rows, np.zeros(len(rows))]), ("observation", "")
    if rows.shape[1] == 2:
        return rows, ("first number of the observation", "second number of the observation")
    rows = rows - rows.mean(axis=0)
    few = rows[:MOST_POINTS_FOR_DIRECTIONS]
    directions = np.zeros((2, rows.shape[1]))
    components = np.linalg.svd(few, full_matrices=False)[2][:2]
    directions[: len(components)] = components  # a single observation has one direction
    name = "principal component of the observations"
    return rows @ directions.T, (f"1st {name}", f"2nd {name}")


def certificate(result: Any, *, title: str = "") -> Figure:
    """Draws where the values of all seeds hold, and each value beside its interval."""
    if not hasattr(result, "refuted"):
        raise ArgumentTypeError("result is no certificate of drogo.certify.", argument="result")
    places, names = plane_of(result.observations)
    figure = Figure(figsize=(11.0, 4.6), layout=ConstrainedLayoutEngine(w_pad=0.12))
    left, right = figure.subplots(1, 2)
    verdict = np.where(result.refuted, 2, np.where(result.held, 0, 1))
    worst = verdict.max(axis=0)
    for k, (label, colour, mark) in enumerate(VERDICTS):
        at, those = worst == k, verdict == k
        left.scatter(*places[at].T, c=colour, marker=mark, s=45, label=f"{label} ({at.sum()})")
        claimed, estimate = result.claimed[those], result.estimate[those]
        interval = np.stack([estimate - result.low[those], result.high[those] - estimate])
        right.errorbar(
            claimed, np.where(np.isfinite(estimate), estimate, np.nan),
            np.where(np.isfinite(interval), np.maximum(interval, 0.0), 0.0),
            fmt=mark, color=colour, markersize=5, elinewidth=1,
        )  # fmt: skip
    low, high = float(result.claimed.min()), float(result.claimed.max())
    right.plot([low, high], [low, high], color="black", linewidth=1, zorder=0)
    low, high = finite_range(result.claimed, result.estimate)  # intervals may be much longer
    right.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    left.set(xlabel=names[0], ylabel=names[1])
    left.set_title(f"worst of {counted(len(result.seeds), 'seed')}")
    left.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)
    right.set(xlabel="learned value", ylabel="value by rollouts", title="every seed")
    right.grid(alpha=0.3)
    figure.suptitle(title)
    return figure
