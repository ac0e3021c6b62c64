"""Table 1: how soon shaped agents find the best return, and how often they visit low rewards.

Every method runs in each world, over the whole grid of weights and step sizes, with all seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drogo.engines.job import Job, Outcome, Report
from drogo.engines.store import Record
from drogo.statistics import Interval
from drogo.worlds.grid import GridWorld
from drogo_paper import fits, published
from drogo_paper.agents import Grid, compare
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

ARRAYS = ("weight", "step_size", "returns", "arrived", "best_return", "low_reward_visits")
EVERY = 100
"""The default number of steps between evaluations."""


def run(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs all methods over the whole grid of weights and step sizes."""
    world = GridWorld.load(settings["world"])
    learned = {name: np.array(rows) for name, rows in settings["learned"].items()}
    lam, discount, seeds = settings["lam"], settings["discount"], settings["seeds"]
    every = settings.get("every", EVERY)
    evaluations = settings["steps"] // every
    grids = compare(
        world.mdp,
        potentials(world, learned, seeds=seeds, lam=lam, discount=discount),
        seeds=seeds,
        step_limit=world.step_limit,
        low_reward=world.low_reward,
        steps=settings["steps"],
        every=every,
        discount=discount,
        progress=lambda done: report(done / evaluations),
    )
    return Outcome(as_arrays(grids), {"methods": list(grids)})


def as_arrays(grids: Mapping[str, Grid]) -> dict[str, np.ndarray]:
    """Returns the arrays that are kept of the runs of each method."""
    arrays = {
        f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
    }
    for name, grid in grids.items():
        arrays[f"{name}/q"] = grid.q[grid.chosen][None]
    return arrays


VERSION = 1


def compared(world: str, rows: Mapping[str, Row]) -> list[tuple[str, str, str, str, str]]:
    """Returns rows of method, quantity, our number, the published one and the verdict."""
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


def steps_in(scope: Scope) -> int:
    """Returns the training steps of an agent."""
    return 20_000 if scope.quick else 100_000


def job(
    scope: Scope, world: str, get: Get, every: int = EVERY, kinds: Sequence[str] = INPUTS
) -> Job | None:
    """Returns the job of every method in one world; None until the fits that it needs are done.

    Args:
        scope: The size of the runs.
        world: The name of the world.
        get: Reads runs.
        every: Steps between evaluations.
        kinds: The inputs of the learned vectors.
    """
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
        "discount": DISCOUNT,
        "steps": steps_in(scope),
    }
    label = f"Q-learning in {world}"
    if every != EVERY:
        settings["every"] = every
        label += f", evaluated every {every} steps"
    return Job("drogo_paper.shaping:run", settings, label, 40.0 * fits.SIZE[world], VERSION)


def jobs(scope: Scope, get: Get) -> list[Job]:
    wanted = fits.jobs(scope)
    for world in WORLDS:
        comparison = job(scope, world, get)
        wanted += [] if comparison is None else [comparison]
    return wanted


def grids_of(
    scope: Scope, world: str, get: Get, every: int = EVERY, kinds: Sequence[str] = INPUTS
) -> dict[str, Grid]:
    """Returns the runs of each method in one world. The arguments are those of `job`."""
    comparison = job(scope, world, get, every, kinds)
    if comparison is None:
        raise Missing(f"A fit of {world} has not been run.")
    return grids_in(needed(get, comparison), every)


def grids_in(record: Record, every: int = EVERY) -> dict[str, Grid]:
    """Returns the runs of each method in a record of Q-learning."""
    parts = (*ARRAYS, "q")
    return {
        name: Grid(**{part: record.arrays[f"{name}/{part}"] for part in parts}, every=every)
        for name in record.facts["methods"]
    }


def answer(scope: Scope, get: Get) -> Answer:
    rows = {world: summarise(grids_of(scope, world, get)) for world in WORLDS}
    lines = [line for world in WORLDS for line in _lines(world, rows[world])]
    header = ["world", "quantity", "method", "here", "paper", "verdict", "weight, step size"]
    in_order = {world: _in_order(rows[world]) for world in WORLDS}
    verdict = _verdict(scope, rows, lines, sum(in_order.values()))
    if scope.quick:  # neither the published numbers nor a verdict about them
        header, lines = _without_paper(header), [_without_paper(line) for line in lines]
    return Answer(
        "Reward shaping",
        "Table 1",
        verdict,
        {},
        [Table(header, lines, _caption(scope))],
        numbers={"order of methods reproduced": in_order, "steps between evaluations": EVERY},
    )


def _verdict(
    scope: Scope, rows: Mapping[str, Mapping[str, Row]], lines: list[list[str]], in_order: int
) -> str:
    if scope.quick:
        return (
            f"{steps_in(scope):,} training steps with {scope.seeds} seeds, and fits that were "
            "stopped early: too short for a verdict."
        )
    apart = sum(
        all(rows[world][f"DR {kind}"].apart["steps_to_optimal"] for kind in INPUTS)
        for world in WORLDS
    )
    inside = sum("inside" in line[5] for line in lines)
    comparable = sum("-" not in (line[3], line[4]) for line in lines)
    return (
        f"Every DR method reaches the best return before the SR, and the SR before no shaping, in "
        f"{in_order} of {len(WORLDS)} worlds; all intervals are apart from the SR's in {apart}."
        f"{_without_sr(scope, rows)} Of {comparable} numbers that are in both, {inside} lie inside "
        "the published intervals."
    )


def _lines(world: str, rows: Mapping[str, Row]) -> list[list[str]]:
    """Returns the lines of the table about one world."""
    lines = []
    for method, label, ours, theirs, verdict in compared(world, rows):
        row = rows[method]
        quantity = next(q for q, (_, name) in UNITS.items() if name == label)
        shown = f"**{ours}**" if row.apart[quantity] else ours
        setting = f"{row.weight:g}, {row.step_size:g}"
        lines.append([world, label, method, shown, theirs, verdict, setting])
    return lines


def _without_paper(line: list[str]) -> list[str]:
    return line[:4] + line[6:]


def _in_order(rows: Mapping[str, Row]) -> bool:
    """Returns whether every DR method is faster than the SR, and the SR than no shaping."""
    steps = {name: row.steps_to_optimal.mean for name, row in rows.items()}
    slowest = max(steps[f"DR {kind}"] for kind in INPUTS)
    return bool(slowest < steps[SR] < steps[NONE])  # inf < inf is False


def _without_sr(scope: Scope, rows: Mapping[str, Mapping[str, Row]]) -> str:
    """Lists the worlds in which the SR does not converge."""
    never = [w for w in WORLDS if not np.isfinite(rows[w][SR].steps_to_optimal.mean)]
    within = f"within {steps_in(scope):,} steps"
    return (
        f" In {', '.join(never)} the SR does not reach the best return {within}." if never else ""
    )


def _caption(scope: Scope) -> str:
    return (
        f"{steps_in(scope):,} training steps, {scope.seeds} seeds, evaluated every {EVERY} steps, "
        f"of which N_OPT is a multiple with each seed. Mean and 95 % bootstrap interval over "
        "seeds; bold: below the SR's interval, without overlap. A dash: some seed did not converge."
    )
