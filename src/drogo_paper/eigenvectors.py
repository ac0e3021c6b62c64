"""Figure 5: learned vectors beside the truth."""

from __future__ import annotations

import numpy as np

from drogo.engines.job import Job
from drogo.exact import log_column
from drogo.plot import heatmap
from drogo.worlds.grid import GridWorld
from drogo_paper import fits
from drogo_paper.plot.figures import new_figure
from drogo_paper.scope import INPUTS, LAM, WORLDS, Answer, Get, Scope, needed


def jobs(scope: Scope, get: Get) -> list[Job]:
    return fits.jobs(scope)


def answer(scope: Scope, get: Get) -> Answer:
    figure = new_figure(15, 12.5)
    shapes = [GridWorld.load(name).shape for name in WORLDS]
    heights = [height / width for height, width in shapes]  # no room is left around a wide world
    panels = figure.subplots(len(WORLDS), 1 + len(INPUTS), height_ratios=heights)
    largest = 0.0
    for row, name in zip(panels, WORLDS, strict=True):
        world = GridWorld.load(name)
        truth = log_column(world.mdp, LAM)
        limits = (float(truth.min()), 0.0)
        heatmap(world, truth, title=f"{name}: exact", axes=row[0], limits=limits, numbers=False)
        for axes, kind in zip(row[1:], INPUTS, strict=True):
            v = needed(get, fits.job(scope, name, kind)).arrays["v"].mean(axis=0)
            largest = max(largest, float(np.abs(v - truth).max()))
            heatmap(world, v, title=kind, axes=axes, limits=limits, numbers=False)
    for axes in panels.ravel():
        axes.set_xlabel("")
        axes.set_ylabel("")
    return Answer(
        "Learned vectors beside the truth",
        "Figure 5",
        "Averaged over seeds, no log entry of any learned vector is off by more than "
        f"{largest:.2f}.",
        {"eigenvectors": figure},
        numbers={"largest difference of a mean": largest},
    )
