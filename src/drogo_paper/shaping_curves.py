"""Figure 9: learning curves with each shaping reward."""

from __future__ import annotations

from drogo.engines.job import Job
from drogo_paper import shaping
from drogo_paper.agents.shaping_experiment import NONE, SR, SR_DISTANCE
from drogo_paper.plot.figures import legend_below, new_figure, returns
from drogo_paper.scope import WORLDS, Answer, Get, Scope
from drogo_paper.shaping import EVERY

LEARNED, LEARNED_QUICKLY = "DR pixels", "DR coordinates"
"""The curves of the other inputs are hardly different; the paper shows pixels too. A quick look
stops fits from pixels long before they have learned anything."""


def jobs(scope: Scope, get: Get) -> list[Job]:
    return shaping.jobs(scope, get)


def answer(scope: Scope, get: Get) -> Answer:
    figure = new_figure(12, 8)
    shown = (NONE, SR, SR_DISTANCE, LEARNED_QUICKLY if scope.quick else LEARNED)
    for axes, world in zip(figure.subplots(2, 2).ravel(), WORLDS, strict=True):
        grids = shaping.grids_of(scope, world, get)
        curves = {name: grids[name].returns[grids[name].chosen] for name in shown}
        best = float(grids[NONE].best_return.mean())
        returns(curves, EVERY, best, title=world, axes=axes)
    legend_below(figure, figure.axes[0])
    return Answer(
        "Learning curves of shaped Q-learning",
        "Figure 9",
        "Mean return of a greedy episode with a 95 % bootstrap band, every seed faint behind it.",
        {"shaping-curves": figure},
    )
