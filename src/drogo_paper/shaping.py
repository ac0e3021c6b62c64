"""Reward shaping: Table 1 and Figure 9. Every method runs in each world over the whole grid of
weights and step sizes, with all seeds. N_OPT is measured in two ways, from the same runs:

| protocol | evaluations | N_OPT |
|---|---|---|
| text | every 100 steps | the first evaluation from which on all are optimal |
| code | every step | the last step whose return differs from the final one, plus 1 |
"""

from collections.abc import Mapping
from dataclasses import replace
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

ARRAYS = ("weight", "step_size", "returns", "arrived", "best_return", "low_reward_visits",
          "until_final")  # fmt: skip
EVERY = 100
"""The number of steps between evaluations in the text."""
PROTOCOLS = ("text", "code")


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
        world.step_limit, world.low_reward, settings["steps"], EVERY, settings["discount"],
        every_step=True,
    )  # fmt: skip
    progress = lambda done: report(done / training.evaluations)  # noqa: E731
    grids = compare(world.mdp, phis, training, seeds=settings["seeds"], progress=progress)
    arrays = {
        f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
    }
    arrays |= {f"{name}/q": grid.q[grid.chosen][None] for name, grid in grids.items()}
    return Outcome(arrays, {"methods": list(grids)})


VERSION = 2


def steps_in(scope: Scope) -> int:
    return 20_000 if scope.quick else 100_000


def job(scope: Scope, world: str, get: Get) -> Job | None:
    """Returns the job of every method in one world; None until the fits of its vectors are done."""
    learned = {}
    for kind in INPUTS:
        record = get(fits.job(scope, world, kind))
        if record is None:
            return None
        maps = record.arrays["v"]
        learned[f"DR {kind}"] = [maps[k % len(maps)].tolist() for k in range(scope.seeds)]
    settings = {
        "world": world,
        "learned": learned,
        "seeds": scope.seeds,
        "lam": LAM,
        "discount": scopes.DISCOUNT,
        "steps": steps_in(scope),
    }
    label = f"Q-learning in {world}"
    return Job("drogo_paper.shaping:run", settings, label, 40.0 * fits.SIZE[world], VERSION)


def jobs(scope: Scope, get: Get) -> list[Job]:
    compared = [job(scope, world, get) for world in WORLDS]
    return fits.jobs(scope) + [one for one in compared if one is not None]


def grids_of(scope: Scope, world: str, get: Get, protocol: str = "code") -> dict[str, Grid]:
    """Returns the runs of each method in one world, whose N_OPT follows a protocol."""
    comparison = job(scope, world, get)
    if comparison is None:
        raise Missing(f"A fit of {world} has not been run.")
    return grids_in(scopes.needed(get, comparison), protocol)


def grids_in(record: Record, protocol: str = "code") -> dict[str, Grid]:
    """Returns the runs of each method in a record of Q-learning."""
    grids = {}
    for name in record.facts["methods"]:
        parts = {part: record.arrays[f"{name}/{part}"] for part in (*ARRAYS, "q")}
        grid = Grid(**parts, every=EVERY)
        grids[name] = grid if protocol == "code" else replace(grid, until_final=None)
    return grids


def answer(scope: Scope, get: Get) -> Answer:
    rows = {
        protocol: {world: summarise(grids_of(scope, world, get, protocol)) for world in WORLDS}
        for protocol in PROTOCOLS
    }
    lines = [line for world in WORLDS for line in lines_of(world, rows)]
    header = ["world", "quantity", "method", "paper", "code", "verdict", "text", "verdict",
              "weight, step size"]  # fmt: skip
    of_code = rows["code"]
    in_order = {world: _in_order(of_code[world]) for world in WORLDS}
    inside = {
        protocol: sum("inside" in line[column] for line in lines)
        for protocol, column in zip(PROTOCOLS, (7, 5), strict=True)
    }
    comparable = sum("-" not in (line[3], line[4]) for line in lines)
    return Answer(
        "Reward shaping",
        "Table 1",
        _verdict(scope, of_code, inside, comparable, sum(in_order.values())),
        tables=[table_of(scope, header, lines, _caption(scope), of_paper=(3, 5, 7))],
        numbers={"order of methods reproduced": in_order, "inside": inside, "of": comparable},
    )


def _verdict(
    scope: Scope,
    rows: Mapping[str, Mapping[str, Row]],
    inside: Mapping[str, int],
    comparable: int,
    in_order: int,
) -> str:
    if scope.quick:
        return (
            f"{steps_in(scope):,} training steps, and fits stopped early: too short for a verdict."
        )
    apart = sum(
        all(rows[world][f"DR {kind}"].apart["steps_to_optimal"] for kind in INPUTS)
        for world in WORLDS
    )
    return (
        "Every DR method reaches the best return before the SR, and the SR before no shaping, in "
        f"{in_order} of {len(WORLDS)} worlds; all intervals are apart from the SR's in "
        f"{apart}.{_without_sr(scope, rows)} Of {comparable} numbers that are in both, "
        f"{inside['code']} lie inside the published intervals as the authors' code measures, and "
        f"{inside['text']} as the text says."
    )


def lines_of(world: str, rows: Mapping[str, Mapping[str, Mapping[str, Row]]]) -> list[list[str]]:
    """Returns the lines of the table about one world: of the methods that the paper has."""
    lines = []
    for quantity, (unit, label) in UNITS.items():
        for method, row in rows["code"][world].items():
            if method in (SR_DISTANCE, DR_EXACT):
                continue
            theirs, cells = published.shaping(quantity, world, method), []
            for protocol in reversed(PROTOCOLS):
                one = rows[protocol][world][method]
                ours = getattr(one, quantity)
                shown = f"**{cell(ours, unit)}**" if one.apart[quantity] else cell(ours, unit)
                cells += [shown, published.verdict(ours, theirs)]
            printed = "-" if theirs is None else cell(theirs, unit)
            setting = f"{row.weight:g}, {row.step_size:g}"
            lines.append([world, label, method, printed, *cells, setting])
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
        f"{steps_in(scope):,} training steps, {scope.seeds} seeds. Code: N_OPT as the authors' "
        "code measures it, the last step whose return differs from the final one, plus 1. Text: "
        f"the first evaluation, every {EVERY} steps, from which on all are optimal. Each reports "
        "the weight and step size with the lowest mean, of code in the last column. Mean and 95 % "
        "bootstrap interval over seeds; bold: below the SR's interval, without overlap. A dash: "
        "some seed did not converge."
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


QUESTIONS = {
    "shaping": Question(answer, jobs),
    "shaping-curves": Question(answer_with_curves, jobs),
}
