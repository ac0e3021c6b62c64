"""Exploration with options that climb the default representation.

The experiment of Tse, Chandrasekar and Machado (2025): options discovered with the successor (CEO)
and the default representation (RACE), beside a random walk. Beside them: the same cycle with exact
vectors in place of learned ones, which has no step size and no passes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from drogo.engines.job import Job
from drogo.statistics import Interval, bootstrap_mean
from drogo_paper import published
from drogo_paper.jobs.options import (
    CEO,
    CEO_EXACT,
    EVERY,
    ITERATIONS,
    METHODS,
    PUBLISHED,
    RACE,
    RACE_EXACT,
    STEPS,
    UNTRIED,
    WALK,
)
from drogo_paper.plot.figures import OKABE_ITO, legend_below, new_figure
from drogo_paper.published import DISCOVERED
from drogo_paper.scope import Answer, Get, Scope, Table, needed

VERSION = 1
SECONDS = {CEO: 60.0, RACE: 15.0, CEO_EXACT: 40.0, RACE_EXACT: 40.0, UNTRIED: 10.0, WALK: 3.0}
"""The expected seconds of a job in the larger worlds."""
QUICK_ITERATIONS = 5
SHOWN = {"visited": "{:.3f}", "visited at the end": "{:.2f}", "reward": "{:.1f}"}

Numbers = Mapping[str, Float[np.ndarray, " seeds"]]
Results = Mapping[tuple[str, str], Mapping[str, np.ndarray]]


def job(scope: Scope, world: str, method: str) -> Job:
    """Returns the job of one method in one world."""
    iterations = QUICK_ITERATIONS if scope.quick else EVERY[world]
    settings = {
        "world": world, "method": method, "seeds": scope.seeds, "iterations": iterations,
    }  # fmt: skip
    name = "drogo_paper.jobs.options:discover_options"
    return Job(name, settings, f"options, {method} in {world}", SECONDS[method], VERSION)


def jobs(scope: Scope, get: Get) -> list[Job]:
    return [job(scope, world, method) for world in ITERATIONS for method in METHODS]


def numbers_of(arrays: Mapping[str, np.ndarray], steps: int = STEPS) -> Numbers:
    """Returns the published quantities of each seed: shares, and thousands of rewards."""
    visited = arrays["visited"]
    reward = arrays["reward"].sum(axis=1) * steps / 1000
    parts = (visited.mean(axis=1), visited[:, -1], reward)
    return dict(zip(DISCOVERED, parts, strict=True))


def answer(scope: Scope, get: Get) -> Answer:
    records = {
        (world, method): needed(get, job(scope, world, method))
        for world in ITERATIONS
        for method in METHODS
    }
    results = {key: record.arrays for key, record in records.items()}
    numbers = {key: numbers_of(arrays) for key, arrays in results.items()}
    inaccurate = sum(record.facts.get("inaccurate", 0) for record in records.values())
    header = ["world", "method"]
    for quantity in DISCOVERED:
        header += [quantity, "published"]
    lines = [[*key, *_cells(scope, *key, numbers[key])] for key in numbers]
    if scope.quick:
        header = [name for name in header if name != "published"]
    return Answer(
        "Option discovery",
        "its figures on option discovery",
        _verdict(scope, numbers),
        {"options": _figure(results)},
        [Table(header, lines, _caption(scope))],
        [] if scope.quick else _notes(numbers, inaccurate),
        {
            world: {m: float(numbers[world, m]["visited"].mean()) for m in METHODS}
            for world in ITERATIONS
        },
        paper="Tse, Chandrasekar and Machado (2025)",
    )


def mean_of(of_seeds: np.ndarray) -> Interval:
    """Returns the mean over seeds, with its interval."""
    return bootstrap_mean(of_seeds, np.random.default_rng(0), resamples=1000)


def shown(quantity: str, interval: Interval) -> str:
    """Returns a mean with its interval, unless that has no width, as text."""
    mean, low, high = (SHOWN[quantity].format(number) for number in interval)
    return mean if low == high else f"{mean} [{low}, {high}]"


def _cells(scope: Scope, world: str, method: str, numbers: Numbers) -> list[str]:
    theirs = published.options(world, method)
    cells = []
    for quantity in DISCOVERED:
        ours = mean_of(numbers[quantity])
        cells.append(shown(quantity, ours))
        if scope.quick:
            continue
        if theirs is None:
            cells.append("-")
            continue
        mean, error = theirs[quantity]
        inside = "inside" in published.verdict_of_mean(ours, mean, error)
        cells.append(SHOWN[quantity].format(mean) + ("" if inside else " (outside)"))
    return cells


def _verdict(scope: Scope, numbers: Mapping[tuple[str, str], Numbers]) -> str:
    if scope.quick:
        return f"{QUICK_ITERATIONS} iterations: too short for a verdict."
    inside = total = 0
    for world in ITERATIONS:
        for method in PUBLISHED:
            theirs = published.options(world, method)
            for quantity, (mean, error) in (theirs or {}).items():
                ours = mean_of(numbers[world, method][quantity])
                inside += "inside" in published.verdict_of_mean(ours, mean, error)
                total += 1
    cheaper = all(
        numbers[world, RACE]["reward"].mean() > numbers[world, CEO]["reward"].mean()
        for world in ITERATIONS
    )
    costs = (
        "RACE costs less than CEO in all worlds, as published"
        if cheaper
        else "RACE does not cost less than CEO in all worlds, other than published"
    )
    both = {
        world: [f"{numbers[world, method]['reward'].mean():.1f}" for method in (RACE, CEO)]
        for world in ITERATIONS
    }
    pairs = ", ".join(f"{' and '.join(shown)} in {world}" for world, shown in both.items())
    return (
        f"{inside} of {total} published means lie in our 95 % intervals, as far as they can be "
        f"read. {costs}: {pairs} (thousands)."
    )


def _caption(scope: Scope) -> str:
    return (
        f"The share of states visited, in the mean over all steps and at the end, and the sum of "
        f"rewards in thousands. Mean and 95 % bootstrap interval over {scope.seeds} seeds"
        + scope.against_paper(
            ". Published means are read off figures (±0.01 and ±0.1); outside: not in our interval "
            "even so"
        )
        + "."
    )


def _notes(numbers: Mapping[tuple[str, str], Numbers], inaccurate: int) -> list[str]:
    """Describes the differences from the published runs, and the results of exact vectors."""

    def means(method: str, quantity: str) -> str:
        shown = (f"{numbers[world, method][quantity].mean():.2f}" for world in ITERATIONS)
        return ", ".join(shown)

    return [
        "The random walk is the published one, step by step: its random numbers follow from its "
        "seeds. The walks of the other methods have numbers of our own, and options are solved "
        "exactly where the published script learns them from all steps until nothing changes by "
        "more than 1e-5. Eigenvectors are computed in double precision by squaring a matrix of "
        "positive numbers, in place of 100 digits of which single precision is kept. "
        f"{inaccurate} of them were not accurate.",
        "A learned table is as it was at first where it was not updated. The vector of CEO is "
        "smallest, and that of RACE largest, in states with few visits, and this is what "
        "leads options there. Exact vectors of what was seen know nothing of that. They lead to "
        "its edge too, but also where nothing new is near, and explore less: "
        f"{means(RACE_EXACT, 'visited')} visited by RACE, exact, and "
        f"{means(CEO_EXACT, 'visited')} by CEO, exact.",
        "If actions that were never tried count as ends that are worth reaching, the exact map "
        "explores without a step size, passes or a norm: it leads to the nearest such action "
        f"around what is costly. It visits {means(UNTRIED, 'visited')} with the settings of RACE. "
        "When everything was tried there is no option left, and the rest is a random walk, which "
        "its rewards include.",
    ]


def _figure(results: Results) -> Figure:
    figure = new_figure(13, 6)
    panels = figure.subplots(2, len(ITERATIONS), sharex="col")
    for column, world in zip(panels.T, ITERATIONS, strict=True):
        for method, colour in zip(METHODS, OKABE_ITO, strict=False):
            arrays = results[world, method]
            line = "-" if method in PUBLISHED else "--"
            style = {"color": colour, "linewidth": 1.5, "label": method}
            visited = arrays["visited"].mean(axis=0)[:: STEPS + 1]
            reward = arrays["reward"].mean(axis=0).cumsum() * STEPS / 1000
            column[0].plot(np.arange(len(visited)), visited, line, **style)
            column[1].plot(np.arange(1, len(reward) + 1), reward, line, **style)
        column[0].set(title=world, ylim=(0, 1.02))
        column[1].set_xlabel(f"iterations of {STEPS} steps")
        for axes in column:
            axes.grid(alpha=0.3)
    panels[0, 0].set_ylabel("share of states visited")
    panels[1, 0].set_ylabel("sum of rewards (thousands)")
    legend_below(figure, panels[0, 0])
    return figure
