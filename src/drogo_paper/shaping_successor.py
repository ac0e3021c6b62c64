"""Does any reading of the SR's eigenvector keep it from converging in grid-room, as published?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drogo.agents import Grid
from drogo.agents.shaping_experiment import SR, UNITS, Row, cell, summarise
from drogo.runs.job import Job
from drogo.statistics import Interval
from drogo_paper import published, shaping
from drogo_paper.jobs.successor import USUAL
from drogo_paper.scope import DISCOUNT, Answer, Get, Scope, Table, needed

WORLD = "grid-room"
STEPS, VISITS = (UNITS[name][0] for name in ("steps_to_optimal", "low_reward_visits"))


def job(scope: Scope) -> Job:
    settings = {
        "world": WORLD,
        "seeds": scope.seeds,
        "discount": DISCOUNT,
        "steps": shaping.steps_in(scope),
    }
    return Job("drogo_paper.jobs.successor:run", settings, f"readings of the SR in {WORLD}", 100.0)


def jobs(scope: Scope, get: Get) -> list[Job]:
    return [job(scope)]


def answer(scope: Scope, get: Get) -> Answer:
    grids = shaping.grids_in(needed(get, job(scope)))
    rows = summarise(grids)
    never = [name for name, row in rows.items() if not np.isfinite(row.steps_to_optimal.mean)]
    told = (
        f"{_usual(scope, rows[USUAL])} {len(rows)} readings of its eigenvector were tried. Those "
        f"that do not converge with any setting: {', '.join(never) or 'none'}. "
        f"{_with_the_paper(rows, grids[USUAL], never)}"
    )
    short = f"{len(rows)} readings of the SR's eigenvector were tried, in runs that are too short "
    short += "for a verdict."
    return Answer(
        f"The SR in {WORLD}",
        "Table 1",
        short if scope.quick else told,
        {},
        [_readings_table(scope, rows, grids), _settings_table(grids[USUAL])],
        numbers={"readings": len(rows), "do not converge": never},
    )


def _usual(scope: Scope, row: Row) -> str:
    if not np.isfinite(row.steps_to_optimal.mean):
        within = f"within {shaping.steps_in(scope):,} steps"
        return f"With the settings of the table above, the SR does not converge {within}."
    steps = cell(row.steps_to_optimal, STEPS)
    paper = "in the paper it does not converge"
    return f"As in the table above, the SR converges after {steps} thousand steps; {paper}."


def _with_the_paper(rows: Mapping[str, Row], usual: Grid, never: list[str]) -> str:
    """Which readings and settings come out as published: no convergence, and as many visits."""
    theirs = published.shaping("low_reward_visits", WORLD, SR)
    assert theirs is not None
    like = [name for name, row in rows.items() if _inside(row.low_reward_visits.mean, theirs)]
    both = [name for name in like if name in never]
    text = (
        f"The paper prints no convergence and an N_VISIT of {cell(theirs, VISITS)}. Readings whose "
        f"best setting has such an N_VISIT: {', '.join(like) or 'none'}; those that have both: "
        f"{', '.join(both) or 'none'}."
    )
    if both:
        return text
    same = [
        f"{_setting(usual, k)} ({visits / VISITS:.2f}, {_converging(usual, k)} converge)"
        for k, visits in enumerate(usual.low_reward_visits.mean(axis=1))
        if _inside(visits, theirs) and np.isinf(usual.steps_to_optimal[k]).any()
    ]
    by_return = int(usual.returns.mean(axis=(1, 2)).argmax())
    visits = usual.low_reward_visits[by_return].mean() / VISITS
    settings = "no setting of the usual reading has both either"
    if same:
        settings = "these settings of the usual reading have both: " + "; ".join(same)
    return (
        f"{text} So none of these readings explains it. As for the point of the grid "
        f"that is reported, {settings}. If it were the one with the highest mean return, instead "
        f"of the lowest mean N_OPT, it would be {_setting(usual, by_return)}, with which "
        f"{_converging(usual, by_return)} converge and N_VISIT is {visits:.2f}. The paper does not "
        "print which setting it reports."
    )


def _inside(visits: float, theirs: Interval) -> bool:
    return theirs.low <= visits <= theirs.high


def _setting(grid: Grid, k: int) -> str:
    return f"weight {grid.weight[k]:g} and step size {grid.step_size[k]:g}"


def _converging(grid: Grid, k: int) -> str:
    steps = grid.steps_to_optimal[k]
    return f"{np.isfinite(steps).sum()} of {steps.size} seeds"


def _readings_table(scope: Scope, rows: Mapping[str, Row], grids: Mapping[str, Grid]) -> Table:
    header = ["reading", "N_OPT (×10³)", "settings that converge", "N_VISIT (×10²)",
              "weight, step size"]  # fmt: skip
    lines = []
    for name, row in rows.items():
        converge = np.isfinite(grids[name].steps_to_optimal).all(axis=1)
        steps, visits = cell(row.steps_to_optimal, STEPS), cell(row.low_reward_visits, VISITS)
        share = f"{converge.sum()} of {converge.size}"
        lines.append([name, steps, share, visits, f"{row.weight:g}, {row.step_size:g}"])
    return Table(
        header,
        lines,
        f"Exact potentials, each different from the first in the way that it names; "
        f"{scope.seeds} seeds, {shaping.steps_in(scope):,} steps. The first is minus the top "
        "eigenvector, taken positive, of the symmetrised SR with a discount of 0.99 and a zero row "
        "for the goal, divided by its mean step between neighbouring cells.",
    )


def _settings_table(usual: Grid) -> Table:
    lines = []
    for k, steps in enumerate(usual.steps_to_optimal):
        mean = f"{steps.mean() / STEPS:.2f}" if np.isfinite(steps).all() else "-"
        visits, earned = usual.low_reward_visits[k].mean() / VISITS, usual.returns[k].mean()
        lines.append([f"{usual.weight[k]:g}", f"{usual.step_size[k]:g}", mean,
                      _converging(usual, k), f"{visits:.2f}", f"{earned:.0f}"])  # fmt: skip
    header = ["weight", "step size", "N_OPT (×10³)", "converge", "N_VISIT (×10²)", "mean return"]
    return Table(header, lines, f"The reading '{USUAL}' with each setting.")
