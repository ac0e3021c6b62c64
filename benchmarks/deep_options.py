"""Options that a network discovers from pixels, in worlds with lava: states seen, and deaths.

    uv run benchmarks/deep_options.py --write                  two worlds, three methods, five seeds
    uv run benchmarks/deep_options.py --worlds LavaCrossingS9N2 --seeds 1
    uv run benchmarks/deep_options.py --methods exact blind-exact      the same with exact maps

Needs the extra `minigrid`. Seed k walks in the grid of layout k, so that no layout is chosen. Runs
are kept in `--out`. Prints Markdown, and draws the share of states visited.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from common import finish, job
from drogo import Column, MiniGridWorld, OnlineTable, plot
from drogo.files import write_file
from drogo_paper.agents import Cycle, discover_deep
from drogo_paper.engines import Outcome
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import OKABE_ITO, legend_below
from tables import ROOT, parse_options, write_table

WORLDS = ("LavaCrossingS9N2", "LavaCrossingS11N5")
LAVA, LAM, TILE = -20.0, 5.0, 2
STEPS, ITERATIONS = 50, 40
EXACT: dict[str, Any] = {
    "make_map": OnlineTable, "problem": Column(lam=LAM), "until_found": False, "every": 1,
}  # fmt: skip
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "random walk": ("random walk", {}),
    "blind": ("options, blind", {"reward": -1.0, "problem": Column(lam=LAM)}),
    "aware": ("options, aware of rewards", {"problem": Column(lam=LAM)}),
    "blind-exact": ("exact maps, blind", {"reward": -1.0, **EXACT}),
    "exact": ("exact maps, aware", EXACT),
}
MOST = 0.9
"""The share of states at which deaths are compared."""
FIGURE = ROOT / "docs/figures/deep-options.png"


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    seed = settings["seed"]
    name = f"MiniGrid-{settings['world']}-v0"
    env = MiniGridWorld(name, layout=seed, tile=TILE, lava=LAVA)
    env.all_observations()  # they are then looked up
    cpu = time.process_time()
    p_option = 0.0 if settings["method"] == "random walk" else 0.5
    cycle = Cycle(settings["iterations"], STEPS, p_option)
    result = discover_deep(lambda: env, cycle, seed=seed, **METHODS[settings["method"]][1])
    arrays = {"visited": result.visited / (~env.moves.terminal).sum(),
              "deaths": result.deaths.cumsum()}  # fmt: skip
    facts = {"reward": float(result.reward.mean()), "begun": result.begun, "cut": result.cut,
             "seconds of CPU": time.process_time() - cpu}  # fmt: skip
    return Outcome(arrays, facts)


def deaths_until(record: Record, share: float) -> str:
    """Returns the number of deaths before a share of the states was seen, "-" if it never was."""
    arrived = np.flatnonzero(record.arrays["visited"] >= share)
    return f"{record.arrays['deaths'][arrived[0]]:.0f}" if arrived.size else "-"


def grouped(records: Mapping[Any, Record]) -> dict[tuple[str, str], list[Record]]:
    pairs = dict.fromkeys(key[:2] for key in records)
    return {pair: [r for key, r in records.items() if key[:2] == pair] for pair in pairs}


def rows(records: Mapping[Any, Record]) -> Iterator[list[str]]:
    for (world, method), runs in grouped(records).items():
        seen = [run.arrays["visited"] for run in runs]
        middle = len(seen[0]) // 2 - 1
        columns = [([part[middle] for part in seen], ".2f"), ([part[-1] for part in seen], ".2f"),
                   ([run.arrays["deaths"][-1] for run in runs], ".0f")]  # fmt: skip
        cells = [f"{np.mean(numbers):{form}} ({', '.join(format(n, form) for n in numbers)})"
                 for numbers, form in columns]  # fmt: skip
        until = ", ".join(deaths_until(run, MOST) for run in runs)
        means = [np.mean([run.facts[name] for run in runs]) for name in ("reward", "begun")]
        yield [world, METHODS[method][0], *cells, until, f"{means[0]:.2f}", f"{means[1]:.0f}"]


def draw(records: Mapping[Any, Record]) -> Figure:
    """Draws the share of states visited by steps and by deaths, every seed, and its mean."""
    groups = grouped(records)
    worlds, methods = (list(dict.fromkeys(part)) for part in zip(*groups, strict=True))
    figure = Figure(figsize=(8, 2.9 * len(worlds) + 0.5), layout="constrained")
    panels = figure.subplots(len(worlds), 2, squeeze=False, sharey=True)
    for (world, method), runs in groups.items():
        by_steps, by_deaths = panels[worlds.index(world)]
        shares = np.array([run.arrays["visited"] for run in runs])
        steps, colour = STEPS * np.arange(1, shares.shape[1] + 1), OKABE_ITO[methods.index(method)]
        by_steps.plot(steps, shares.T, alpha=0.35, color=colour, linewidth=0.8)
        by_steps.plot(steps, shares.mean(axis=0), color=colour, label=METHODS[method][0])
        for run in runs:
            deaths = run.arrays["deaths"]
            by_deaths.plot(deaths, run.arrays["visited"], color=colour, linewidth=0.8)
            by_deaths.plot(deaths[-1], run.arrays["visited"][-1], "o", markersize=4, color=colour)
        by_steps.set(title=world, xlabel="steps", ylabel="share of states visited", ylim=(0, 1.02))
        by_deaths.set(title=world, xlabel="deaths in lava")
    legend_below(figure, panels[0, 0])
    return figure


def main() -> None:
    options = parse_options(
        __doc__, worlds=WORLDS, methods=("random walk", "blind", "aware"), seeds=5,
        iterations=ITERATIONS, workers=0, out=Path("results/deep-options"),
    )  # fmt: skip
    jobs = {
        (world, method, seed): job("deep_options:run", f"{world}, {method}, seed {seed}",
                                   world=world, method=method, seed=seed,
                                   iterations=options.iterations)
        for seed, world, method in product(range(options.seeds), options.worlds, options.methods)
    }  # fmt: skip
    records = finish(jobs, options.out, options.workers)
    half, whole = (STEPS * options.iterations // share for share in (2, 1))
    write_table(
        "deep-options",
        f"Options from pixels in MiniGrid with lava, {options.seeds} seeds, each in a grid of its "
        f"own: lava costs {-LAVA:g}, a step 1, and λ is {LAM:g}.",
        ("world", "method", f"visited after {half:,} steps", f"after {whole:,}", "deaths",
         f"deaths until {MOST:.0%}", "reward per step", "options begun"),
        rows(records),
        "A state is a position and a direction; terminal states do not count.",
        write=options.write,
    )  # fmt: skip
    path = FIGURE if options.write else options.out / FIGURE.name
    write_file(path, plot.as_png(draw(records), 110), overwrite=True)


if __name__ == "__main__":
    main()
