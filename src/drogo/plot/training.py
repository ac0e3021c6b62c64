"""Learning curves of agents whose returns may differ by orders of magnitude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, SymmetricalLogLocator

from drogo.plot.shaping import LINES, OKABE_ITO, legend_below

FAR = 10.0
"""If the lowest return is so many times the highest, the scale is logarithmic."""
Curve = tuple[np.ndarray, np.ndarray]
"""Steps, and the return after each."""


def growth(curves: Mapping[str, Sequence[Curve]], *, title: str, label: str) -> Figure:
    """Draws how returns grow: a thin line for each seed, and a thicker one for their median.

    Args:
        curves: By method, the curve of each seed.
        title: The title of the figure.
        label: What a return is.
    """
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for k, (name, seeds) in enumerate(curves.items()):
        colour, steps = OKABE_ITO[(6, 1)[k % 2]], seeds[0][0]
        alone = "o" if steps.size == 1 else None  # a line of one point would not be seen
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
    """Scales returns so that both failed and good episodes can be read: logarithmically if some are
    much lower than others.

    Args:
        axes: The panel.
        returns: All returns that it shows.
    """
    low, high = float(returns.min()), float(returns.max())
    if not low < FAR * high < 0:
        return
    axes.set_yscale("symlog", linthresh=-high, subs=(2, 5))
    locator = SymmetricalLogLocator(base=10, linthresh=-high, subs=(1, 2, 5))
    axes.yaxis.set_major_locator(locator)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.set_ylim(low * 1.3, high * 0.8)
