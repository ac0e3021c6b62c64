"""Does the norm of the default representation make agents explore?

The experiment of Tse, Chandrasekar and Machado (2025): Sarsa in two worlds that never end, without
a bonus and with bonuses from the norms of the successor and the default representation. Beside the
published means: the published run again from its seed, and many agents with other random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from drogo.plot.shaping import OKABE_ITO, legend_below
from drogo.runs.job import Job
from drogo.statistics import Interval, bootstrap_mean
from drogo.worlds.continuing import STEP_LIMIT, WORLDS
from drogo_paper import published
from drogo_paper.figures import new_figure
from drogo_paper.jobs.counts.runs import DEFAULT, METHODS, Q_LEARNING, SEED, SUCCESSOR
from drogo_paper.scope import Answer, Get, Scope, Table, needed

AGENTS, MANY = 100, 2000
"""The published number of agents, and ours. The first agents are the same ones."""
REPLAY_SECONDS, SECONDS = 150.0, 15.0
HEADER = ["world", "method", "published", "published seed again", f"{AGENTS} agents",
          f"{MANY:,} agents", "median", "verdict"]  # fmt: skip

Returns = Float[np.ndarray, " agents"]


def agents_in(scope: Scope) -> int:
    """How many agents of each method there are."""
    return AGENTS if scope.quick else MANY


def job(world: str, method: str, agents: int, seed: int | None = None) -> Job:
    """Returns the job of one method in one world, of the published run if there is a seed."""
    settings = {
        "world": world, "method": method, "agents": agents, "seed": seed, "steps": STEP_LIMIT,
    }  # fmt: skip
    again = "" if seed is None else " again"
    seconds = SECONDS if seed is None else REPLAY_SECONDS
    name = "drogo_paper.jobs.counts.runs:count_runs"
    return Job(name, settings, f"counts, {method} in {world}{again}", seconds)


def jobs(scope: Scope, get: Get) -> list[Job]:
    drawn = [job(world, method, agents_in(scope)) for world in WORLDS for method in METHODS]
    if scope.quick:
        return drawn
    return [*drawn, *(job(world, DEFAULT, AGENTS, SEED) for world in WORLDS)]


def answer(scope: Scope, get: Get) -> Answer:
    found = {
        (world, method): needed(get, job(world, method, agents_in(scope))).arrays["returns"]
        for world in WORLDS
        for method in METHODS
    }
    again = {}
    if not scope.quick:
        again = {
            world: needed(get, job(world, DEFAULT, AGENTS, SEED)).arrays["returns"]
            for world in WORLDS
        }
    lines = [_line(world, method, found[world, method], again) for world, method in found]
    header = HEADER
    if scope.quick:
        header, lines = (
            [header[k] for k in (0, 1, 4, 6)],
            [[x[k] for k in (0, 1, 4, 6)] for x in lines],
        )
    return Answer(
        "Counts",
        "its table on count-based exploration",
        _verdict(scope, found, again),
        {"counts": _figure(found)},
        [Table(header, lines, _caption(scope))],
        [] if scope.quick else _notes(found),
        {world: {m: float(found[world, m].mean()) for m in METHODS} for world in WORLDS},
        paper="Tse, Chandrasekar and Machado (2025)",
    )


def _mean(returns: Returns) -> Interval:
    return bootstrap_mean(returns, np.random.default_rng(0), resamples=1000)


def _of_hundred(returns: Returns) -> Interval:
    """Returns the mean, and where 95 % of the means of as many agents as published lie."""
    drawn = np.random.default_rng(0).choice(returns, size=(2000, AGENTS)).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(returns.mean()), float(low), float(high))


def _cell(interval: Interval) -> str:
    mean, low, high = (f"{number / 1000:,.0f}" for number in interval)
    return f"{mean} [{low}, {high}]"


def _line(world: str, method: str, returns: Returns, again: Mapping[str, Returns]) -> list[str]:
    theirs = published.counts(world, method)
    whole = _mean(returns)
    replay = f"{again[world].mean() / 1000:,.1f}" if method == DEFAULT and again else "-"
    return [
        world, method,
        "-" if theirs is None else f"{theirs / 1000:,.0f}",
        replay,
        _cell(_mean(returns[:AGENTS])),
        _cell(whole) if len(returns) > AGENTS else "-",
        f"{np.median(returns) / 1000:,.0f}",
        "-" if theirs is None else published.verdict_of_mean(_of_hundred(returns), theirs),
    ]  # fmt: skip


def _verdict(
    scope: Scope, found: Mapping[tuple[str, str], Returns], again: Mapping[str, Returns]
) -> str:
    if scope.quick:
        return f"{AGENTS} agents of each method: too few for a verdict where returns differ a lot."
    river, arms = WORLDS
    exact = ", ".join(f"{again[world].mean() / 1000:,.1f} in {world}" for world in WORLDS)
    means = [f"{(published.counts(world, DEFAULT) or 0) / 1000:,.0f}" for world in WORLDS]
    return (
        f"The published runs of Sarsa + DR follow again from their seed: {exact} (thousands; "
        f"published {' and '.join(means)}). Over {MANY:,} agents it earns "
        f"{_cell(_mean(found[river, DEFAULT]))} and {_cell(_mean(found[arms, DEFAULT]))}: in "
        f"{arms} the published seed is a lucky one, and half of the agents earn less than "
        f"{np.median(found[arms, DEFAULT]) / 1000:,.0f}. Sarsa + SR earns "
        f"{_cell(_mean(found[river, SUCCESSOR]))} and {_cell(_mean(found[arms, SUCCESSOR]))} with "
        f"the published commands: its published mean in {river} does not follow from them."
    )


def _caption(scope: Scope) -> str:
    return (
        "What an agent earns in 5,000 steps, in thousands; mean and 95 % bootstrap interval over "
        "agents. The last two methods of each world are not published. Q-learning + DR has the "
        "settings of Sarsa + DR"
        + scope.against_paper(
            ". The published means have no intervals; the verdict says whether the means of "
            f"{AGENTS} of our agents, drawn at random, reach as far, in 95 % of cases"
        )
        + "."
    )


def _notes(found: Mapping[tuple[str, str], Returns]) -> list[str]:
    """What the differences come from."""
    river, arms = WORLDS
    far = {world: 100 * float(np.mean(found[world, DEFAULT] > 1e6)) for world in WORLDS}
    return [
        "The settings of Sarsa + DR are those of the published commands of 2025. Those of Sarsa "
        "and Sarsa + SR are not published with it; they are the commands in the repository of "
        "Machado, Bellemare and Bowling (2020), whose own code earns 67 and 399 with the SR "
        "(thousands, its seed, 100 agents). With the other settings, which explore more in "
        f"{river} and have a weight of 100 instead of 10,000, the SR earns about what is "
        "published: they are the best or nearly the best of a small search.",
        f"In {arms} an agent either finds a room that pays well, or does not: {far[arms]:.0f} % of "
        f"the agents of Sarsa + DR earn more than a million ({far[river]:.0f} % in {river}). The "
        "mean of 100 such agents says little, and the median says what most of them see.",
        "The bonus of the DR is no reward for the new, but a loss for what is known and pays "
        "little: the log norm of a row is 0 before its first update, and falls. With action "
        "values that begin at 0, what was not tried looks better than what was.",
    ]


def _figure(found: Mapping[tuple[str, str], Returns]) -> Figure:
    figure = new_figure(10, 4)
    panels = figure.subplots(1, len(WORLDS))
    for axes, world in zip(panels, WORLDS, strict=True):
        for method, colour in zip(METHODS, OKABE_ITO, strict=False):
            returns = np.sort(found[world, method]) / 1000
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
