"""Exploration bonuses from norms of the successor and default representation (Tse, Chandrasekar and
Machado, 2025): the published run again from its seed, and many agents with other numbers."""

import random
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from drogo_paper import published
from drogo_paper.agents import counting
from drogo_paper.agents.counting import AbstractCounts, Chance, PerRun
from drogo_paper.continuing_worlds import STEP_LIMIT, WORLDS, ContinuingWorld
from drogo_paper.engines.job import Job, Outcome, Report
from drogo_paper.options import PAPER, mean_of
from drogo_paper.plot.figures import OKABE_ITO, legend_below, new_figure
from drogo_paper.scope import Answer, Get, Scope, needed, table_of
from drogo_paper.statistics import Interval

SARSA, SUCCESSOR, DEFAULT = "Sarsa", "Sarsa + SR", "Sarsa + DR"
OTHER_SUCCESSOR, Q_LEARNING = "Sarsa + SR, other settings", "Q-learning + DR"
METHODS: tuple[str, ...] = (SARSA, SUCCESSOR, DEFAULT, OTHER_SUCCESSOR, Q_LEARNING)
"""The last two are not published. Q-learning has the settings of Sarsa + DR."""
DISCOUNT = 0.95


def _counts(epsilon: float, step_size: float, /, **settings: float) -> dict[str, Any]:
    return {"epsilon": epsilon, "step_size": step_size, "counts": settings}


SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("river-swim", SARSA): {"epsilon": 0.12, "step_size": 0.37},
    ("six-arms", SARSA): {"epsilon": 0.01, "step_size": 0.43},
    ("river-swim", SUCCESSOR): _counts(0.01, 0.1, discount=0.5, step_size=0.5, weight=1e4),
    ("six-arms", SUCCESSOR): _counts(0.01, 0.5, discount=0.5, step_size=0.25, weight=1e4),
    ("river-swim", OTHER_SUCCESSOR): _counts(0.1, 0.25, discount=0.99, step_size=0.01, weight=1e2),
    ("six-arms", OTHER_SUCCESSOR): _counts(0.01, 0.5, discount=0.5, step_size=0.25, weight=1e2),
    ("river-swim", DEFAULT): _counts(0.01, 0.25, lam=1.0, step_size=0.5, weight=100.0),
    ("six-arms", DEFAULT): _counts(0.01, 0.01, lam=1.5, step_size=0.5, weight=0.1),
}
"""Those of the published commands: of 2020 for Sarsa and the SR, of 2025 for the DR. The other
settings of the SR are from a small search with 50 agents each."""
SETTINGS |= {(world, Q_LEARNING): SETTINGS[world, DEFAULT] for world in WORLDS}
SEED = 7
"""The seed of the published commands of 2025."""


