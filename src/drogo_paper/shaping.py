"""Which shaping reward gets an agent to the best return soonest, and around the costly places?

Five methods and more in each world, the whole grid over weight and step size, ten seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drogo.agents import Grid
from drogo.runs import Interval, bootstrap_mean
from drogo.runs.job import Job
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
from drogo_paper.shaping_runs import (
    ARRAYS,
    DR_EXACT,
    EVERY,
    NONE,
    SR,
    SR_DISTANCE,
)

UNITS = {"steps_to_optimal": (1000, "N_OPT (×10³)"), "low_reward_visits": (100, "N_VISIT (×10²)")}
"""How the paper's table gives them."""


@dataclass(frozen=True)
class Row:
    """One method in one world, at the setting that is reported."""

    weight: float
    step_size: float
    steps_to_optimal: Interval
    low_reward_visits: Interval
    unfinished: int
    """Seeds that never got to the best return for good."""
    apart: Mapping[str, bool]
    """Whether an interval lies below the SR's without touching it."""


def summarise(grids: Mapping[str, Grid], seed: int = 0) -> dict[str, Row]:
    """The table's rows. Intervals are bootstraps over seeds; `seed` is that of the resampling."""

    def intervals(grid: Grid) -> dict[str, Interval]:
        k = grid.chosen
        values = {
            "steps_to_optimal": grid.steps_to_optimal[k],
            "low_reward_visits": grid.low_reward_visits[k].astype(np.float64),
        }
        return {
            name: bootstrap_mean(row, np.random.default_rng(seed)) for name, row in values.items()
        }

    found = {name: intervals(grid) for name, grid in grids.items()}

    def row(name: str, grid: Grid) -> Row:
        mine, baseline = found[name], found.get(SR)
        k = grid.chosen
        return Row(
            weight=float(grid.weight[k]),
            step_size=float(grid.step_size[k]),
            steps_to_optimal=mine["steps_to_optimal"],
            low_reward_visits=mine["low_reward_visits"],
            unfinished=int(np.isinf(grid.steps_to_optimal[k]).sum()),
            apart={
                q: baseline is not None
                and bool(np.isfinite(baseline[q].low) and mine[q].high < baseline[q].low)
                for q in UNITS
            },
        )

    return {name: row(name, grid) for name, grid in grids.items()}


def cell(interval: Interval, unit: int) -> str:
    """`1.37 [1.33, 1.41]` in the table's unit, or a dash for no convergence."""
    if not np.isfinite(interval.mean):
        return "-"
    mean, low, high = (number / unit for number in interval)
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


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
