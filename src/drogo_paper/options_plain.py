"""Exploration with options where no cell costs more than another.

The worlds of the question `options` without their low-reward cells (Tse, Chandrasekar and Machado,
2025, figure 3). Rewards are the same everywhere, so that only visits are of interest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from drogo.engines.job import Job
from drogo_paper import published
from drogo_paper.jobs.options import CEO, PLAIN, PUBLISHED, RACE, STEPS, UNTRIED, WALK
from drogo_paper.options import QUICK_ITERATIONS, job, mean_of, numbers_of, shown
from drogo_paper.plot.figures import OKABE_ITO, legend_below, new_figure
from drogo_paper.scope import Answer, Get, Scope, Table, needed

METHODS = (*PUBLISHED, UNTRIED)
QUANTITIES = published.DISCOVERED[:2]

Results = Mapping[tuple[str, str], Mapping[str, np.ndarray]]


BLIND = (WALK, CEO)
"""Methods that do not see rewards: their visits are those of the worlds with low-reward cells, with
the same seeds and settings, and are not computed again."""


def plain_job(scope: Scope, world: str, method: str) -> Job:
    """Returns the job whose visits are those of a method in a plain world."""
    return job(scope, world.removesuffix("-plain") if method in BLIND else world, method)


def jobs(scope: Scope, get: Get) -> list[Job]:
    return [plain_job(scope, world, method) for world in PLAIN for method in METHODS]


def answer(scope: Scope, get: Get) -> Answer:
    keys = [(world, method) for world in PLAIN for method in METHODS]
    results = {key: needed(get, plain_job(scope, *key)).arrays for key in keys}
    header, lines, inside, total = ["world", "method"], [], 0, 0
    for quantity in QUANTITIES:
        header += [quantity] if scope.quick else [quantity, "published"]
    for world, method in keys:
        numbers, cells = numbers_of(results[world, method]), [world, method]
        theirs = published.options(world, method) or {}
        for quantity in QUANTITIES:
            ours = mean_of(numbers[quantity])
            cells.append(shown(quantity, ours))
            if scope.quick:
                continue
            if quantity not in theirs:
                cells.append("-")
                continue
            mean, error = theirs[quantity]
            is_inside = "inside" in published.verdict_of_mean(ours, mean, error)
            inside, total = inside + is_inside, total + 1
            cells.append(f"{mean:.3f}"[:5] + ("" if is_inside else " (outside)"))
        lines.append(cells)
    return Answer(
        "Option discovery without low-reward cells",
        "its figure 3",
        _verdict(scope, results, inside, total),
        {"options-plain": _figure(results)},
        [Table(header, lines, _caption(scope))],
        [
            "The random walk and CEO do not see rewards, so that their visits are those of the "
            "worlds with low-reward cells."
        ],
        {
            world: {m: float(results[world, m]["visited"].mean()) for m in METHODS}
            for world in PLAIN
        },
        paper="Tse, Chandrasekar and Machado (2025)",
    )


def _verdict(scope: Scope, results: Results, inside: int, total: int) -> str:
    if scope.quick:
        return f"{QUICK_ITERATIONS} iterations: too short for a verdict."
    pairs = [
        f"{results[world, RACE]['visited'].mean():.2f} and "
        f"{results[world, CEO]['visited'].mean():.2f} in {world}"
        for world in PLAIN
    ]
    return (
        f"{inside} of {total} published means lie in our 95 % intervals, as far as they can be "
        f"read. RACE and CEO visit {', '.join(pairs)}."
    )


def _caption(scope: Scope) -> str:
    return (
        "The share of states visited, in the mean over all steps and at the end. Mean and 95 % "
        f"bootstrap interval over {scope.seeds} seeds"
        + scope.against_paper(
            ". Published means are read off a figure (±0.01), in which the line of CEO lies behind "
            "that of RACE for the most part; outside: not in our interval even so"
        )
        + "."
    )


def _figure(results: Results) -> Figure:
    figure = new_figure(13, 3.2)
    panels = figure.subplots(1, len(PLAIN))
    for axes, world in zip(panels, PLAIN, strict=True):
        for method, colour in zip(METHODS, OKABE_ITO, strict=False):
            visited = results[world, method]["visited"].mean(axis=0)[:: STEPS + 1]
            line = "-" if method in PUBLISHED else "--"
            axes.plot(np.arange(len(visited)), visited, line, color=colour, label=method)
        axes.set(title=world, ylim=(0, 1.02), xlabel=f"iterations of {STEPS} steps")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("share of states visited")
    legend_below(figure, panels[0])
    return figure
