"""The effect of options that are discovered online on an agent that must reach a goal ("A Study of
Value-Aware Eigenoptions", arXiv 2507.09127): Q-learning with and without options as further
actions, with the same number of steps. Arrays of the job have a row for each kind of agent."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from drogo.worlds.grid import GridWorld
from drogo_paper.agents import Kind, Training, learn_with_options, representations
from drogo_paper.agents.options import TabularOption, solve_option
from drogo_paper.engines.job import Job, Outcome, Report
from drogo_paper.jobs import options as runs
from drogo_paper.options import mean_of
from drogo_paper.plot.figures import OKABE_ITO, legend_below, new_figure
from drogo_paper.scope import Answer, Get, Scope, Table, needed

DISCOUNT, EVERY = 0.99, 100
NONE, KNOWN = "no options", "eigenoptions, beforehand"
CEO, RACE, UNTRIED = "CEO, online", "RACE, online", "RACE, untried actions, online"
EXPLORES = "RACE, online, to explore only"
KINDS = (NONE, KNOWN, CEO, RACE, UNTRIED, EXPLORES)
EIGENVECTORS = 4
"""There are two options for each, which climb it and its negative."""
STEP_SIZE = {"grid-task": 0.3, "four-rooms": 0.3, "grid-room": 1.0, "grid-maze": 1.0}
"""The best of plain Q-learning, in the experiments on reward shaping."""


def eigenoptions(world: GridWorld, count: int) -> list[TabularOption]:
    """Returns options that climb the smoothest vectors over the whole world, without rewards and
    without the constant first one, and their negatives."""
    plain = world.without_goals()
    P = representations.random_walk(plain)
    vectors = np.linalg.eigh((P + P.T) / 2)[1][:, ::-1]
    return [
        solve_option(plain.next_state, sign * vectors[:, k], discount=DISCOUNT)
        for k in range(1, count + 1)
        for sign in (1.0, -1.0)
    ]


def make_kinds(name: str) -> dict[str, Kind]:
    published = partial(runs.make_vectors, name)
    return {
        NONE: Kind(),
        KNOWN: Kind(options=eigenoptions(GridWorld.load(name), EIGENVECTORS)),
        CEO: Kind(vectors=published(runs.CEO)),
        RACE: Kind(vectors=published(runs.RACE)),
        UNTRIED: Kind(vectors=published(runs.UNTRIED)),
        EXPLORES: Kind(vectors=published(runs.RACE), valued=False),
    }


def train(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    name = settings["world"]
    world = GridWorld.load(name)
    training = Training(world.step_limit, steps=settings["steps"], every=EVERY, discount=DISCOUNT)
    results = learn_with_options(
        world, make_kinds(name), training, seeds=range(1, settings["seeds"] + 1),
        step_size=STEP_SIZE[name], discoveries=settings["discoveries"],
        initial=settings["initial"], progress=lambda done: report(done / training.evaluations),
    )  # fmt: skip
    agents = [results[kind] for kind in KINDS]
    arrays = {
        name: [getattr(agent, name) for agent in agents] for name in ("arrival", "reward", "inside")
    }
    arrays["returns"] = [agent.runs.returns for agent in agents]
    arrays["steps_to_optimal"] = [agent.runs.steps_to_optimal for agent in agents]
    arrays["low"] = [agent.runs.low_reward_visits for agent in agents]
    best = float(results[NONE].runs.best_return[0, 0])
    return Outcome({key: np.stack(parts) for key, parts in arrays.items()}, {"best": best})


VERSION = 1
STEPS = {"grid-task": 30_000, "four-rooms": 30_000, "grid-room": 100_000, "grid-maze": 100_000}
DISCOVERIES = {"grid-task": 50, "four-rooms": 50, "grid-room": 120, "grid-maze": 120}
"""As many as published for option discovery, one after every 100 steps."""
INITIAL = {
    0.0: "Values begin at 0, which is optimistic, since all rewards are negative.",
    -100.0: "Values begin at -100, the value of never arriving, which is not optimistic.",
}
MORE_SEEDS = 5
"""The factor on the seeds of the other questions."""
QUICK_STEPS, QUICK_DISCOVERIES = 1000, 5
HEADER = ["world", "agent", "first arrival", "optimal for", "against no options", "solved",
          "low-reward visits (×10²)", "steps in options"]  # fmt: skip

Arrays = Mapping[str, np.ndarray]


def job(scope: Scope, world: str, initial: float) -> Job:
    settings = {
        "world": world,
        "seeds": MORE_SEEDS * scope.seeds,
        "steps": QUICK_STEPS if scope.quick else STEPS[world],
        "discoveries": QUICK_DISCOVERIES if scope.quick else DISCOVERIES[world],
        "initial": initial,
    }
    label = f"hindrance in {world}, from {initial:g}"
    return Job("drogo_paper.hindrance:train", settings, label, 300.0, VERSION)


def jobs(scope: Scope, get: Get) -> list[Job]:
    return [job(scope, world, initial) for initial in INITIAL for world in STEPS]


def optimal_share(arrays: Arrays, best: float) -> np.ndarray:
    """Returns the share of evaluations in which each agent is optimal."""
    return (arrays["returns"] >= best - 1e-9).mean(axis=2)


def answer(scope: Scope, get: Get) -> Answer:
    keys = [(initial, world) for initial in INITIAL for world in STEPS]
    records = {key: needed(get, job(scope, key[1], key[0])) for key in keys}
    shares = {
        key: optimal_share(record.arrays, float(record.facts["best"]))
        for key, record in records.items()
    }
    tables = []
    for initial, about in INITIAL.items():
        lines = [
            [world, name, *_cells(records[initial, world].arrays, shares[initial, world], kind)]
            for world in STEPS
            for kind, name in enumerate(KINDS)
        ]
        tables.append(Table(HEADER, lines, f"{about} {_caption(scope)}"))
    return Answer(
        "Do options that are discovered on the way hinder?",
        "its claim on online discovery",
        _verdict(scope, shares),
        {"hindrance": _figure(records)},
        tables,
        _notes(),
        {
            f"{world}, from {initial:g}": {
                name: float(shares[initial, world][k].mean()) for k, name in enumerate(KINDS)
            }
            for initial, world in keys
        },
        paper="A Study of Value-Aware Eigenoptions (arXiv 2507.09127)",
    )


def _cells(arrays: Arrays, shares: np.ndarray, kind: int) -> list[str]:
    steps = EVERY * arrays["returns"].shape[2]
    arrival = mean_of(np.minimum(arrays["arrival"][kind], steps))
    share, low = mean_of(shares[kind]), mean_of(arrays["low"][kind] / 100)
    solved = np.isfinite(arrays["steps_to_optimal"][kind])
    return [
        f"{arrival.mean:,.0f} [{arrival.low:,.0f}, {arrival.high:,.0f}]",
        f"{share.mean:.3f} [{share.low:.3f}, {share.high:.3f}]",
        "-" if KINDS[kind] == NONE else _against(shares, kind),
        f"{solved.sum()} of {solved.size}",
        f"{low.mean:.1f} [{low.low:.1f}, {low.high:.1f}]",
        f"{100 * arrays['inside'][kind].mean():.0f} %",
    ]


def _against(shares: np.ndarray, kind: int) -> str:
    """Compares how long agents are optimal with and without options, seed by seed."""
    difference = mean_of(shares[kind] - shares[KINDS.index(NONE)])
    if difference.low <= 0 <= difference.high:
        return f"equal ({difference.mean:+.3f})"
    return f"{'helps' if difference.mean > 0 else 'hinders'} ({difference.mean:+.3f})"


def _verdict(scope: Scope, shares: Mapping[tuple[float, str], np.ndarray]) -> str:
    if scope.quick:
        return f"{QUICK_STEPS} steps: too short for a verdict."
    parts = []
    for initial in INITIAL:
        counted = []
        for kind, name in enumerate(KINDS):
            if name == NONE:
                continue
            words = [_against(shares[initial, world], kind).partition(" ")[0] for world in STEPS]
            counts = [f"{words.count(word)} {word}" for word in ("helps", "equal", "hinders")
                      if word in words]  # fmt: skip
            counted.append(f"{name}: {', '.join(counts)}")
        parts.append(f"With values that begin at {initial:g}, {'; '.join(counted)}.")
    return f"Against plain Q-learning, in {len(STEPS)} worlds each. {' '.join(parts)}"


def _caption(scope: Scope) -> str:
    return (
        f"Mean and 95 % bootstrap interval over {MORE_SEEDS * scope.seeds} seeds. First arrival: "
        "steps until the goal is reached once. Optimal for: the share of evaluations, one every "
        f"{EVERY} steps, in which the best primitive actions are optimal; helps and hinders: more "
        "and less of it than without options, seed by seed, with an interval without 0. Solved: "
        "seeds that are optimal at the end. Steps in options count."
    )


def _notes() -> list[str]:
    sizes = ", ".join(f"{size:g} in {world}" for world, size in STEP_SIZE.items())
    return [
        "Epsilon is 0.05, the discount 0.99, and the step size the best of plain Q-learning with "
        f"values that begin at 0 ({sizes}). Online, an option is solved again from the agent's "
        "steps after every 100 steps, and starts with the value of the best primitive action; the "
        "last one stays. Each step teaches its primitive action, inside options too, and an option "
        "that is over its own value. Evaluations take the first of equal actions, where those of "
        "the experiments on shaping take one at random.",
        f"{KNOWN.capitalize()}: options that climb the first four eigenvectors of the successor "
        "representation of the whole world, and their negatives. To explore only: options are "
        "taken at random now and then, but never for their value.",
    ]


def _figure(records: Mapping) -> Figure:
    figure = new_figure(13, 6)
    panels = figure.subplots(len(INITIAL), len(STEPS), sharex="col")
    for row, initial in zip(panels, INITIAL, strict=True):
        for axes, world in zip(row, STEPS, strict=True):
            record = records[initial, world]
            returns, best = record.arrays["returns"], float(record.facts["best"])
            steps = EVERY * np.arange(1, returns.shape[2] + 1) / 1000
            for kind, (name, colour) in enumerate(zip(KINDS, OKABE_ITO, strict=False)):
                line = "-" if name in (NONE, KNOWN) else "--"
                share = (returns[kind] >= best - 1e-9).mean(axis=0)
                axes.plot(steps, share, line, color=colour, label=name, linewidth=1.5)
            axes.set(title=f"{world}, values from {initial:g}", ylim=(-0.02, 1.02))
            axes.grid(alpha=0.3)
        row[0].set_ylabel("share of agents that are optimal")
    for axes in panels[-1]:
        axes.set_xlabel("thousand steps")
    legend_below(figure, panels[0, 0])
    return figure