def count_runs(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs agents of one method in one world."""
    world = WORLDS[settings["world"]]()
    chosen = SETTINGS[settings["world"], settings["method"]]
    agents, seed = settings["agents"], settings["seed"]
    if seed is None:
        rngs = [np.random.default_rng([0, agent]) for agent in range(agents)]
        chance = counting.SampledChance(world, chosen["epsilon"], rngs)
        return Outcome({"returns": _run(world, chance, settings, agents, report)})
    replayed = Replayed(world, chosen["epsilon"], seed)
    returns = []
    for agent in range(agents):  # one after the other, because they share their random numbers
        returns.append(_run(world, replayed, settings, 1, lambda share: None))
        report(agent / agents)
    return Outcome({"returns": np.concatenate(returns)})


def _run(
    world: ContinuingWorld, chance: Chance, settings: dict[str, Any], runs: int, report: Report
) -> np.ndarray:
    method = settings["method"]
    chosen = SETTINGS[world.name, method]
    counts = make_counts(world, method, runs)
    return counting.run_counting(
        world, chance, step_size=chosen["step_size"], discount=DISCOUNT, counts=counts,
        target="q-learning" if method == Q_LEARNING else "sarsa",
        steps=settings["steps"], progress=report,
    ).returns  # fmt: skip


def make_counts(world: ContinuingWorld, method: str, runs: int) -> AbstractCounts | None:
    options: dict[str, Any] = SETTINGS[world.name, method].get("counts", {})
    if method in (SUCCESSOR, OTHER_SUCCESSOR):
        return counting.SuccessorCounts(world.n_states, runs=runs, **options)
    if method in (DEFAULT, Q_LEARNING):
        best = {"best": world.best_reward, "unit": world.best_reward}
        return counting.DefaultCounts(world.n_states, world.n_actions, runs=runs, **best, **options)
    return None


class Replayed:
    """The random numbers of the published scripts, from two global generators with one seed:
    Python's for starts, exploration and moves, NumPy's for choices among equal actions."""

    def __init__(self, world: ContinuingWorld, epsilon: float, seed: int) -> None:
        self.world, self.epsilon = world, epsilon
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)

    def _draw(self, probability: np.ndarray) -> PerRun:
        """Samples a state as published: sums of probabilities are compared with one number."""
        number, before = self.python.uniform(0.0, 1.0), 0.0
        for state in np.flatnonzero(probability):
            if number < probability[state] + before:
                return np.array([state])
            before += probability[state]
        raise ArithmeticError("the published script would have stopped here")

    def start(self) -> PerRun:
        return self._draw(self.world.start)

    def act(self, values: np.ndarray) -> PerRun:
        (row,) = values
        if self.python.uniform(0.0, 1.0) < self.epsilon:
            return np.array([self.python.choice(range(row.size))])
        return np.array([self.numpy.choice(np.flatnonzero(row == row.max()))])

    def move(self, state: PerRun, action: PerRun) -> PerRun:
        return self._draw(self.world.probability[state[0], action[0]])


AGENTS, MANY = 100, 2000
"""The published number of agents, and ours. The first agents are the same ones."""
REPLAY_SECONDS, SECONDS = 150.0, 15.0
VERSION = 1
HEADER = ["world", "method", "published", "published seed again", f"{AGENTS} agents",
          f"{MANY:,} agents", "median", "verdict"]  # fmt: skip

Returns = Float[np.ndarray, " agents"]


def job(world: str, method: str, agents: int, seed: int | None = None) -> Job:
    """Returns the job of one method in one world, of the published run if there is a seed."""
    settings = {
        "world": world, "method": method, "agents": agents, "seed": seed, "steps": STEP_LIMIT,
    }  # fmt: skip
    again = "" if seed is None else " again"
    seconds = SECONDS if seed is None else REPLAY_SECONDS
    name = "drogo_paper.counts:count_runs"
    return Job(name, settings, f"counts, {method} in {world}{again}", seconds, VERSION)


def jobs(scope: Scope, get: Get) -> list[Job]:
    sampled = [job(*key, AGENTS if scope.quick else MANY) for key in product(WORLDS, METHODS)]
    if scope.quick:
        return sampled
    return [*sampled, *(job(world, DEFAULT, AGENTS, SEED) for world in WORLDS)]


def answer(scope: Scope, get: Get) -> Answer:
    agents = AGENTS if scope.quick else MANY
    results = {
        key: needed(get, job(*key, agents)).arrays["returns"] for key in product(WORLDS, METHODS)
    }
    again = {
        world: needed(get, job(world, DEFAULT, AGENTS, SEED)).arrays["returns"]
        for world in (() if scope.quick else WORLDS)
    }
    lines = [_line(world, method, results[world, method], again) for world, method in results]
    return Answer(
        "Counts",
        "its table on count-based exploration",
        _verdict(scope, results, again),
        {"counts": _figure(results)},
        [table_of(scope, HEADER, lines, _caption(scope), of_paper=(2, 3, 5, 7))],
        [] if scope.quick else _notes(results),
        {world: {m: float(results[world, m].mean()) for m in METHODS} for world in WORLDS},
        paper=PAPER,
    )


def _of_hundred(returns: Returns) -> Interval:
    """Returns the mean, and where 95 % of the means of as many agents as published lie."""
    means = np.random.default_rng(0).choice(returns, size=(2000, AGENTS)).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(returns.mean()), float(low), float(high))


def _cell(interval: Interval) -> str:
    mean, low, high = (f"{number / 1000:,.0f}" for number in interval)
    return f"{mean} [{low}, {high}]"


def _line(world: str, method: str, returns: Returns, again: Mapping[str, Returns]) -> list[str]:
    theirs = published.counts(world, method)
    whole = mean_of(returns)
    replay = f"{again[world].mean() / 1000:,.1f}" if method == DEFAULT and again else "-"
    return [
        world, method,
        "-" if theirs is None else f"{theirs / 1000:,.0f}",
        replay,
        _cell(mean_of(returns[:AGENTS])),
        _cell(whole) if len(returns) > AGENTS else "-",
        f"{np.median(returns) / 1000:,.0f}",
        "-" if theirs is None else published.verdict_of_mean(_of_hundred(returns), theirs),
    ]  # fmt: skip


def _verdict(
    scope: Scope, results: Mapping[tuple[str, str], Returns], again: Mapping[str, Returns]
) -> str:
    if scope.quick:
        return f"{AGENTS} agents of each method: too few for a verdict where returns differ a lot."
    river, arms = WORLDS
    exact = ", ".join(f"{again[world].mean() / 1000:,.1f} in {world}" for world in WORLDS)
    means = [f"{(published.counts(world, DEFAULT) or 0) / 1000:,.0f}" for world in WORLDS]
    with_dr, with_sr = (
        [_cell(mean_of(results[world, method])) for world in WORLDS]
        for method in (DEFAULT, SUCCESSOR)
    )
    return (
        f"The published runs of Sarsa + DR follow again from their seed: {exact} (thousands; "
        f"published {' and '.join(means)}). Over {MANY:,} agents it earns {' and '.join(with_dr)}: "
        f"in {arms} the published seed is a lucky one, and half of the agents earn less than "
        f"{np.median(results[arms, DEFAULT]) / 1000:,.0f}. Sarsa + SR earns "
        f"{' and '.join(with_sr)} with the published commands: its published mean in {river} does "
        "not follow from them."
    )


def _caption(scope: Scope) -> str:
    return (
        "What an agent earns in 5,000 steps, in thousands; mean and 95 % bootstrap interval over "
        "agents. The last two methods of each world are not published. Q-learning + DR has the "
        "settings of Sarsa + DR"
        + scope.against_paper(
            ". The published means have no intervals; the verdict says whether the means of "
            f"{AGENTS} of our agents, sampled at random, reach as far, in 95 % of cases"
        )
        + "."
    )


def _notes(results: Mapping[tuple[str, str], Returns]) -> list[str]:
    river, arms = WORLDS
    far = {world: 100 * float(np.mean(results[world, DEFAULT] > 1e6)) for world in WORLDS}
    return [
        "The settings of Sarsa and Sarsa + SR are the commands in the repository of Machado, "
        "Bellemare and Bowling (2020), whose own code earns 67 and 399 with the SR (thousands, its "
        f"seed, 100 agents). With the other settings, which explore more in {river} and have a "
        "weight of 100 instead of 10,000, the SR earns about what is published.",
        f"In {arms} an agent either finds a room that pays well, or does not: {far[arms]:.0f} % of "
        f"the agents of Sarsa + DR earn more than a million ({far[river]:.0f} % in {river}).",
        "The bonus of the DR is not a reward for new pairs, but a loss for known pairs of low "
        "reward: the log norm of a row is 0 before its first update, and falls.",
    ]


def _figure(results: Mapping[tuple[str, str], Returns]) -> Figure:
    figure = new_figure(10, 4)
    panels = figure.subplots(1, len(WORLDS))
    for axes, world in zip(panels, WORLDS, strict=True):
        for method, colour in zip(METHODS, OKABE_ITO, strict=False):
            returns = np.sort(results[world, method]) / 1000
            share = (np.arange(returns.size) + 0.5) / returns.size
            line = "--" if method == Q_LEARNING else "-"  # it lies on that of Sarsa
            axes.plot(share, returns, line, color=colour, linewidth=1.6, label=method)
            mean = published.counts(world, method)
            if mean is not None:
                axes.axhline(mean / 1000, color=colour, linestyle=":", linewidth=1.2)
        axes.set(title=world, xlabel="share of agents that earn less", yscale="symlog")
        axes.set_ylim(0, None)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("return (thousands)\ndotted: published mean")
    legend_below(figure, panels[0])
    return figure
