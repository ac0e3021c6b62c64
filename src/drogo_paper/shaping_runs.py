"""The runs behind the shaping experiments: what decides their numbers, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from drogo.agents import compare
from drogo.exact import log_column
from drogo.potential import normalised
from drogo.runs.job import Outcome, Report
from drogo.use import successor_distance, successor_potential
from drogo.worlds.grid import GridWorld
from drogo_paper.scope import DISCOUNT, LAM

NONE, SR, SR_DISTANCE, DR_EXACT = "none", "SR", "SR distance", "DR exact"
ARRAYS = ("weight", "step_size", "returns", "best_return", "steps_to_optimal", "low_reward_visits")
EVERY = 100


def potentials(
    world: GridWorld,
    learned: Mapping[str, Float[np.ndarray, "seeds states"]],
    *,
    seeds: int,
    lam: float,
    discount: float,
    terminal: str = "keep",
) -> dict[str, Float[np.ndarray, "seeds states"] | None]:
    """Every method's potential for every seed: the baselines, the exact DR, and what was learned.

    `learned` are vectors over the world's states; fewer rows than seeds are used in turn.
    """
    near = world.mdp.neighbours
    fixed = {
        SR: successor_potential(world.mdp, discount),
        SR_DISTANCE: successor_distance(world.mdp, discount),
        DR_EXACT: log_column(world.mdp, lam),
    }
    vectors = {name: values[None] for name, values in fixed.items()} | dict(learned)
    made: dict[str, Float[np.ndarray, "seeds states"] | None] = {NONE: None}
    for name, rows in vectors.items():
        phi = normalised(rows, near)[np.arange(seeds) % len(rows)]
        made[name] = np.where(world.terminal, 0.0, phi) if terminal == "zero" else phi
    return made


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
