"""With which shaping reward does an agent find the best return soonest, and avoid low rewards?

Every method runs in each world, over the whole grid of weights and step sizes, with all seeds.
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
from drogo_paper.jobs.shaping import ARRAYS, EVERY
from drogo_paper.scope import (
    DISCOUNT,
    INPUTS,
    LAM,
    WORLDS,
    Answer,
    Get,
    Missing,
    Scope,
    Table,
    needed,
)


def compared(world: str, rows: Mapping[str, Row]) -> list[tuple[str, str, str, str, str]]:
    """Rows of method, quantity, our number, the published one and the verdict."""
    lines = []
    for quantity, (unit, label) in UNITS.items():
        for method, row in rows.items():
            if method in (SR_DISTANCE, DR_EXACT):
                continue
            theirs = published.shaping(quantity, world, method)
            ours: Interval = getattr(row, quantity)
            printed = "-" if theirs is None else cell(theirs, unit)
            verdict = published.verdict(ours, theirs)
            lines.append((method, label, cell(ours, unit), printed, verdict))
    return lines


QUICK = (
    "Quick: 20,000 steps instead of 100,000, and fits that were stopped early. What does not "
    "converge here may with all of them, and visits are counted over a fifth of the time."
)


def job(scope: Scope, world: str, get: Get) -> Job | None:
    """Q-learning with every method in one world; None until the fits that it needs are done."""
    learned = {}
    for kind in INPUTS:
        record = get(fits.job(scope, world, kind))
        if record is None:
            return None
        learned[f"DR {kind}"] = record.arrays["v"].tolist()
    settings = {
        "world": world,
        "learned": learned,
        "seeds": scope.seeds,
        "lam": LAM,
        "discount": DISCOUNT,
        "steps": 20_000 if scope.quick else 100_000,
    }
    label = f"Q-learning in {world}"
    return Job("drogo_paper.jobs.shaping:run", settings, label, 40.0 * fits.SIZE[world])


def jobs(scope: Scope, get: Get) -> list[Job]:
    wanted = fits.jobs(scope)
    for world in WORLDS:
        comparison = job(scope, world, get)
        wanted += [] if comparison is None else [comparison]
    return wanted


def grids_of(scope: Scope, world: str, get: Get) -> dict[str, Grid]:
    comparison = job(scope, world, get)
    if comparison is None:
        raise Missing(f"A fit of {world} has not been run.")
    record = needed(get, comparison)
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
        order.append(slowest < steps[SR] < steps[NONE])  # inf < inf is False
        if not np.isfinite(steps[SR]):
            no_sr.append(world)
        elif all(rows[f"DR {kind}"].apart["steps_to_optimal"] for kind in INPUTS):
            apart += 1
    header = ["world", "quantity", "method", "here", "paper", "verdict", "weight, step size"]
    inside = sum("inside" in line[5] for line in lines)
    comparable = sum("-" not in (line[3], line[4]) for line in lines)
    without = f" In {', '.join(no_sr)} the SR never reaches the best return." if no_sr else ""
    return Answer(
        "Reward shaping",
        "Table 1",
        f"Every DR method reaches the best return before the SR, and the SR before no shaping, in "
        f"{sum(order)} of {len(WORLDS)} worlds; all intervals are apart from the SR's in {apart}."
        f"{without} Of {comparable} numbers that are in both, {inside} lie inside the published "
        "intervals.",
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
