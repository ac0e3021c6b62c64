"""One stage against two: total steps of tabular Q-learning until its return stays optimal.

    uv run benchmarks/one_stage.py --write               the paper's four worlds, ten seeds
    uv run benchmarks/one_stage.py --worlds four-rooms --seeds 3 --steps 20000

Every method has the paper's grid of settings (four weights of the shaping reward, where it has one,
and three step sizes), and reports the setting with the fewest steps. The two-stage rows learn their
map beforehand, from transitions that are counted after a plus sign. Prints Markdown, and draws the
cosine of the map with the exact one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from common import LAM, WORLDS, data_of, finish, job
from drogo import Column, Drogo, GridWorld, Regression, fit, plot
from drogo.files import write_file
from drogo.potential import normalised
from drogo_paper.agents import MapSettings, Training, compare, one_stage
from drogo_paper.agents.shaping_experiment import STEP_SIZES, WEIGHTS
from drogo_paper.engines import Outcome
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import OKABE_ITO
from tables import ROOT, parse_options, write_table

ONE_STAGE: dict[str, dict[str, Any]] = {
    "plain": {"map": "none", "sweeps": 0},
    "plain, replayed once": {"map": "none", "sweeps": 1},
    "plain, replayed 20 times": {"map": "none", "sweeps": 20},
    "one stage": {"sweeps": 0},
    "one stage, no optimism": {"sweeps": 0, "optimism": None},
    "one stage, replayed once": {"sweeps": 1},
    "one stage, replayed 20 times": {"sweeps": 20},
    "one stage by backups, replayed once": {"map": "backups", "backups": 20, "sweeps": 1},
}
TWO_STAGES = {"two stages, Regression": (Regression(), 20_000),
              "two stages, Drogo": (Drogo(), 200_000)}  # fmt: skip
DRAWN = ("one stage, replayed once", "one stage by backups, replayed once")
FIGURE = ROOT / "docs/figures/one-stage-cosine.png"


def run_one(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    world, seeds = GridWorld.load(settings["world"]), settings["seeds"]
    options = ONE_STAGE[settings["method"]]
    weights = (0.0,) if options.get("map") == "none" else WEIGHTS
    grid = list(product(weights, STEP_SIZES))
    weight, step_size = (np.repeat(column, seeds) for column in zip(*grid, strict=True))
    training = Training(world.step_limit, world.low_reward, settings["steps"])
    runs = one_stage(
        world.mdp, training, MapSettings(LAM, **options), weight=weight, step_size=step_size,
        seed=np.tile(np.arange(seeds), len(grid)),
    )  # fmt: skip
    arrays = {"steps": runs.steps_to_optimal, "visits": runs.low_reward_visits,
              "cosine": runs.cosine, "returns": runs.returns}  # fmt: skip
    shaped = {
        name: part.reshape(len(grid), seeds, *part.shape[1:]).astype(float)
        for name, part in arrays.items()
    }
    unfinished, mean = np.isinf(shaped["steps"]).sum(axis=1), shaped["steps"].mean(axis=1)
    # The reported setting is chosen as by `drogo_paper.agents.Grid`.
    chosen = np.lexsort((-shaped["returns"].mean(axis=(1, 2)), mean, unfinished))[0]
    return Outcome({name: part[chosen] for name, part in shaped.items()}, {"setting": grid[chosen]})


def run_two(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    world, seeds = GridWorld.load(settings["world"]), settings["seeds"]
    method, transitions = TWO_STAGES[settings["method"]]
    data = data_of(world, "one-hot", transitions)
    solution = fit(data, Column(lam=LAM), method, seeds=seeds)
    potential = normalised(solution.v, world.mdp.neighbours)
    training = Training(world.step_limit, world.low_reward, settings["steps"])
    grid = compare(world.mdp, {"DR": potential}, training, seeds=seeds)["DR"]
    k = grid.chosen
    arrays = {"steps": grid.steps_to_optimal[k], "visits": grid.low_reward_visits[k].astype(float)}
    return Outcome(arrays, {"setting": (float(grid.weight[k]), float(grid.step_size[k]))})


def rows(records: Mapping[tuple[str, str], Record], worlds: list[str]) -> Iterator[list[str]]:
    for method in dict.fromkeys(method for _, method in records):
        runs = [records[world, method] for world in worlds]
        beforehand = f" + {TWO_STAGES[method][1]:,}" if method in TWO_STAGES else ""
        cells = []
        for run in runs:
            steps, solved = run.arrays["steps"], int(np.isfinite(run.arrays["steps"]).sum())
            never = f"never ({solved} of {steps.size} solved)"
            cells.append(never if solved < steps.size else f"{steps.mean():,.0f}{beforehand}")
        yield [method, *cells, ", ".join(f"{run.arrays['visits'].mean():.0f}" for run in runs)]


def draw(records: Mapping[tuple[str, str], Record], worlds: list[str]) -> Figure:
    """Draws the cosine of the map with the exact one by steps, every seed."""
    figure = Figure(figsize=(3.4 * len(worlds), 3.2), layout="constrained")
    panels = figure.subplots(1, len(worlds), squeeze=False)[0]
    for axes, world in zip(panels, worlds, strict=True):
        for method, colour in zip(DRAWN, OKABE_ITO, strict=False):
            if (world, method) in records:
                arrays = records[world, method].arrays
                x = 100 * np.arange(1, arrays["cosine"].shape[1] + 1)
                axes.plot(x, arrays["cosine"].T, color=colour, linewidth=1, alpha=0.7)
                axes.axvline(arrays["steps"].mean(), color=colour, linestyle=":", label=method)
        axes.set(xscale="log", xlabel="environment steps", title=world, ylim=(-0.05, 1.02))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("cosine with the exact map")
    panels[0].legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def main() -> None:
    options = parse_options(
        __doc__, worlds=WORLDS, methods=(*ONE_STAGE, *TWO_STAGES), seeds=10, steps=100_000,
        workers=0, out=Path("results/one-stage"),
    )  # fmt: skip
    jobs = {
        (world, method): job(f"one_stage:{'run_one' if method in ONE_STAGE else 'run_two'}",
                             f"{method}, {world}", world=world, method=method,
                             seeds=options.seeds, steps=options.steps)
        for world, method in product(options.worlds, options.methods)
    }  # fmt: skip
    records = finish(jobs, options.out, options.workers)
    write_table(
        "one-stage",
        f"Tabular Q-learning in the paper's worlds, {options.seeds} seeds: the mean number of "
        "environment steps until the return stays optimal, and visits to low-reward states.",
        ("method", *options.worlds, "visits"),
        rows(records, options.worlds),
        "*Replayed* means that after every 50 steps all transitions so far are backed up with the "
        "current rewards. The transitions of the first of two stages follow a plus sign.",
        write=options.write,
    )
    path = FIGURE if options.write else options.out / FIGURE.name
    write_file(path, plot.as_png(draw(records, options.worlds), 100), overwrite=True)


if __name__ == "__main__":
    main()
