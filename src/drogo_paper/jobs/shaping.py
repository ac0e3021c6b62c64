"""Q-learning with every shaping method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drogo.agents import Grid, compare
from drogo.agents.shaping_experiment import potentials
from drogo.runs.job import Outcome, Report
from drogo.worlds.grid import GridWorld

ARRAYS = ("weight", "step_size", "returns", "arrived", "best_return", "low_reward_visits")
EVERY = 100
"""Steps between evaluations, unless the settings have another number."""


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
    """Returns what is kept of the runs of each method."""
    arrays = {
        f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
    }
    for name, grid in grids.items():
        arrays[f"{name}/q"] = grid.q[grid.chosen][None]
    return arrays
