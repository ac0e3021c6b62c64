"""Reward shaping: Table 1, its dependence on the interval between evaluations, and Figure 9. Every
method runs in each world over the whole grid of weights and step sizes, with all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drogo.worlds.grid import GridWorld
from drogo_paper import fits, published, scope as scopes
from drogo_paper.agents import Grid, Training, compare
from drogo_paper.agents.shaping_experiment import (
    DR_EXACT,
    NONE,
    SR,
    SR_DISTANCE,
    UNITS,
    Row,
    cell,
    potentials,
    summarise,
)
from drogo_paper.engines.job import Job, Outcome, Report
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import legend_below, new_figure, returns
from drogo_paper.scope import INPUTS, LAM, WORLDS, Answer, Get, Missing, Question, Scope, table_of

ARRAYS = ("weight", "step_size", "returns", "arrived", "best_return", "low_reward_visits")
EVERY = 100
"""The default number of steps between evaluations."""


def run(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs all methods over the whole grid of weights and step sizes."""
    world = GridWorld.load(settings["world"])
    learned = {name: np.array(rows) for name, rows in settings["learned"].items()}
    options = {name: settings[name] for name in ("lam", "discount", "seeds")}
    return train(world, potentials(world, learned, **options), settings, report)


def train(
    world: GridWorld,
    phis: Mapping[str, np.ndarray | None],
    settings: Mapping[str, Any],
    report: Report,
) -> Outcome:
    """Trains agents with each potential, and returns the arrays that are kept of their runs."""
    training = Training(
        world.step_limit, world.low_reward, settings["steps"], settings.get("every", EVERY),
        settings["discount"],
    )  # fmt: skip
    progress = lambda done: report(done / training.evaluations)  # noqa: E731
    grids = compare(world.mdp, phis, training, seeds=settings["seeds"], progress=progress)
    arrays = {
        f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
    }
    arrays |= {f"{name}/q": grid.q[grid.chosen][None] for name, grid in grids.items()}
    return Outcome(arrays, {"methods": list(grids)})


VERSION = 1


def steps_in(scope: Scope) -> int:
    return 20_000 if scope.quick else 100_000


def job(
    scope: Scope, world: str, get: Get, every: int = EVERY, kinds: Sequence[str] = INPUTS
) -> Job | None:
    """Returns the job of every method in one world; None until the fits of its vectors are done."""
    learned = {}
    for kind in kinds:
        record = get(fits.job(scope, world, kind))
        if record is None:
            return None
        learned[f"DR {kind}"] = record.arrays["v"].tolist()
    settings = {
        "world": world,
        "learned": learned,
        "seeds": scope.seeds,
        "lam": LAM,
        "discount": scopes.DISCOUNT,
        "steps": steps_in(scope),
    }
    label = f"Q-learning in {world}"
    if every != EVERY:
        settings["every"] = every
        label += f", evaluated every {every} steps"
    return Job("drogo_paper.shaping:run", settings, label, 40.0 * fits.SIZE[world], VERSION)


def jobs(scope: Scope, get: Get) -> list[Job]:
    compared = [job(scope, world, get) for world in WORLDS]
    return fits.jobs(scope) + [one for one in compared if one is not None]


def grids_of(
    scope: Scope, world: str, get: Get, every: int = EVERY, kinds: Sequence[str] = INPUTS
) -> dict[str, Grid]:
    """Returns the runs of each method in one world. The arguments are those of `job`."""
    comparison = job(scope, world, get, every, kinds)
    if comparison is None:
        raise Missing(f"A fit of {world} has not been run.")
    return grids_in(scopes.needed(get, comparison), every)


def grids_in(record: Record, every: int = EVERY) -> dict[str, Grid]:
    """Returns the runs of each method in a record of Q-learning."""
    parts = (*ARRAYS, "q")
    return {
        name: Grid(**{part: record.arrays[f"{name}/{part}"] for part in parts}, every=every)
        for name in record.facts["methods"]
    }


def answer(scope: Scope, get: Get) -> Answer:
    rows = {world: summarise(grids_of(scope, world, get)) for world in WORLDS}
    lines = [line for world in WORLDS for line in lines_of(world, rows[world])]
    header = ["world", "quantity", "method", "here", "paper", "verdict", "weight, step size"]
    in_order = {world: _in_order(rows[world]) for world in WORLDS}
    verdict = _verdict(scope, rows, lines, sum(in_order.values()))
    return Answer(
        "Reward shaping",
        "Table 1",
        verdict,
        tables=[table_of(scope, header, lines, _caption(scope), of_paper=(4, 5))],
        numbers={"order of methods reproduced": in_order, "steps between evaluations": EVERY},
    )


def _verdict(
    scope: Scope, rows: Mapping[str, Mapping[str, Row]], lines: list[list[str]], in_order: int
) -> str:
    if scope.quick:
        return (
            f"{steps_in(scope):,} training steps, and fits stopped early: too short for a verdict."
        )
    apart = sum(
        all(rows[world][f"DR {kind}"].apart["steps_to_optimal"] for kind in INPUTS)
        for world in WORLDS
    )
    inside = sum("inside" in line[5] for line in lines)
    comparable = sum("-" not in (line[3], line[4]) for line in lines)
    return (
        "Every DR method reaches the best return before the SR, and the SR before no shaping, in "
        f"{in_order} of {len(WORLDS)} worlds; all intervals are apart from the SR's in "
        f"{apart}.{_without_sr(scope, rows)} Of {comparable} numbers that are in both, {inside} "
        "lie inside the published intervals."
    )


