"""Transfer to new terminal rewards without learning again (Tse, Chandrasekar and Machado, 2025), by
learned features, exact log columns, and learned maps to every goal."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo import exact
from drogo.worlds.grid import GridWorld
from drogo_paper import published
from drogo_paper.engines.job import Job
from drogo_paper.jobs import tasks as published_tasks, transfer as runs
from drogo_paper.jobs.tasks import STEPS, WORLD, Tasks
from drogo_paper.jobs.transfer import (
    AS_PUBLISHED,
    DEFAULT,
    DEFAULT_DIVIDED,
    EXACT,
    OPTIMAL,
    TABLE,
    UNCHANGED,
    goal_map,
    successor,
)
from drogo_paper.plot.figures import OKABE_ITO, legend_below, new_figure
from drogo_paper.scope import DISCOUNT, Answer, Get, Scope, needed, table_of
from drogo_paper.statistics import Interval, bootstrap_band, bootstrap_mean

VERSION = 1
LAM = 1.3
"""The published lambda."""
LAMBDAS = (LAM, 0.3, 0.1, 0.01)
"""The lambdas of exact columns."""
MAP_LAM = 0.3
"""The lambda of learned maps. A network holds every value of such a column in single precision."""
SOURCES = {TABLE: 5.0, "coordinates": 500.0, "pixels": 500.0}
"""The sources of maps, and the expected seconds."""
TASKS, SEEDS = 100, 50
SECONDS = {"optimal": 10.0, "default_features": 6.0, "successor_features": 35.0}
"""The expected seconds of each job."""
BEST = "best possible"
COLUMNS = {lam: f"exact columns, λ = {lam:g}" for lam in LAMBDAS}
UNDIVIDED = f"{COLUMNS[LAM]}, weights exp(r)"
IMPROVED = [successor(k) for k in reversed(runs.POLICIES)]
METHODS = [BEST, OPTIMAL, DEFAULT, *IMPROVED, DEFAULT_DIVIDED, *(name + EXACT for name in IMPROVED),
           UNDIVIDED, *COLUMNS.values(), *map(goal_map, SOURCES)]  # fmt: skip
"""The rows of the table."""
LINES = {BEST: ":", OPTIMAL: "--"}
"""Line styles of curves that are no method of transfer."""
PIXELS = goal_map("pixels")
SHOWN = [OPTIMAL, DEFAULT, *IMPROVED, PIXELS, BEST]
AT_THE_TOP, LAST = [OPTIMAL, DEFAULT, PIXELS, BEST], 20
"""Curves that lie close together, and the number of last tasks in their inset."""

Curves = Float[np.ndarray, "seeds tasks"]
Totals = Mapping[str, Mapping[str, Interval]]
"""The return of all tasks by evaluation and method."""


def seeds_in(scope: Scope) -> int:
    """The seeds of each learner: the published number, except in a quick look."""
    return scope.seeds if scope.quick else SEEDS


def steps_in(scope: Scope) -> int:
    return STEPS // 10 if scope.quick else STEPS


def jobs(scope: Scope, get: Get) -> list[Job]:
    settings = {"tasks": TASKS, "seeds": seeds_in(scope), "steps": steps_in(scope),
                "discount": DISCOUNT, "lam": LAM}  # fmt: skip
    wanted = {name: (name, settings, seconds) for name, seconds in SECONDS.items()}
    for source, seconds in SOURCES.items():
        learned = {**settings, "lam": MAP_LAM, "input": source}
        wanted[goal_map(source)] = ("goal_maps", learned, seconds)
    return [
        Job(f"drogo_paper.jobs.transfer:{name}", asked, f"transfer, {label}", seconds, VERSION)
        for label, (name, asked, seconds) in wanted.items()
    ]


def cumulative_returns(
    world: GridWorld, tasks: Tasks, columns: published_tasks.Columns, lam: float
) -> Float[np.ndarray, "*runs tasks"]:
    """Computes the return of the first task, of the first two, and so on, from log columns."""
    policy = published_tasks.from_columns(world, columns, tasks.value / lam)
    return published_tasks.returns(world, tasks, policy).cumsum(axis=-1)


def cumulative(scope: Scope, get: Get) -> dict[str, dict[str, Curves]]:
    """Returns the curves of each method in each evaluation."""
    world = GridWorld.load(WORLD)
    columns = {lam: exact.log_columns(world.mdp, lam, world.terminal) for lam in LAMBDAS}
    learned = {}
    for job in jobs(scope, get):
        learned |= needed(get, job).arrays
    curves = {}
    for evaluation, tasks in runs.evaluations(world, TASKS).items():
        results = {BEST: published_tasks.best_returns(world, tasks).cumsum()[None]}
        for name, array in learned.items():
            method, _, where = name.rpartition("/")
            if where == evaluation:
                results[method] = array.cumsum(axis=-1)
        results[UNDIVIDED] = cumulative_returns(world, tasks, columns[LAM], 1.0)[None]
        for lam, name in COLUMNS.items():
            results[name] = cumulative_returns(world, tasks, columns[lam], lam)[None]
        curves[evaluation] = results
    return curves


def answer(scope: Scope, get: Get) -> Answer:
    curves = cumulative(scope, get)
    totals = {
        where: {
            name: bootstrap_mean(results[:, -1], np.random.default_rng(0))
            for name, results in by_method.items()
        }
        for where, by_method in curves.items()
    }
    lines = _lines(totals)
    inside = sum("inside" in line[3] for line in lines)
    header = ["method", "evaluated as published", "published", "verdict", "in the unchanged world"]
    return Answer(
        "Transfer to new terminal rewards",
        "its figure on transfer",
        _verdict(scope, totals, inside),
        {"transfer": _figure(curves)},
        [table_of(scope, header, lines, _caption(scope), of_paper=(2, 3))],
        [] if scope.quick else _notes(totals),
        {where: {name: x.mean for name, x in results.items()} for where, results in totals.items()},
        paper="Tse, Chandrasekar and Machado (2025)",
    )


def _cell(interval: Interval) -> str:
    """Returns a return and its interval, if it has one, as text."""
    mean, low, high = (f"{number:,.0f}" for number in interval)
    return mean if low == high else f"{mean} [{low}, {high}]"


def _lines(totals: Totals) -> list[list[str]]:
    lines = []
    for method in METHODS:
        ours, theirs = totals[AS_PUBLISHED][method], published.transfer(method)
        printed = "-" if theirs is None else _cell(theirs)
        verdict = "-" if theirs is None else published.verdict(ours, theirs)
        lines.append([method, _cell(ours), printed, verdict, _cell(totals[UNCHANGED][method])])
    return lines


def _verdict(scope: Scope, totals: Totals, inside: int) -> str:
    if scope.quick:
        return (
            f"{steps_in(scope):,} steps of learning with {seeds_in(scope)} seeds: too short for a "
            "verdict."
        )
    both = [published.transfer(method) for method in (DEFAULT, OPTIMAL)]
    printed = " of ".join(f"{theirs.mean:,.0f}" for theirs in both if theirs is not None)
    count = sum(published.transfer(method) is not None for method in METHODS)
    shown = {name: _cell(interval) for name, interval in totals[AS_PUBLISHED].items()}
    unchanged = {name: _cell(interval) for name, interval in totals[UNCHANGED].items()}
    return (
        f"Default features learned as published earn {shown[DEFAULT]} in {TASKS} tasks, where the "
        f"policies that are called optimal earn {shown[OPTIMAL]}; published: {printed}. {inside} "
        f"of {count} numbers lie inside the published intervals. But the published evaluation "
        f"erases low-reward cells. In the unchanged world the best possible is {unchanged[BEST]}: "
        f"the policies called optimal earn {unchanged[OPTIMAL]}, learned default features "
        f"{unchanged[DEFAULT]}, and exact columns {unchanged[COLUMNS[LAM]]} at λ = {LAM:g} and "
        f"{unchanged[COLUMNS[LAMBDAS[-1]]]} at λ = {LAMBDAS[-1]:g}. Maps to every goal, learned at "
        f"λ = {MAP_LAM:g}, earn as published {_of_maps(shown)}, and in the unchanged world "
        f"{_of_maps(unchanged)}."
    )


def _of_maps(shown: Mapping[str, str]) -> str:
    """Returns the returns of maps from each source."""
    names = {source: "a table" if source == TABLE else source for source in SOURCES}
    return ", ".join(f"{shown[goal_map(source)]} from {name}" for source, name in names.items())


def _caption(scope: Scope) -> str:
    return (
        f"The sum of the returns of {TASKS} tasks, with one episode each. Optimal: Q-learning for "
        "each task. DF: default features. SF-k: generalised policy improvement from the successor "
        "features of k policies for other tasks. Map: to every goal, a fit of `drogo.Goals` from "
        f"random actions in sampled states. Learners have {seeds_in(scope)} seeds and "
        f"{steps_in(scope):,} steps; mean and 95 % bootstrap interval over seeds"
        + scope.against_paper(
            ". Published numbers are read off the figure (a pixel is 7, the line of DF 40 wide)"
        )
        + "."
    )


def _notes(totals: Totals) -> list[str]:
    """Returns explanations of the differences between the rows."""
    world = GridWorld.load(WORLD)
    starts = published_tasks.draw_starts(world, TASKS)
    low = world.low_reward[starts]
    shown = {name: _cell(interval) for name, interval in totals[AS_PUBLISHED].items()}
    smallest = {
        lam: (v := exact.log_columns(world.mdp, lam, world.terminal))[np.isfinite(v)].min()
        for lam in LAMBDAS
    }
    first, last = successor(max(runs.POLICIES)), LAMBDAS[-1]
    return [
        "Rewards, start cells and policies of the tasks follow again from the seeds of the "
        "published scripts. What the learners see on their walks does not.",
        "The published evaluation marks the cell in which an episode begins as the start, and as a "
        f"plain cell afterwards. {low.sum()} of {TASKS} episodes begin in a low-reward cell, so "
        f"that {len(np.unique(starts[low]))} of {world.low_reward.sum()} low-reward cells cost 1 "
        "instead of 20 by the last task, which no method knows. The best possible in this "
        f"evaluation is {shown[BEST]}.",
        f"The policies called optimal are learned with a discount of {DISCOUNT:g}, but evaluated "
        "by their undiscounted return. In the unchanged world other policies earn more.",
        "Published default features weigh a goal with exp(r), where the equation has exp(r/λ). At "
        f"λ = {LAM:g} this happens to help: a step costs its reward and up to λ log 4 = "
        f"{LAM * np.log(4):.1f} for leaving the default policy, so that far goals are valued too "
        f"low. With the equation's weights, learned features earn {shown[DEFAULT_DIVIDED]} and "
        f"exact columns {shown[COLUMNS[LAM]]}; exact columns earn {shown[UNDIVIDED]} with the "
        "published weights.",
        "A small λ needs no such luck, but the log domain: the smallest entry of a column is "
        f"e^{smallest[LAM]:.0f} at λ = {LAM:g} and e^{smallest[last]:.0f} at λ = {last:g}.",
        f"{first} with exact features earns {shown[first + EXACT]}: part of what successor "
        "features lose is the error of learning. As published, their weights of goals are whole "
        "numbers.",
    ]


def _figure(curves: Mapping[str, Mapping[str, Curves]]) -> Figure:
    figure = new_figure(12, 4.8)
    left, *panels = figure.subplots(1, 3, width_ratios=[0.8, 1, 1])
    left.imshow(GridWorld.load(WORLD).picture(), interpolation="nearest")
    left.set(xticks=[], yticks=[], title=WORLD)
    left.set_xlabel("green: goals, white: -1,\norange: low reward (-20)")
    titles = {AS_PUBLISHED: "evaluated as published", UNCHANGED: "in the unchanged world"}
    for axes, (where, results) in zip(panels, curves.items(), strict=True):
        _draw(axes, results, SHOWN)
        axes.set(title=titles[where], xlabel="tasks")
        axes.sharey(panels[0])
        inset = axes.inset_axes((0.09, 0.68, 0.33, 0.3))  # where there are no curves
        _draw(inset, {name: results[name][:, -LAST:] for name in results}, AT_THE_TOP, TASKS - LAST)
        inset.tick_params(labelsize=7)
    panels[0].set_ylabel("cumulative return (thousands)")
    legend_below(figure, panels[0])
    return figure


def _draw(axes: Axes, curves: Mapping[str, Curves], names: Sequence[str], before: int = 0) -> None:
    """Draws the curves of some methods, with the band of those that have seeds."""
    for name in names:
        of_seeds, colour = curves[name] / 1000, OKABE_ITO[SHOWN.index(name)]
        task = before + np.arange(1, of_seeds.shape[1] + 1)
        if len(of_seeds) > 1:
            band = bootstrap_band(of_seeds, np.random.default_rng(0))
            axes.fill_between(task, *band, color=colour, alpha=0.2, linewidth=0)
        axes.plot(task, of_seeds.mean(axis=0), LINES.get(name, "-"), color=colour, linewidth=1.6,
                  label=name, zorder=4 if name in LINES else 3)  # fmt: skip
    axes.grid(alpha=0.3)
