"""Which shaping reward gets an agent to the best return soonest, and around the costly places?

Five methods and more in each world, the whole grid over weight and step size, ten seeds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drogo.agents import Grid
from drogo.agents.shaping_experiment import (
    DR_EXACT,
    NONE,
    SR,
    SR_DISTANCE,
    UNITS,
    Row,
    cell,
    summarise,
)
from drogo.runs.job import Job
from drogo.statistics import Interval
from drogo_paper import fits, published
from drogo_paper.scope import (
    INPUTS,
    WORLDS,
    Answer,
    Get,
    Missing,
    Scope,
    Table,
    needed,
)
from drogo_paper.shaping_runs import ARRAYS, EVERY


def compared(world: str, rows: Mapping[str, Row]) -> list[tuple[str, str, str, str, str]]:
    """Method, quantity, ours, published, verdict: for what the paper's table has."""
    lines = []
    for quantity, (unit, label) in UNITS.items():
        for method, row in rows.items():
            if method in (SR_DISTANCE, DR_EXACT):
                continue
            theirs = published.shaping(quantity, world, method)
            ours: Interval = getattr(row, quantity)
            told = "-" if theirs is None else cell(theirs, unit)
            lines.append((method, label, cell(ours, unit), told, published.verdict(ours, theirs)))
    return lines


QUICK = (
    "Quick: 20,000 steps instead of 100,000, and fits that were stopped early. What does not "
    "converge here may with all of them, and visits are counted over a fifth of the time."
)


def job(scope: Scope, world: str, get: Get) -> Job | None:
    """Q-learning with every method in one world; None while a fit it needs is not there."""
    learned = {}
    for kind in INPUTS:
        found = get(fits.job(scope, world, kind))
        if found is None:
            return None
        learned[f"DR {kind}"] = found.arrays["v"].tolist()
    settings = {
        "world": world,
        "learned": learned,
        "seeds": scope.seeds,
        "steps": 20_000 if scope.quick else 100_000,
    }
    label = f"Q-learning in {world}"
    return Job("drogo_paper.shaping_runs:run", settings, label, 40.0 * fits.SIZE[world])


def jobs(scope: Scope, get: Get) -> list[Job]:
    wanted = fits.jobs(scope)
    for world in WORLDS:
        made = job(scope, world, get)
        wanted += [] if made is None else [made]
    return wanted


def grids_of(scope: Scope, world: str, get: Get) -> dict[str, Grid]:
    asked = job(scope, world, get)
    if asked is None:
        raise Missing(f"a fit of {world} is not there.")
    record = needed(get, asked)
    parts = (*ARRAYS, "q")
    return {
        name: Grid(**{part: record.arrays[f"{name}/{part}"] for part in parts}, every=EVERY)
        for name in record.facts["methods"]
    }


def answer(scope: Scope, get: Get) -> Answer:
    lines, order, apart, no_sr = [], [], 0, []
    for world in WORLDS:
        rows = summarise(grids_of(scope, world, get))
        for method, label, ours, theirs, verdict in compared(world, rows):
            row = rows[method]
            quantity = next(q for q, (_, name) in UNITS.items() if name == label)
            shown = f"**{ours}**" if row.apart[quantity] else ours
            lines.append([world, label, method, shown, theirs, verdict,
                          f"{row.weight:g}, {row.step_size:g}"])  # fmt: skip
        steps = {name: row.steps_to_optimal.mean for name, row in rows.items()}
        slowest = max(steps[f"DR {kind}"] for kind in INPUTS)
        order.append(slowest < steps[SR] < steps[NONE])  # never is not sooner than never
        if not np.isfinite(steps[SR]):
            no_sr.append(world)
        elif all(rows[f"DR {kind}"].apart["steps_to_optimal"] for kind in INPUTS):
            apart += 1
    header = ["world", "quantity", "method", "here", "paper", "verdict", "weight, step size"]
    inside = sum("inside" in line[5] for line in lines)
    comparable = sum("-" not in (line[3], line[4]) for line in lines)
    without = f" In {', '.join(no_sr)} the SR does not get there at all." if no_sr else ""
    return Answer(
        "Reward shaping",
        "Table 1",
        f"Every DR method gets there before the SR, and the SR before no shaping, in {sum(order)} "
        f"of {len(WORLDS)} worlds; with all intervals apart from the SR's in {apart}.{without} "
        f"Of {comparable} numbers that are in both, {inside} lie inside the published intervals.",
        {},
        [
            Table(
                header,
                lines,
                "Mean and 95 % bootstrap interval over seeds; bold: below the SR's interval, "
                "without overlap. A dash: some seed did not converge.",
            )
        ],
        notes=[QUICK] if scope.quick else [],
        numbers={"order of methods reproduced": dict(zip(WORLDS, map(bool, order), strict=True))},
    )
