"""A certificate as a figure: where a map holds, where it does not, and where it is undecided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from drogo.plot.fields import WIDE, plane_of

if TYPE_CHECKING:
    from drogo.learn.certify import Certificate

VERDICTS = (
    ("within the tolerance", "#009e73", "o"),
    ("undecided", "#999999", "s"),
    ("off by more", "#d55e00", "X"),
)


def certificate(result: Certificate, *, title: str = "") -> Figure:
    """Draws where the values of all seeds hold, and each value beside its interval.

    Args:
        result: The certificate.
        title: The title of the figure.
    """
    places, names = plane_of(result.observations)
    figure = Figure(figsize=WIDE, layout=ConstrainedLayoutEngine(w_pad=0.12))
    left, right = figure.subplots(1, 2)
    verdict = np.where(result.refuted, 2, np.where(result.held, 0, 1))
    worst = verdict.max(axis=0)
    for k, (label, colour, mark) in enumerate(VERDICTS):
        at = worst == k
        left.scatter(*places[at].T, c=colour, marker=mark, s=45, label=f"{label} ({at.sum()})")
        seed, state = np.nonzero(verdict == k)
        claimed, estimate = result.claimed[seed, state], result.estimate[seed, state]
        interval = np.stack(
            [estimate - result.low[seed, state], result.high[seed, state] - estimate]
        )
        right.errorbar(
            claimed, np.where(np.isfinite(estimate), estimate, np.nan),
            np.where(np.isfinite(interval), np.maximum(interval, 0.0), 0.0),
            fmt=mark, color=colour, markersize=5, elinewidth=1,
        )  # fmt: skip
    low, high = float(result.claimed.min()), float(result.claimed.max())
    right.plot([low, high], [low, high], color="black", linewidth=1, zorder=0)
    left.set(title=f"worst of {len(result.seeds)} seed(s)", xlabel=names[0], ylabel=names[1])
    left.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)
    right.set(xlabel="learned value", ylabel="value by rollouts", title="every seed")
    right.grid(alpha=0.3)
    figure.suptitle(title)
    return figure
