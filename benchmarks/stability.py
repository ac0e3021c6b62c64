"""Which parts keep the loss stable, outside grid worlds and beside walls?

    uv run benchmarks/stability.py --only losses --write     variants of the loss, four environments
    uv run benchmarks/stability.py --only walls              the walled room without one part each

All variants share the other settings of `Drogo` for data in which states do not repeat. The runs
are kept in `--out`. Prints Markdown, and draws the curves of the part losses.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from common import (
    LAM,
    control_data,
    control_truth,
    data_of,
    finish,
    history_of,
    job,
    learn,
    truth_places,
)
from drogo import Drogo, GridWorld, MiniGridWorld, Transitions, collect, exact, plot
from drogo.files import write_file
from drogo.learn import MLP
from drogo.worlds import STARTS
from drogo_paper.engines import Outcome
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import LINES, OKABE_ITO, legend_below
from tables import Part, formatted, parse_options, write_parts

SAMPLED: dict[str, Any] = {
    "batch_size": 1000, "emphasis": 0.0, "terminal_fraction": 0.1, "target_rate": 0.3,
}  # fmt: skip
"""The settings of `Drogo` where states do not repeat."""
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"cap": np.inf, "target_rate": 1.0},
    "cap and ceiling": {"target_rate": 1.0},
    "target": {"cap": np.inf},
    "all three": {},
    "all three, slow target (0.05)": {"target_rate": 0.05},
    "all three, not scaled": {"scaled": False},
    "all three, 4 steps": {},
}
STEPS = {"all three, 4 steps": 4}
"""The steps of a transition, in continuous worlds only. The sum of their rewards depends on the way
taken, which only the scaled equation may average over."""
UPDATES = {"grid-maze": 3000, "door-key": 3000, "MountainCar-v0": 2500, "Acrobot-v1": 2000}
CONTINUOUS = ("MountainCar-v0", "Acrobot-v1")
ROOM = "drogo/Room-Wall-v0"
WALLS: dict[str, dict[str, Any]] = {
    "`Drogo()`": {},
    "residuals not scaled": {"scaled": False},
    "no Fourier features": {"frequencies": 0},
    "no target network": {"target_rate": 1.0},
    "a slow target (rate 0.05)": {"target_rate": 0.05},
    "no share of terminal states in a batch": {"terminal_fraction": 0.0},
    "5,000 updates": {"updates": 5000},
    "1,000 updates": {"updates": 1000},
    "episodes from the start": {"start": "reset"},
    "a tenth of the transitions, 15,000 updates": {"share": 0.1, "updates": 15_000},
    "a tenth of the transitions, 5,000 updates": {"share": 0.1, "updates": 5000},
    "a tenth of the transitions in episodes, 15,000 updates": {
        "share": 0.1, "start": "reset", "updates": 15_000,
    },
}  # fmt: skip


def data_and_truth(name: str, n: int, steps: int) -> tuple[Transitions, np.ndarray | None]:
    if name == "grid-maze":
        return data_of(name, "one-hot", n), exact.log_column(GridWorld.load(name).mdp, LAM)
    if name == "door-key":
        world = MiniGridWorld("MiniGrid-DoorKey-6x6-v0", tile=2)
        return collect(world, n, seed=0), exact.log_column(world.mdp, LAM)
    data = control_data(name, n) if steps == 1 else several_steps(name, n, steps)
    if name == "Acrobot-v1":
        return data, None
    truth = control_truth(name)(data.observations.astype(np.float64))
    truth[data.terminal_states] = 0.0
    return data, truth


def several_steps(name: str, n: int, steps: int) -> Transitions:
    """Returns transitions of several steps from uniform states, at a cost of 1 each, and of fewer
    steps where a terminal state is reached before."""
    env: Any = gymnasium.make(name).unwrapped
    rng = np.random.default_rng(0)
    before, after, taken, over = [], [], [], []
    for _ in range(n):
        before.append(STARTS[name](env, rng))
        count, terminated, observation = 0, False, before[-1]
        while count < steps and not terminated:
            observation, _, terminated, *_ = env.step(int(rng.integers(env.action_space.n)))
            count += 1
        after.append(observation)
        taken.append(count)
        over.append(terminated)
    cost = -np.array(taken, dtype=np.float64)
    return Transitions.from_arrays(np.array(before), np.array(after), cost, np.array(over))


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Fits all seeds of one variant in one environment."""
    warnings.simplefilter("ignore", RuntimeWarning)  # some variants are expected to diverge
    name, variant = settings["environment"], settings["variant"]
    data, truth = data_and_truth(name, settings["transitions"], STEPS.get(variant, 1))
    method = Drogo(updates=settings["updates"], **{**SAMPLED, **VARIANTS[variant]})
    network = MLP() if name == "door-key" else None
    return learn(data, truth, method, settings, scratch, report, network=network)[1]


