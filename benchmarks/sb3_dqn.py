"""A Stable-Baselines3 DQN in a grid world from coordinates: shaped against unshaped.

    uv run benchmarks/sb3_dqn.py --write
    uv run benchmarks/sb3_dqn.py --world four-rooms --seeds 1 --steps 2000

Needs the extra `sb3` and a torch. Each seed's agent is shaped by a potential learned with the same
seed. Prints Markdown, and draws the returns.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from common import LAM, data_of, env_of
from drogo import Column, Drogo, GridWorld, fit, plot
from drogo.files import write_file
from drogo_paper.agents import optimal_values
from drogo_paper.agents.deep import train_agent
from drogo_paper.agents.trained import Evaluations
from drogo_paper.plot import figures
from drogo_paper.statistics import bootstrap_mean
from sb3_agents import DISCOUNT, maker
from tables import ROOT, parse_options, write_table

EVERY = 500
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3, "learning_starts": 500, "train_freq": 1, "batch_size": 128,
    "target_update_interval": 200, "buffer_size": 50_000, "exploration_fraction": 0.5,
    "exploration_final_eps": 0.1, "gamma": DISCOUNT,
}  # fmt: skip
"""With the defaults of Stable-Baselines3 (an update every fourth step), neither agent learns."""
FIGURE = ROOT / "docs/figures/dqn-four-rooms.png"


def rows(options: Namespace) -> Iterator[list[str]]:
    world = GridWorld.load(options.world)
    data = data_of(world, "coordinates", options.transitions)
    solution = fit(data, Column(lam=LAM), Drogo(updates=options.updates), seeds=options.seeds)
    curves: dict[str, np.ndarray] = {}
    how = Evaluations(EVERY, stop_when_solved=False)
    for name in ("unshaped", "shaped"):
        runs = []
        for seed in range(options.seeds):
            potential = solution.potential(seed) if name == "shaped" else None
            make = maker(lambda: env_of(world, "coordinates"), potential, 1)
            runs.append(train_agent("dqn", make, steps=options.steps, evaluations=how, seed=seed,
                                    **SETTINGS))  # fmt: skip
            print(f"<!-- {name}, seed {seed}: {runs[-1].lengths[-1]:.0f} steps -->", flush=True)
        curves[name] = np.array([run.returns for run in runs])
        first = [run.steps[run.arrived.argmax()] if run.arrived.any() else None for run in runs]
        last = np.array([run.lengths[-10:].mean() for run in runs])
        mean = bootstrap_mean(last, np.random.default_rng(0))
        yield [name, ", ".join("never" if n is None else f"{n:,.0f}" for n in first),
               ", ".join(f"{n:.0f}" for n in last),
               f"{mean.mean:.0f} [{mean.low:.0f}, {mean.high:.0f}]"]  # fmt: skip
    best = float(optimal_values(world.mdp)[int(world.start.argmax())])
    title = f"DQN in {world.name} from coordinates, {options.seeds} seeds"
    figure = plot.as_png(figures.returns(curves, EVERY, best, title=title))
    path = FIGURE if options.write else options.out / FIGURE.name
    write_file(path, figure, overwrite=True)


if __name__ == "__main__":
    options = parse_options(__doc__, world="four-rooms", seeds=5, steps=20_000, updates=None,
                            transitions=200_000, out=Path("results/sb3"))  # fmt: skip
    write_table(
        "sb3-dqn",
        f"A DQN of Stable-Baselines3 in {options.world}: {options.seeds} seeds, {options.steps:,} "
        "steps, the same settings with and without shaping.",
        ("DQN", "training steps until it first arrives, per seed",
         "steps to the goal at the end, per seed", "mean [95 % interval]"),
        rows(options),
        "The steps at the end are the mean of the last ten evaluations, with the step limit for "
        "one that does not arrive.",
        write=options.write,
    )  # fmt: skip
