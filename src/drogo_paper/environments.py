"""Figure 4: the worlds of the paper."""

from __future__ import annotations

from drogo.engines.job import Job
from drogo.worlds.grid import GridWorld
from drogo_paper.agents import optimal_values
from drogo_paper.plot.figures import new_figure
from drogo_paper.scope import WORLDS, Answer, Get, Scope, Table


def jobs(scope: Scope, get: Get) -> list[Job]:
    return []


def answer(scope: Scope, get: Get) -> Answer:
    figure = new_figure(12, 3.6)
    rows = []
    for axes, name in zip(figure.subplots(1, len(WORLDS)), WORLDS, strict=True):
        world = GridWorld.load(name)
        start = int(world.start.argmax())
        axes.imshow(world.picture(start), interpolation="nearest")
        axes.set_title(name)
        axes.set_xticks([])
        axes.set_yticks([])
        height, width = world.shape
        best = optimal_values(world.mdp)[start]
        rows.append([name, f"{width} x {height}", str(world.n_states), str(world.low_reward.sum()),
                     str(world.step_limit), f"{best:g}"])  # fmt: skip
    figure.supxlabel("blue: start, green: goal (0), orange: low reward (-20), white: -1")
    header = ["world", "cells", "states", "low-reward cells", "step limit", "best return"]
    return Answer(
        "The worlds",
        "Figure 4",
        "All four worlds are shipped as text maps.",
        {"environments": figure},
        [Table(header, rows)],
    )
