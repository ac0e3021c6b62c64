"""Which loss holds outside grid worlds? Its variants on four environments, every seed's curve.

    uv run benchmarks/stability.py                 all of it; what is done is kept in --out
    uv run benchmarks/stability.py --only mountain-car --seeds 5

All share the `stable` preset's other settings; they differ in what keeps v(s') - v(s) in bounds.
Prints Markdown and draws the curves.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from drogo import GridWorld, Transitions, collect, exact, fit, plot
from drogo.errors import Diverged
from drogo.files import read_array_file, write_array_file, write_file
from drogo.plot.shaping import LINES, OKABE_ITO, legend_below
from drogo.worlds.control import STARTS, mountain_car_truth

LAM = 20.0
OFF: dict[str, Any] = {"cap": np.inf, "ceiling": False, "target_rate": 1.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": OFF,
    "capped": {**OFF, "cap": "auto"},
    "target": {**OFF, "target_rate": 0.3},
    "capped, target": {**OFF, "cap": "auto", "target_rate": 0.3},
    "stable": {},
    "stable, scaled": {"scaled": True},
}
"""`stable` is cap, target and the ceiling on v(s')."""
SEVERAL = "stable, scaled, 4 steps"
"""In the continuous worlds: transitions of four steps at a time. The sum of their rewards depends
on the way taken, which only the scaled equation may average over."""
STEPS = 4


def grid_maze() -> tuple[Transitions, dict[str, np.ndarray]]:
    world = GridWorld.load("grid-maze")
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="one-hot")
    return collect(env, 200_000, seed=0), {"column": exact.log_column(world.mdp, LAM)}


def control(name: str, steps: int = 1) -> Transitions:
    """Transitions of so many steps from uniform states, -1 a step; fewer where the end comes."""
    env: Any = gymnasium.make(name).unwrapped
    start = STARTS[name]
    if steps == 1:
        return collect(env, 200_000, seed=0, start=start, reward=-1.0)
    rng = np.random.default_rng(0)
    before, after, taken, over = [], [], [], []
    for _ in range(200_000):
        before.append(start(env, rng))
        count, terminated, observation = 0, False, before[-1]
        while count < steps and not terminated:
            observation, _, terminated, *_ = env.step(int(rng.integers(env.action_space.n)))
            count += 1
        after.append(observation)
        taken.append(count)
        over.append(terminated)
    return Transitions.from_arrays(
        np.array(before), np.array(after), -np.array(taken, dtype=np.float64), np.array(over)
    )


def mountain_car(steps: int = 1) -> tuple[Transitions, dict[str, np.ndarray]]:
    data = control("MountainCar-v0", steps)
    truth = mountain_car_truth(LAM)(data.observations.astype(np.float64))
    truth[data.terminal_states] = 0.0
    return data, {"column": truth}


def acrobot(steps: int = 1) -> tuple[Transitions, dict[str, np.ndarray]]:
    return control("Acrobot-v1", steps), {}


def door_key() -> tuple[Transitions, dict[str, np.ndarray]]:
    from drogo.worlds.minigrid import MiniGridWorld

    world = MiniGridWorld("MiniGrid-DoorKey-6x6-v0", tile=2)
    return collect(world, 200_000, seed=0), {"column": exact.log_column(world.mdp, LAM)}


Maker = Callable[..., tuple[Transitions, dict[str, np.ndarray]]]
ENVIRONMENTS: dict[str, tuple[Maker, dict[str, Any]]] = {
    "grid-maze": (grid_maze, {"updates": 3000}),
    "door-key": (door_key, {"updates": 3000, "network": "mlp"}),
    "mountain-car": (mountain_car, {"updates": 2500}),
    "acrobot": (acrobot, {"updates": 2000}),
}
CONTINUOUS = ("mountain-car", "acrobot")


def run(name: str, seeds: int, out: Path) -> dict[str, dict[str, np.ndarray]]:
    """Histories of every variant; what is in `out` is not done again."""
    make, settings = ENVIRONMENTS[name]
    made = None
    found = {}
    variants = dict(VARIANTS)
    if name in CONTINUOUS:
        variants[SEVERAL] = {"scaled": True}
    for variant, changes in variants.items():
        path = out / f"{name}-{variant.replace(', ', '-')}-{seeds}seeds.npz"
        if not path.exists():
            if variant == SEVERAL:
                made = make(STEPS)
            made = made or make()
            began = time.perf_counter()
            history = _history(*made, {**settings, **changes}, seeds)
            history["seconds"] = np.array(time.perf_counter() - began)
            write_array_file(path, history, {"format": "stability"}, overwrite=False)
        found[variant] = read_array_file(path, "stability", lambda settings, headers: None)[0]
        print(f"<!-- {name}, {variant}: {float(found[variant]['seconds']):.0f} s -->", flush=True)
    return found


def _history(
    data: Transitions, truth: dict[str, np.ndarray], settings: dict[str, Any], seeds: int
) -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            result = fit(data, preset="stable", lam=LAM, truth=truth, seeds=seeds, **settings)
        except Diverged:
            return {"lost": np.ones(seeds, dtype=bool)}
    lost = np.array([status == "diverged" for status in result.status])
    return {**dict(result.history), "lost": lost}


def row(name: str, variant: str, history: dict[str, np.ndarray]) -> str:
    lost = history["lost"]
    cells = ["-", "-", "-", "-"]
    if not lost.all():
        good = ~lost
        cells[3] = f"{history['worst'][-1][good].max():.3f}"
        if "cosine_column" in history:
            cells[:3] = [
                f"{history['cosine_column'][-1][good].min():.5f}",
                f"{history['mean_difference_column'][-1][good].max():.2f}",
                f"{history['difference_column'][-1][good].max():.2f}",
            ]
    told = " | ".join([f"{int(lost.sum())}/{lost.size}", *cells])
    return f"| {name} | {variant} | {told} |"


def draw(found: dict[str, dict[str, dict[str, np.ndarray]]]) -> Figure:
    """By environment: distance from a perfect cosine, or the worst violation without a truth."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    for axes, (name, variants) in zip(panels, found.items(), strict=False):
        has_truth = any("cosine_column" in history for history in variants.values())
        for k, (variant, history) in enumerate(variants.items()):
            colour, line = OKABE_ITO[k % len(OKABE_ITO)], LINES[k % len(LINES)]
            label = f"{variant}"
            if "update" not in history:
                axes.plot([], [], line, color=colour, label=label)
                continue
            values = 1 - history["cosine_column"] if has_truth else history["worst"]
            values = np.maximum(np.where(history["lost"], np.nan, values), 1e-6)
            axes.plot(history["update"], values, color=colour, alpha=0.25, linewidth=0.7)
            axes.plot(history["update"], np.nanmedian(values, axis=1), line, color=colour,
                      linewidth=1.8, label=label)  # fmt: skip
        axes.set_yscale("log")
        axes.set_title(name)
        axes.set_xlabel("updates")
        axes.set_ylabel("1 - cosine with the truth" if has_truth else "worst violation, held out")
        axes.grid(alpha=0.3)
    legend_below(figure, max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[0])))
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(ENVIRONMENTS), choices=ENVIRONMENTS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/stability"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {name: run(name, options.seeds, options.out) for name in options.only}
    print("\n| environment | loss | diverged | smallest cosine | mean log difference | largest | "
          "worst violation |")  # fmt: skip
    print("|---" * 7 + "|")
    for name, variants in found.items():
        for variant, history in variants.items():
            print(row(name, variant, history))
    write_file(options.out / "stability.png", plot.as_png(draw(found), 90), overwrite=True)


if __name__ == "__main__":
    main()
