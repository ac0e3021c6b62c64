"""The return of the best policy during option discovery: the lower half of figure 7 of Tse,
Chandrasekar and Machado (2025), with 50 seeds, in the large worlds too."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from drogo_paper import options, published
from drogo_paper.engines.job import Job
from drogo_paper.jobs import options as runs
from drogo_paper.jobs.options import CEO, LARGE, METHODS, Q_SETTINGS, QL, RACE, UNTRIED, steps_of
from drogo_paper.options import Key, Numbers, Results, mean_of
from drogo_paper.plot.figures import OKABE_ITO, legend_below, new_figure
from drogo_paper.published import DISCOVERED, RETURNED
from drogo_paper.scope import Answer, Get, Scope, Table, needed
from drogo_paper.statistics import bootstrap_band

VERSION = 1
SECONDS = {QL: 30.0, CEO: 400.0, RACE: 120.0, runs.CEO_EXACT: 200.0, runs.RACE_EXACT: 200.0,
           UNTRIED: 60.0}  # fmt: skip
"""The expected seconds of a job in grid-room."""
MORE_SEEDS = 5
"""The factor on the seeds of the other questions."""
WORLDS = (*runs.ITERATIONS, *LARGE)
OPTIONS = tuple(method for method in METHODS if method != runs.WALK)
SAMPLED = 60
"""An iteration in the middle of the curves, whose return is published."""


def job(scope: Scope, world: str, method: str) -> Job:
    settings = {
        "world": world, "method": method, "seeds": MORE_SEEDS * scope.seeds,
        "iterations": options.QUICK_ITERATIONS if scope.quick else runs.EVERY[world],
    }  # fmt: skip
    name = "drogo_paper.jobs.options:discover_returns"
    seconds = SECONDS[method] * (5 if world in LARGE else 1)
    return Job(name, settings, f"returns, {method} in {world}", seconds, VERSION)


def keys() -> list[Key]:
    """Returns all pairs of a world and a method. Exact eigenvectors take long in large worlds."""
    slow = (runs.CEO_EXACT, runs.RACE_EXACT)
    return [
        (world, method)
        for world in WORLDS
        for method in (QL, *OPTIONS)
        if (world in Q_SETTINGS if method == QL else world not in LARGE or method not in slow)
    ]


def jobs(scope: Scope, get: Get) -> list[Job]:
    return [job(scope, *key) for key in keys()]


def answer(scope: Scope, get: Get) -> Answer:
    results = {key: needed(get, job(scope, *key)).arrays for key in keys()}
    returns = {key: _returns(arrays["returns"]) for key, arrays in results.items()}
    seen = {
        key: options.numbers_of(results[key], steps_of(key[0])) for key in results if key[1] != QL
    }
    header, rows, counted = options.beside_published(
        scope, returns, RETURNED, published.option_returns
    )
    caption = (
        "The return of the best policy so far. Mean and 95 % bootstrap interval over "
        f"{MORE_SEEDS * scope.seeds} seeds"
        + scope.against_paper(
            ". Published means of 50 seeds are read off a figure (±0.5, in the large worlds ±1 or "
            "1.5); outside: not in our interval even so"
        )
        + "."
    )
    ends = options.by_world({key: numbers["at the end"] for key, numbers in returns.items()})
    pairs = [f"{ends[w][RACE]:.1f} and {ends[w][CEO]:.1f} in {w}" for w in Q_SETTINGS]
    verdict = f"{counted} RACE and CEO end at {', '.join(pairs)}."
    return Answer(
        "The way to the goal while options are discovered",
        "the lower half of its figure 7",
        options.too_short() if scope.quick else verdict,
        {"options-returns": _figure(results)},
        [Table(header, rows, caption), _table_of_visits(scope, seen)],
        [] if scope.quick else _notes(seen),
        ends,
        paper=options.PAPER,
    )


def _returns(curves: np.ndarray) -> Numbers:
    middle = min(SAMPLED, curves.shape[1]) - 1
    return dict(zip(RETURNED, (curves[:, middle], curves[:, -1]), strict=True))


def _table_of_visits(scope: Scope, seen: Mapping[Key, Numbers]) -> Table:
    lines = [
        [*key, *(options.shown(quantity, mean_of(numbers[quantity])) for quantity in DISCOVERED)]
        for key, numbers in seen.items()
    ]
    return Table(
        ["world", "method", *DISCOVERED],
        lines,
        "The share of states visited, in the mean over all steps and at the end, and the sum of "
        f"rewards in thousands, with {MORE_SEEDS * scope.seeds} seeds. Visits and rewards in the "
        "large worlds are not published.",
    )


def _notes(seen: Mapping[Key, Numbers]) -> list[str]:
    def better(first: str, second: str) -> str:
        worlds = []
        for world in (w for w in WORLDS if (w, first) in seen):
            difference = mean_of(seen[world, first]["visited"] - seen[world, second]["visited"])
            word = "better" if difference.mean > 0 else "worse"
            word = "equal" if difference.low <= 0 <= difference.high else word
            worlds.append(f"{word} in {world} ({difference.mean:+.2f})")
        return ", ".join(worlds)

    return [
        "The published scripts sweep over all steps that were taken until no value changes; here "
        "the same values are solved exactly. As published, a walk goes on when it comes by the "
        "goal, and Q-learning follows one policy for a whole iteration. The published figure reads "
        "CEO from runs called SR_nt, whose script is not published.",
        "Exact vectors in place of learned ones, by the share of states visited with these seeds: "
        f"RACE is {better(runs.RACE_EXACT, RACE)}; CEO is {better(runs.CEO_EXACT, CEO)}. With "
        f"untried actions as terminal states, RACE is {better(UNTRIED, RACE)}. Equal: the 95 % "
        "interval of the difference, seed by seed, has 0 in it.",
    ]


def _figure(results: Results) -> Figure:
    figure = new_figure(13, 3.6)
    panels = figure.subplots(1, len(Q_SETTINGS))
    for axes, world in zip(panels, Q_SETTINGS, strict=True):
        for method, colour in zip((QL, *OPTIONS), OKABE_ITO, strict=False):
            if (world, method) not in results:
                continue
            curves = results[world, method]["returns"]
            iterations = np.arange(1, curves.shape[1] + 1)
            line = "-" if method in (QL, CEO, RACE) else "--"
            axes.plot(iterations, curves.mean(axis=0), line, color=colour, label=method)
            if method in (CEO, RACE):
                band = bootstrap_band(curves, np.random.default_rng(0))
                axes.fill_between(iterations, *band, color=colour, alpha=0.2, linewidth=0)
        steps = steps_of(world)
        axes.set(title=world, ylim=(-1.03 * steps, -0.65 * steps if steps == 100 else -0.4 * steps),
                 xlabel=f"iterations of {steps} steps")  # fmt: skip
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("return of the best policy so far")
    legend_below(figure, panels[0])
    return figure
