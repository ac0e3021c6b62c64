"""Q-learning with every shaping method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drogo.agents import compare
from drogo.agents.shaping_experiment import potentials
from drogo.runs.job import Outcome, Report
from drogo.worlds.grid import GridWorld

ARRAYS = ("weight", "step_size", "returns", "best_return", "low_reward_visits")
EVERY = 100
"""Steps between evaluations."""


def run(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs all methods over the whole grid of weights and step sizes."""
    world = GridWorld.load(settings["world"])
    learned = {name: np.array(rows) for name, rows in settings["learned"].items()}
    lam, discount, seeds = settings["lam"], settings["discount"], settings["seeds"]
    evaluations = settings["steps"] // EVERY
    grids = compare(
        world.mdp,
        potentials(world, learned, seeds=seeds, lam=lam, discount=discount),
        seeds=seeds,
        step_limit=world.step_limit,
        low_reward=world.low_reward,
        steps=settings["steps"],
        every=EVERY,
        discount=discount,
        progress=lambda done: report(done / evaluations),
    )
    arrays = {
        f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
    }
    for name, grid in grids.items():
        arrays[f"{name}/q"] = grid.q[grid.chosen][None]
    return Outcome(arrays, {"methods": list(grids)})
