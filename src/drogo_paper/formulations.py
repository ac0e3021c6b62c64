"""Figure 3: a terminal state in the DR, absorbing with a tiny cost or as a zero row."""

from __future__ import annotations

import numpy as np

from drogo.engines.job import Job
from drogo.exact import solve
from drogo.plot import heatmap
from drogo.worlds.grid import GridWorld
from drogo_paper.plot.figures import new_figure
from drogo_paper.scope import WORLDS, Answer, Get, Scope, Table

LAMBDAS = (1.3, 5.0, 10.0, 20.0, 100.0)
SHOWN = "four-rooms"
FORMULATIONS = {"zero-row": "zero row (before)", "absorbing": "absorbing (the paper's)"}


def jobs(scope: Scope, get: Get) -> list[Job]:
    return []


def answer(scope: Scope, get: Get) -> Answer:
    figure = new_figure(3.4 * len(LAMBDAS), 5.8)
    world = GridWorld.load(SHOWN)
    for row, (terminal, name) in zip(
        figure.subplots(2, len(LAMBDAS)), FORMULATIONS.items(), strict=True
    ):
        for axes, lam in zip(row, LAMBDAS, strict=True):
            solved = solve(world.mdp, lam, "representation", terminal=terminal)
            title = f"{name}, λ = {lam:g}"
            heatmap(world, solved.log_e, title=title, axes=axes, numbers=False)
            axes.title.set_fontsize(9)
            axes.set_xlabel("")
            axes.set_ylabel("")
    rows, lost, zero = [], 0, 0
    for name in WORLDS:
        world = GridWorld.load(name)
        for terminal, title in FORMULATIONS.items():
            cells = []
            for lam in LAMBDAS:
                solved = solve(world.mdp, lam, "representation", terminal=terminal)
                at_goal = bool(world.terminal[int(np.argmax(solved.log_e))])
                lost += terminal == "absorbing" and not at_goal
                zero += terminal != "absorbing" and at_goal
                cells.append("goal" if at_goal else "elsewhere")
            rows.append([name, title, *cells])
    kept = "in every world at every λ" if not lost else f"but not in {lost} of the cases"
    return Answer(
        "Two formulations of a terminal state",
        "Figure 3",
        f"With an absorbing terminal state the vector is largest at the goal {kept}; with a zero "
        f"row it is in {zero} of {len(rows) // 2 * len(LAMBDAS)} cases.",
        {"formulations": figure},
        [
            Table(
                ["world", "terminal state", *(f"λ = {lam:g}" for lam in LAMBDAS)],
                rows,
                "Where the exact vector (`representation`) is largest.",
            )
        ],
    )
