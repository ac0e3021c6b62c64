"""The runs behind the shaping experiments: what decides their numbers, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drogo.agents import compare
from drogo.agents.shaping_experiment import potentials
from drogo.runs.job import Outcome, Report
from drogo.worlds.grid import GridWorld
from drogo_paper.scope import DISCOUNT, LAM

ARRAYS = ("weight", "step_size", "returns", "best_return", "steps_to_optimal", "low_reward_visits")
EVERY = 100


def run(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """All methods over the whole grid."""
    world = GridWorld.load(settings["world"])
    learned = {name: np.array(rows) for name, rows in settings["learned"].items()}
    seeds, rounds = settings["seeds"], settings["steps"] // EVERY
    grids = compare(
        world.mdp,
        potentials(world, learned, seeds=seeds, lam=LAM, discount=DISCOUNT),
        seeds=seeds,
        step_limit=world.step_limit,
        low_reward=world.low_reward,
        steps=settings["steps"],
        every=EVERY,
        discount=DISCOUNT,
        progress=lambda done: report(done / rounds),
    )
    arrays = {
        f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
    }
    for name, grid in grids.items():
        arrays[f"{name}/q"] = grid.q[grid.chosen][None]
    return Outcome(arrays, {"methods": list(grids)})
