"""Options that a network discovers from pixels, in worlds with lava: what was seen, at what price.

    uv run benchmarks/deep_options.py                          two worlds, three methods, five seeds
    uv run benchmarks/deep_options.py --worlds LavaCrossingS9N2 --seeds 1
    uv run benchmarks/deep_options.py --methods exact blind-exact      the same with exact maps

Needs the extra `minigrid`. Seed k walks in the grid of layout k, so that no layout is chosen. A
state is a place and a direction; terminal states do not count. Lava costs 20 steps, as low rewards
do in the paper's worlds. Runs are kept in `--out`: an interrupted table goes on where it was. It
prints Markdown, and draws the share of states visited against the number of steps and of deaths.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from drogo.agents import discover_deep
from drogo.files import write_file
from drogo.plot.shaping import OKABE_ITO, legend_below
from drogo.use import OnlineTable
from drogo.worlds.minigrid import MiniGridWorld

WORLDS = {
    "LavaCrossingS9N2": "MiniGrid-LavaCrossingS9N2-v0",
    "LavaCrossingS11N5": "MiniGrid-LavaCrossingS11N5-v0",
}
LAVA, LAM, TILE = -20.0, 5.0, 2
STEPS, ITERATIONS = 50, 40
EXACT: dict[str, Any] = {"make_map": OnlineTable, "lam": LAM, "until_found": False, "every": 1}
METHODS: dict[str, dict[str, Any]] = {
    "random walk": {"p_option": 0.0},
    "blind": {"reward": -1.0, "lam": LAM},
    "aware": {"lam": LAM},
    "blind-exact": {"reward": -1.0, **EXACT},
    "exact": EXACT,
}
NAMES = {
    "random walk": "random walk", "aware": "options, aware of rewards", "blind": "options, blind",
    "exact": "exact maps, aware", "blind-exact": "exact maps, blind",
}  # fmt: skip
MOST = 0.9
"""The share of states at which deaths are compared."""


def run(world: str, method: str, seed: int) -> dict[str, Any]:
    env = MiniGridWorld(WORLDS[world], layout=seed, tile=TILE, lava=LAVA)
    env.all_observations()  # they are then looked up
    cpu = time.process_time()
    found = discover_deep(
        lambda: env, iterations=ITERATIONS, steps=STEPS, seed=seed, **METHODS[method]
    )
    states = int((~env.moves.terminal).sum())
    return {
        "world": world, "method": method, "seed": seed, "states": states,
        "visited": (found.visited / states).tolist(), "deaths": found.deaths.cumsum().tolist(),
        "reward": float(found.reward.mean()), "begun": found.begun, "cut": found.cut,
        "seconds": time.process_time() - cpu,
    }  # fmt: skip


def deaths_until(one: dict[str, Any], share: float) -> float:
    """How often an agent had died when it had seen so much, or NaN if it never has."""
    arrived = np.flatnonzero(np.array(one["visited"]) >= share)
    return one["deaths"][arrived[0]] if arrived.size else np.nan


def listed(numbers: list[float], form: str) -> str:
    return ", ".join("-" if np.isnan(number) else format(number, form) for number in numbers)


def table(runs: dict[tuple[str, str, int], dict[str, Any]]) -> str:
    half, end = ITERATIONS // 2 - 1, ITERATIONS - 1
    lines = [
        f"| world | method | visited after {STEPS * (half + 1):,} steps "
        f"| after {STEPS * (end + 1):,} | deaths | deaths until {MOST:.0%} | reward per step "
        "| options begun |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for world, method in dict.fromkeys((w, m) for w, m, _ in runs):
        of = [one for (w, m, _), one in runs.items() if (w, m) == (world, method)]
        shares = [
            f"{np.mean(seen):.2f} ({listed(seen, '.2f')})"
            for seen in ([one["visited"][k] for one in of] for k in (half, end))
        ]
        deaths = [one["deaths"][-1] for one in of]
        until = listed([deaths_until(one, MOST) for one in of], ".0f")
        reward = np.mean([one["reward"] for one in of])
        begun = np.mean([one["begun"] for one in of])
        lines.append(
            f"| {world} | {NAMES[method]} | {' | '.join(shares)} "
            f"| {np.mean(deaths):.0f} ({listed(deaths, '.0f')}) | {until} | {reward:.2f} "
            f"| {begun:.0f} |"
        )
    return "\n".join(lines)


def draw(runs: dict[tuple[str, str, int], dict[str, Any]]) -> Figure:
    """The share of states visited by steps and by deaths, every seed and the mean by steps."""
    worlds = list(dict.fromkeys(world for world, _, _ in runs))
    methods = list(dict.fromkeys(method for _, method, _ in runs))
    figure = Figure(figsize=(8, 2.9 * len(worlds) + 0.5), layout="constrained")
    panels = figure.subplots(len(worlds), 2, squeeze=False, sharey=True)
    steps = STEPS * np.arange(1, ITERATIONS + 1)
    for k, method in enumerate(methods):
        for row, world in enumerate(worlds):
            of = [one for (w, m, _), one in runs.items() if (w, m) == (world, method)]
            shares = np.array([one["visited"] for one in of])
            by_steps, by_deaths = panels[row]
            style: dict[str, Any] = {"color": OKABE_ITO[k % len(OKABE_ITO)], "linewidth": 0.8}
            by_steps.plot(steps, shares.T, alpha=0.35, **style)
            by_steps.plot(
                steps, shares.mean(axis=0), label=NAMES[method], **style | {"linewidth": 2}
            )
            for one in of:
                by_deaths.plot(one["deaths"], one["visited"], **style)
                by_deaths.plot(one["deaths"][-1], one["visited"][-1], "o", markersize=4, **style)
            by_steps.set(title=world, xlabel="steps", ylabel="share of states visited")
            by_deaths.set(title=world, xlabel="deaths in lava")
    for axes in panels.ravel():
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
    legend_below(figure, panels[0, 0])
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    default = ["random walk", "blind", "aware"]
    parser.add_argument("--methods", nargs="+", default=default, choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("deep-options.json"))
    parser.add_argument("--figure", type=Path, default=Path("deep-options.png"))
    options = parser.parse_args()
    kept = json.loads(options.out.read_text()) if options.out.exists() else []
    known = {(one["world"], one["method"], one["seed"]): one for one in kept}
    # Every world and method with one seed, before any with the next.
    pairs = [(world, method) for world in options.worlds for method in options.methods]
    wanted = [(*pair, seed) for seed in range(options.seeds) for pair in pairs]
    for key in wanted:
        if key not in known:
            known[key] = run(*key)
            write_file(options.out, json.dumps(list(known.values())).encode(), overwrite=True)
            print(f"<!-- {key}: {known[key]['seconds']:.0f} s of CPU -->", flush=True)
    chosen = {(*pair, k): known[*pair, k] for pair in pairs for k in range(options.seeds)}
    print(table(chosen))
    draw(chosen).savefig(options.figure, dpi=110)


if __name__ == "__main__":
    main()
