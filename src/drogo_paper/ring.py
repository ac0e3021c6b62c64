"""Figure 1: rewards on a ring, in the default and in the successor representation.

The paper does not give the map of its ring; the shipped one follows its description: a ring with a
low-reward stretch at its top, between start and goal.
"""

from __future__ import annotations

import numpy as np

from drogo.engines.job import Job
from drogo.exact import log_column
from drogo.plot import heatmap
from drogo.worlds.grid import GridWorld
from drogo_paper.agents.shaping_experiment import successor_potential
from drogo_paper.plot.figures import new_figure
from drogo_paper.scope import Answer, Get, Scope

LAM = 1.3
"""The paper gives no lambda for this figure; this is the one of the earlier work."""


def jobs(scope: Scope, get: Get) -> list[Job]:
    return []


def climb(world: GridWorld, potential: np.ndarray) -> list[int]:
    """Returns the states of the steepest ascent from the start to the goal or a local maximum."""
    path = [int(world.start.argmax())]
    while not world.terminal[path[-1]]:
        following = world.next_state[path[-1]]
        best = int(following[potential[following].argmax()])
        if potential[best] <= potential[path[-1]]:
            break
        path.append(best)
    return path


def answer(scope: Scope, get: Get) -> Answer:
    world = GridWorld.load("ring")
    vectors = {
        "SR": (successor_potential(world.mdp), "minus the top eigenvector", "-e"),
        "DR": (log_column(world.mdp, LAM), f"log of its vector (column, λ = {LAM:g})", "log e"),
    }
    figure = new_figure(11, 5)
    crossed, length = {}, {}
    for axes, (name, (values, what, label)) in zip(
        figure.subplots(1, 2), vectors.items(), strict=True
    ):
        heatmap(world, values, title=f"{name}: {what}", label=label, axes=axes, numbers=False)
        path = climb(world, values)
        row, column = world.cells[path].T
        axes.plot(column, row, color="white", linewidth=3.5)
        axes.plot(column, row, color="black", linewidth=1.5)
        crossed[name] = int(world.low_reward[path].sum())
        length[name] = len(path) - 1
    figure.suptitle("black: the steepest way up from the start")
    return Answer(
        "SR and DR on a ring",
        "Figure 1",
        f"The steepest way up the SR's potential crosses {crossed['SR']} low-reward cells in "
        f"{length['SR']} steps; that of the DR crosses {crossed['DR']}, in {length['DR']} steps.",
        {"ring": figure},
        notes=["The paper does not print its ring's map; this one follows its description."],
        numbers={"low-reward cells crossed": crossed, "steps": length},
    )
