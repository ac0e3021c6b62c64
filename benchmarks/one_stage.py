"""One stage against two: total steps of tabular Q-learning until its return is optimal for good.

    uv run benchmarks/one_stage.py                       the paper's four worlds, ten seeds
    uv run benchmarks/one_stage.py --worlds four-rooms --seeds 3 --steps 20000

Every method has the paper's grid of settings (four weights of the shaping reward, where it has one,
and three step sizes), and reports the setting with the fewest steps. The two-stage rows learn their
map beforehand, from transitions that are counted in brackets. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo import GridWorld, collect, exact, fit, plot
from drogo.agents import compare, one_stage
from drogo.agents.comparison import STEP_SIZES, WEIGHTS
from drogo.potential import normalised
from drogo.runs import Job, LocalEngine, Outcome, Store
from drogo.statistics import bootstrap_mean

LAM = 20.0
WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
ONE_STAGE: dict[str, dict[str, Any]] = {
    "plain": {"map": "none", "sweeps": 0},
    "plain, replayed once": {"map": "none", "sweeps": 1},
    "plain, replayed 20 times": {"map": "none", "sweeps": 20},
    "map": {"sweeps": 0},
    "map, no optimism": {"sweeps": 0, "optimism": None},
    "map, replayed once": {"sweeps": 1},
    "map, replayed 20 times": {"sweeps": 20},
    "map by backups, replayed once": {"map": "backups", "backups": 20, "sweeps": 1},
}
TWO_STAGES = {"two stages, direct": ("direct", 20_000), "two stages, fast": ("fast", 200_000)}


def run_one(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    world, seeds = GridWorld.load(settings["world"]), settings["seeds"]
    options = ONE_STAGE[settings["method"]]
    weights = (0.0,) if options.get("map") == "none" else WEIGHTS
    grid = list(product(weights, STEP_SIZES))
    weight, step_size = (np.repeat(column, seeds) for column in zip(*grid, strict=True))
    evaluations = settings["steps"] // 100
    began = time.perf_counter()
    runs = one_stage(
        world.mdp, weight=weight, step_size=step_size, seed=np.tile(np.arange(seeds), len(grid)),
        step_limit=world.step_limit, low_reward=world.low_reward, steps=settings["steps"], lam=LAM,
        progress=lambda done: report(done / evaluations), **options,
    )  # fmt: skip
    shape = (len(grid), seeds)
    arrays = {"steps": runs.steps_to_optimal, "visits": runs.low_reward_visits}
    arrays = {name: part.reshape(shape).astype(float) for name, part in arrays.items()}
    chosen = best(arrays["steps"], runs.returns.reshape(*shape, -1))
    kept = {name: part[chosen] for name, part in arrays.items()}
    kept["cosine"] = runs.cosine.reshape(*shape, -1)[chosen]
    kept["tried"] = runs.tried.reshape(*shape, -1)[chosen]
    kept["returns"] = runs.returns.reshape(*shape, -1)[chosen]
    return Outcome(kept, {"setting": grid[chosen], "seconds": time.perf_counter() - began})


def best(steps: np.ndarray, returns: np.ndarray) -> int:
    """The reported setting, chosen as `drogo.agents.Grid` does."""
    unfinished = np.isinf(steps).sum(axis=1)
    return int(np.lexsort((-returns.mean(axis=(1, 2)), steps.mean(axis=1), unfinished))[0])


def run_two(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    world, seeds = GridWorld.load(settings["world"]), settings["seeds"]
    preset, transitions = TWO_STAGES[settings["method"]]
    began = time.perf_counter()
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="one-hot")
    result = fit(collect(env, transitions, seed=0), lam=LAM, preset=preset, seeds=seeds)
    rows = normalised(result.v, world.mdp.neighbours)
    grid = compare(world.mdp, {"DR": rows}, seeds=seeds, step_limit=world.step_limit,
                   low_reward=world.low_reward, steps=settings["steps"])["DR"]  # fmt: skip
    k = grid.chosen
    kept = {"steps": grid.steps_to_optimal[k], "returns": grid.returns[k],
            "visits": grid.low_reward_visits[k].astype(float)}  # fmt: skip
    truth = exact.log_column(world.mdp, LAM)
    facts = {"setting": (float(grid.weight[k]), float(grid.step_size[k])),
             "seconds": time.perf_counter() - began,
             "difference": float(np.abs(result.v - truth).max())}  # fmt: skip
    return Outcome(kept, facts)


def cell(numbers: np.ndarray) -> str:
    solved = int(np.isfinite(numbers).sum())
    if solved < numbers.size:
        return f"never ({solved} of {numbers.size} solved)"
    mean, low, high = bootstrap_mean(numbers, np.random.default_rng(0))
    return f"{mean:,.0f} [{low:,.0f}, {high:,.0f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--methods", nargs="+", default=[*ONE_STAGE, *TWO_STAGES])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/one-stage"))
    options = parser.parse_args()
    store = Store(options.out / "runs")
    jobs = {}
    for world, method in product(options.worlds, options.methods):
        function = "run_one" if method in ONE_STAGE else "run_two"
        settings = {"world": world, "method": method, "seeds": options.seeds,
                    "steps": options.steps,
                    "options": ONE_STAGE.get(method, TWO_STAGES.get(method))}  # fmt: skip
        jobs[world, method] = Job(f"one_stage:{function}", settings, f"{method}, {world}")
    told = lambda job, what, number: what != "progress" and print(f"<!-- {job.label}: {what}, {number:.0f} s -->", flush=True)  # noqa: E501, E731  # fmt: skip
    LocalEngine(options.workers).run([j for j in jobs.values() if not store.has(j)], store, told)
    for world in options.worlds:
        records = {method: store.get(jobs[world, method]) for method in options.methods}
        first = records.get("plain")
        reference = np.inf if first is None else first.arrays["steps"].mean()
        print(f"\n**{world}**\n\n| method | steps until optimal for good | times fewer than plain "
              "| visits to low-reward states | weight, step size | cosine at the end, smallest | "
              "seconds |\n" + "|---" * 7 + "|")  # fmt: skip
        for method, record in records.items():
            assert record is not None
            steps = record.arrays["steps"]
            counted = f" (+ {TWO_STAGES[method][1]:,})" if method in TWO_STAGES else ""
            total = steps.mean() + (TWO_STAGES[method][1] if method in TWO_STAGES else 0)
            bound = "> " if np.isinf(reference) else ""
            ratio = min(reference, options.steps) / total
            cosine = (
                f"{record.arrays['cosine'][:, -1].min():.4f}" if "cosine" in record.arrays else "-"
            )
            print(f"| {method} | {cell(steps)}{counted} | "
                  f"{bound + format(ratio, '.1f') if np.isfinite(total) else '-'} | "
                  f"{record.arrays['visits'].mean():.0f} | "
                  f"{', '.join(f'{x:g}' for x in record.facts['setting'])} | {cosine} | "
                  f"{record.facts['seconds']:.0f} |")  # fmt: skip
    write_curves(options.out, jobs, store)


def write_curves(out: Path, jobs: dict[tuple[str, str], Job], store: Store) -> None:
    """Draws the cosine of the map with the exact one by steps, every seed."""
    from matplotlib.figure import Figure

    from drogo.files import write_file
    from drogo.plot.shaping import OKABE_ITO

    worlds = list(dict.fromkeys(world for world, _ in jobs))
    figure = Figure(figsize=(3.4 * len(worlds), 3.2), layout="constrained")
    panels = figure.subplots(1, len(worlds), squeeze=False)[0]
    shown = ("map, replayed once", "map by backups, replayed once")
    for axes, world in zip(panels, worlds, strict=True):
        for method, colour in zip(shown, OKABE_ITO, strict=False):
            if (world, method) not in jobs:
                continue
            record = store.get(jobs[world, method])
            assert record is not None
            curves = record.arrays["cosine"]
            x = 100 * np.arange(1, curves.shape[1] + 1)
            for k, curve in enumerate(curves):
                axes.plot(x, curve, color=colour, linewidth=1, alpha=0.7,
                          label=method if k == 0 else None)  # fmt: skip
            steps = record.arrays["steps"]
            axes.axvline(steps.mean(), color=colour, linestyle=":", linewidth=1)
        axes.set(xscale="log", xlabel="environment steps", title=world, ylim=(-0.05, 1.02))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("cosine with the exact map")
    panels[0].legend(frameon=False, fontsize=7, loc="lower right")
    write_file(out / "cosine.png", plot.as_png(figure, 100), overwrite=True)


if __name__ == "__main__":
    main()