def run_wall(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Fits one seed of one case in the walled room, and compares it with the truth everywhere."""
    changes = {"updates": None, "share": 1.0, "start": None, "frequencies": 8}
    changes |= WALLS[settings["case"]]
    n = int(settings["transitions"] * changes.pop("share"))
    data = control_data(ROOM, n, changes.pop("start"))
    network = MLP(frequencies=changes.pop("frequencies"))
    changes["updates"] = settings["updates"] or changes["updates"]
    solution, outcome = learn(
        data, None, Drogo(**changes), settings, scratch, report, network=network
    )
    if solution is None:
        return outcome
    truth = control_truth(ROOM)
    places = truth_places(truth)
    error = np.abs(solution(places.astype(np.float32))[0] - truth(places))
    facts = {"largest": float(np.nanmax(error)), "mean": float(np.nanmean(error))}
    return Outcome({}, {**outcome.facts, **facts})


def losses(options: Namespace) -> Iterator[list[str]]:
    jobs = {
        (name, variant): job(
            "stability:run",
            f"{name}, {variant}",
            environment=name,
            variant=variant,
            seeds=options.seeds,
            transitions=options.transitions,
            updates=options.updates or UPDATES[name],
        )
        for name, variant in product(options.environments, VARIANTS)
        if variant not in STEPS or name in CONTINUOUS
    }
    records = finish(jobs, options.out)
    figure = plot.as_png(draw(records), 90)
    write_file(options.out / "stability.png", figure, overwrite=True)
    forms = {"smallest cosine": ".5f", "mean difference": ".2f", "largest difference": ".2f",
             "worst residual": ".3f"}  # fmt: skip
    for key, record in records.items():
        diverged = f"{record.facts['diverged']} of {options.seeds}"
        yield [*key, diverged, *formatted(record.facts, forms)]


def walls(options: Namespace) -> Iterator[list[str]]:
    jobs = {
        (case, seed): job(
            "stability:run_wall",
            f"{case}, seed {seed}",
            case=case,
            seeds=[seed],
            transitions=options.transitions,
            updates=options.updates,
        )
        for seed, case in product(range(options.seeds), WALLS)
    }
    records = finish(jobs, options.out)
    for case in WALLS:
        facts = [records[case, seed].facts for seed in range(options.seeds)]
        forms = {"largest": ".2f", "mean": ".2f"}
        columns = zip(*(formatted(one, forms) for one in facts), strict=True)
        yield [case, *map(", ".join, columns)]


def draw(records: Mapping[tuple[str, str], Record]) -> Figure:
    """Draws the distance from a perfect cosine, or the worst residual where there is no truth."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    names = list(dict.fromkeys(name for name, _ in records))
    for (name, variant), record in records.items():
        axes, k = panels[names.index(name)], list(VARIANTS).index(variant)
        colour, line = OKABE_ITO[k % len(OKABE_ITO)], LINES[k % len(LINES)]
        history = history_of(record)
        has_truth = name != "Acrobot-v1"
        axes.plot([], [], line, color=colour, label=variant)
        if history:
            values = 1 - history["cosine_column"] if has_truth else history["worst"]
            values = np.maximum(np.where(np.isfinite(values), values, np.nan), 1e-6)
            axes.plot(history["update"], values, color=colour, alpha=0.25, linewidth=0.7)
            axes.plot(history["update"], np.nanmedian(values, axis=1), line, color=colour)
        label = "1 - cosine with the truth" if has_truth else "worst residual, held out"
        axes.set(yscale="log", title=name, xlabel="updates", ylabel=label)
        axes.grid(alpha=0.3)
    legend_below(figure, max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[0])))
    return figure


PARTS = {
    "losses": Part(
        "stability",
        losses,
        f"Variants of the loss: the worst of {{seeds}} seeds, λ = {LAM:g}, {{transitions:,}} "
        "transitions.",
        ("environment", "loss", "diverged", "smallest cosine", "mean log difference", "largest",
         "largest residual"),
        "The runs are short, so that differences show: "
        + ", ".join(f"{updates:,} updates in {name}" for name, updates in UPDATES.items()) + ".",
    ),
    "walls": Part(
        "walls",
        walls,
        f"The largest and the mean difference from the exact solution anywhere in {ROOM}, seed by "
        "seed, from {transitions:,} transitions, when one part is changed.",
        ("changed", "largest difference", "mean"),
    ),
}  # fmt: skip


if __name__ == "__main__":
    options = parse_options(
        __doc__, only=tuple(PARTS), environments=tuple(UPDATES), seeds=3, transitions=200_000,
        updates=None, out=Path("results/stability"),
    )  # fmt: skip
    write_parts(PARTS, options)