def lines_of(world: str, rows: Mapping[str, Row]) -> list[list[str]]:
    """Returns the lines of the table about one world: of the methods that the paper has."""
    lines = []
    for quantity, (unit, label) in UNITS.items():
        for method, row in rows.items():
            if method in (SR_DISTANCE, DR_EXACT):
                continue
            theirs, ours = published.shaping(quantity, world, method), getattr(row, quantity)
            shown = f"**{cell(ours, unit)}**" if row.apart[quantity] else cell(ours, unit)
            printed = "-" if theirs is None else cell(theirs, unit)
            setting = f"{row.weight:g}, {row.step_size:g}"
            verdict = published.verdict(ours, theirs)
            lines.append([world, label, method, shown, printed, verdict, setting])
    return lines


def _in_order(rows: Mapping[str, Row]) -> bool:
    """Returns whether every DR method is faster than the SR, and the SR than no shaping."""
    steps = {name: row.steps_to_optimal.mean for name, row in rows.items()}
    slowest = max(steps[f"DR {kind}"] for kind in INPUTS)
    return bool(slowest < steps[SR] < steps[NONE])  # inf < inf is False


def _without_sr(scope: Scope, rows: Mapping[str, Mapping[str, Row]]) -> str:
    """Lists the worlds in which the SR does not converge."""
    never = ", ".join(w for w in WORLDS if not np.isfinite(rows[w][SR].steps_to_optimal.mean))
    within = f"within {steps_in(scope):,} steps"
    return f" In {never} the SR does not reach the best return {within}." if never else ""


def _caption(scope: Scope) -> str:
    return (
        f"{steps_in(scope):,} training steps, {scope.seeds} seeds, evaluated every {EVERY} steps, "
        "of which N_OPT is a multiple with each seed. Mean and 95 % bootstrap interval over seeds; "
        "bold: below the SR's interval, without overlap. A dash: some seed did not converge."
    )


LEARNED, LEARNED_QUICKLY = "DR pixels", "DR coordinates"
"""The shown curve; others are hardly different. A quick look stops fits from pixels too soon."""


def answer_with_curves(scope: Scope, get: Get) -> Answer:
    figure = new_figure(12, 8)
    shown = (NONE, SR, SR_DISTANCE, LEARNED_QUICKLY if scope.quick else LEARNED)
    for axes, world in zip(figure.subplots(2, 2).ravel(), WORLDS, strict=True):
        grids = grids_of(scope, world, get)
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


CLOSE_WORLD, CLOSE, CLOSE_KINDS = "four-rooms", 20, ("coordinates",)
CLOSE_METHOD = "DR coordinates"
"""The question about intervals: a published mean that is no multiple of 100, with an interval of
width 0, needs evaluations that are closer together."""


def jobs_of_intervals(scope: Scope, get: Get) -> list[Job]:
    both = [job(scope, CLOSE_WORLD, get, every, CLOSE_KINDS) for every in (EVERY, CLOSE)]
    fitted = [fits.job(scope, CLOSE_WORLD, kind) for kind in CLOSE_KINDS]
    return fitted + [one for one in both if one is not None]


def answer_about_intervals(scope: Scope, get: Get) -> Answer:
    rows = {
        every: summarise(grids_of(scope, CLOSE_WORLD, get, every, CLOSE_KINDS))
        for every in (EVERY, CLOSE)
    }
    unit, lines, inside = UNITS["steps_to_optimal"][0], [], dict.fromkeys(rows, 0)
    for method in rows[EVERY]:
        theirs = published.shaping("steps_to_optimal", CLOSE_WORLD, method)
        if theirs is None:
            continue
        for every, of_methods in rows.items():
            ours = of_methods[method].steps_to_optimal
            verdict = published.verdict(ours, theirs)
            inside[every] += "inside" in verdict
            lines.append([method, str(every), cell(ours, unit), cell(theirs, unit), verdict])
    parts = [
        f"{cell(of_methods[CLOSE_METHOD].steps_to_optimal, unit)} if evaluated every {every} steps"
        for every, of_methods in rows.items()
    ]
    here = f"N_OPT of {CLOSE_METHOD} is {' and '.join(parts)}, in thousands."
    paper = scope.against_paper(_about_published(inside, len(lines) // 2))
    header = ["method", "evaluated every", "N_OPT (×10³) here", "paper", "verdict"]
    caption = (
        f"{steps_in(scope):,} training steps, {scope.seeds} seeds. With each interval, the weight "
        "and step size with the lowest mean are reported."
    )
    return Answer(
        f"The interval between evaluations, in {CLOSE_WORLD}",
        "Table 1",
        f"{here} {paper}".strip(),
        tables=[table_of(scope, header, lines, caption, of_paper=(3, 4))],
        numbers={f"inside, every {every}": count for every, count in inside.items()},
    )


def _about_published(inside: Mapping[int, int], total: int) -> str:
    theirs = published.shaping("steps_to_optimal", CLOSE_WORLD, CLOSE_METHOD)
    assert theirs is not None
    counts = " and ".join(f"{count} of {total} every {every}" for every, count in inside.items())
    return (
        f"The paper prints {cell(theirs, UNITS['steps_to_optimal'][0])}: an interval of width 0 "
        f"around a number that is no multiple of {EVERY} steps cannot come from evaluations every "
        f"{EVERY} steps. Numbers inside the published intervals: {counts} steps."
    )


QUESTIONS = {
    "shaping": Question(answer, jobs),
    "shaping-interval": Question(answer_about_intervals, jobs_of_intervals),
    "shaping-curves": Question(answer_with_curves, jobs),
}
