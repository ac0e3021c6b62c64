"""Readings of "the principal eigenvector of the SR", whose published runs do not converge."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from drogo.potential import normalised
from drogo.worlds.grid import GridWorld
from drogo_paper import published, shaping
from drogo_paper.agents import Grid
from drogo_paper.agents.representations import random_walk
from drogo_paper.agents.shaping_experiment import SR, UNITS, Row, cell, summarise
from drogo_paper.engines.job import Job, Outcome, Report
from drogo_paper.scope import DISCOUNT, Answer, Get, Scope, Table, needed
from drogo_paper.statistics import Interval

Matrix = Float[np.ndarray, "states states"]
Vector = Float[np.ndarray, " states"]

USUAL = "as in the table"
"""Minus the top eigenvector of (SR + SR')/2, with a zero row for the goal, normalised."""


def run(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs all readings over the whole grid of weights and step sizes."""
    world = GridWorld.load(settings["world"])
    vectors = readings(world, settings["discount"])
    phis = {name: np.repeat(phi[None], settings["seeds"], axis=0) for name, phi in vectors.items()}
    return shaping.train(world, phis, settings, report)


def readings(world: GridWorld, discount: float) -> dict[str, Vector]:
    """Returns the potentials by name. Each differs from the first in the one way that it names."""
    mdp, goal = world.mdp, world.terminal
    P = mdp.P.toarray()
    absorbing = P + np.diag(goal.astype(float))
    e = top(symmetric(successor(P, discount)))
    at_goal = top(symmetric(successor(absorbing, discount)))
    single = top(symmetric(successor(P.astype(np.float32), discount)))
    scale: Callable[[Vector], Vector] = lambda phi: normalised(phi, mdp.neighbours)  # noqa: E731
    return {
        USUAL: scale(-e),
        "other sign": scale(e),
        "goal absorbing": scale(at_goal),
        "goal absorbing, other sign": scale(-at_goal),
        "goal not terminal, second eigenvector": scale(_second(world, discount)),
        "not divided (unit norm)": -e,
        "divided by its largest entry": -e / e.max(),
        "divided by its standard deviation": -e / e.std(),
        "discount of the SR 0.9": scale(-top(symmetric(successor(P, 0.9)))),
        "discount of the SR 0.999": scale(-top(symmetric(successor(P, 0.999)))),
        "right eigenvector, not symmetrised": scale(-_perron(P)),
        "left eigenvector, not symmetrised": scale(-_perron(P.T)),
        "P symmetrised instead of the SR": scale(-top(successor(symmetric(P), discount))),
        "log of the eigenvector": scale(-np.log(e)),
        "squared distance to the goal": scale(-((e - e[goal][0]) ** 2)),
        "potential of the goal 0": np.where(goal, 0.0, scale(-e)),
        "single precision": scale(-single.astype(np.float64)),
    }


def successor(P: Matrix, discount: float) -> Matrix:
    """Returns the SR, (I - discount P)^-1, in the precision of P."""
    return np.linalg.inv(np.eye(len(P), dtype=P.dtype) - P.dtype.type(discount) * P)


def symmetric(M: Matrix) -> Matrix:
    return (M + M.T) / 2


def top(M: Matrix) -> Vector:
    """Returns the eigenvector of the largest eigenvalue of a symmetric matrix, taken positive."""
    e = np.linalg.eigh(M)[1][:, -1]
    return e * np.sign(e.sum())


def _perron(P: Matrix) -> Vector:
    """Returns the right eigenvector of the largest eigenvalue, the same at every discount."""
    values, vectors = np.linalg.eig(P)
    e = np.real(vectors[:, np.real(values).argmax()])
    return e * np.sign(e.sum())


def _second(world: GridWorld, discount: float) -> Vector:
    """Returns the second eigenvector of an SR whose goal is a cell like any other, highest there.
    The first is constant: moves can be undone, so the matrix is symmetric."""
    P = random_walk(world.without_goals())
    second = np.linalg.eigh(symmetric(successor(P, discount)))[1][:, -2]
    return second * np.sign(second[world.terminal][0])


VERSION = 2
WORLD = "grid-room"
STEPS, VISITS = (UNITS[name][0] for name in ("steps_to_optimal", "low_reward_visits"))


def job(scope: Scope) -> Job:
    settings = {
        "world": WORLD,
        "seeds": scope.seeds,
        "discount": DISCOUNT,
        "steps": shaping.steps_in(scope),
    }
    label = f"readings of the SR in {WORLD}"
    return Job("drogo_paper.shaping_successor:run", settings, label, 100.0, VERSION)


def jobs(scope: Scope, get: Get) -> list[Job]:
    return [job(scope)]


def answer(scope: Scope, get: Get) -> Answer:
    grids = shaping.grids_in(needed(get, job(scope)))
    rows = summarise(grids)
    never = [name for name, row in rows.items() if not np.isfinite(row.steps_to_optimal.mean)]
    verdict = (
        f"{_usual(scope, rows[USUAL])} {len(rows)} readings of its eigenvector were tried. Those "
        f"that do not converge with any setting: {', '.join(never) or 'none'}. "
        f"{_with_the_paper(rows, grids[USUAL], never)}"
    )
    short = f"{len(rows)} readings of the SR's eigenvector: runs are too short for a verdict."
    return Answer(
        f"The SR in {WORLD}",
        "Table 1",
        short if scope.quick else verdict,
        tables=[_readings_table(scope, rows, grids), _settings_table(grids[USUAL])],
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
    """Lists the readings and settings with the published result: no convergence, as many visits."""
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
    return (
        f"{text} Of the usual reading, these settings have both: {'; '.join(same) or 'none'}. That "
        f"with the highest mean return is {_setting(usual, by_return)}, with which "
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
        f"Exact potentials; {scope.seeds} seeds, {shaping.steps_in(scope):,} steps. The first is "
        "minus the top eigenvector, taken positive, of the symmetrised SR with a discount of 0.99 "
        "and a zero row for the goal, divided by its mean step between neighbouring cells.",
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
