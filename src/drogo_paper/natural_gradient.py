"""Figure 6: the metric of log space, which motivates the natural gradient.

The same distance in e is short in v where e is large, and very long where e is small. A plain
gradient step hardly changes v there; a natural gradient step changes v equally everywhere.
"""

from __future__ import annotations

import numpy as np

from drogo.engines.job import Job
from drogo_paper.plot.figures import OKABE_ITO, new_figure
from drogo_paper.scope import Answer, Get, Scope

POINTS = (-3.0, -1.5, 0.0)
STEP = 0.25
"""Length of a step in v; a natural step has the same length everywhere."""


def jobs(scope: Scope, get: Get) -> list[Job]:
    return []


def answer(scope: Scope, get: Get) -> Answer:
    figure = new_figure(10, 4)
    left, right = figure.subplots(1, 2)
    v = np.linspace(-4, 0.5, 200)
    left.plot(v, np.exp(v), color="black", linewidth=1.5)
    for point, colour in zip(POINTS, (OKABE_ITO[1], OKABE_ITO[3], OKABE_ITO[6]), strict=True):
        target = point + STEP
        left.plot([point, target], [0, 0], color=colour, linewidth=6, solid_capstyle="butt")
        left.plot(
            [-4, -4], np.exp([point, target]), color=colour, linewidth=6, solid_capstyle="butt"
        )
        for x in (point, target):
            left.plot([x, x, -4], [0, np.exp(x), np.exp(x)], color=colour, linewidth=0.6)
    left.set_xlabel("v = log e")
    left.set_ylabel("e")
    left.set_title(f"the same step in v ({STEP:g}) is a tiny one in e where e is small")
    left.title.set_fontsize(9)
    depth = np.arange(0, 41)
    right.semilogy(depth, np.exp(-2.0 * depth), color=OKABE_ITO[1], label="plain gradient: e²")
    right.semilogy(depth, np.ones_like(depth, dtype=float), "--", color=OKABE_ITO[6],
                   label="natural gradient: 1")  # fmt: skip
    right.set_xlabel("-v: how far down the vector is (grid-maze: 39)")
    right.set_ylabel("size of a step in v, relative")
    right.set_title("what a gradient step does to v", fontsize=9)
    right.grid(alpha=0.3)
    right.legend(frameon=False)
    return Answer(
        "The metric of log space",
        "Figure 6, proposition 3.5",
        "The metric of v-space is diag(e²): at the far end of grid-maze a plain gradient step is "
        f"{np.exp(-2 * 39.0):.0e} of a natural one.",
        {"natural-gradient": figure},
    )
