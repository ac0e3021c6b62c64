"""Exploration with options that climb the successor (CEO) or default representation (RACE), learned
or exact (Tse, Chandrasekar and Machado, 2025), also in the same worlds without low-reward cells."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo_paper import published
from drogo_paper.engines.job import Job
from drogo_paper.jobs import options as runs
from drogo_paper.jobs.options import CEO, ITERATIONS, METHODS, PLAIN, RACE, STEPS
from drogo_paper.plot.figures import OKABE_ITO, legend_below, new_figure
from drogo_paper.published import DISCOVERED
from drogo_paper.scope import Answer, Get, Question, Scope, Table, needed
from drogo_paper.statistics import Interval, bootstrap_mean

VERSION = 1
SECONDS = {CEO: 60.0, RACE: 15.0, runs.CEO_EXACT: 40.0, runs.RACE_EXACT: 40.0, runs.UNTRIED: 10.0,
           runs.WALK: 3.0}  # fmt: skip
"""The expected seconds of a job in the larger worlds."""
PLAIN_METHODS = (*runs.PUBLISHED, runs.UNTRIED)
PAPER = "Tse, Chandrasekar and Machado (2025)"
QUICK_ITERATIONS = 5
SHOWN = {"visited": "{:.3f}", "visited at the end": "{:.2f}", "reward": "{:.1f}",
         **dict.fromkeys(published.RETURNED, "{:.1f}")}  # fmt: skip

Key = tuple[str, str]
"""A world and a method."""
Numbers = Mapping[str, Float[np.ndarray, " seeds"]]
Results = Mapping[Key, Mapping[str, np.ndarray]]


def job(scope: Scope, world: str, method: str) -> Job:
    settings = {
        "world": world, "method": method, "seeds": scope.seeds,
        "iterations": QUICK_ITERATIONS if scope.quick else runs.EVERY[world],
    }  # fmt: skip
    name = "drogo_paper.jobs.options:discover_options"
    return Job(name, settings, f"options, {method} in {world}", SECONDS[method], VERSION)


def plain_job(scope: Scope, world: str, method: str) -> Job:
    """Returns the job of a method in a plain world, or in the other one if it is blind to
    rewards."""
    blind = method in (runs.WALK, CEO)
    return job(scope, world.removesuffix("-plain") if blind else world, method)


def jobs(scope: Scope, get: Get) -> list[Job]:
    return [job(scope, world, method) for world in ITERATIONS for method in METHODS]


def plain_jobs(scope: Scope, get: Get) -> list[Job]:
    return [plain_job(scope, world, method) for world in PLAIN for method in PLAIN_METHODS]


def numbers_of(arrays: Mapping[str, np.ndarray], steps: int = STEPS) -> Numbers:
    """Returns the published quantities of each seed: shares, and thousands of rewards."""
    visited = arrays["visited"]
    reward = arrays["reward"].sum(axis=1) * steps / 1000
    parts = (visited.mean(axis=1), visited[:, -1], reward)
    return dict(zip(DISCOVERED, parts, strict=True))


def mean_of(of_seeds: np.ndarray) -> Interval:
    return bootstrap_mean(of_seeds, np.random.default_rng(0), resamples=1000)


def shown(quantity: str, interval: Interval) -> str:
    """Returns a mean with its interval, unless that has no width, as text."""
    mean, low, high = (SHOWN[quantity].format(number) for number in interval)
    return mean if low == high else f"{mean} [{low}, {high}]"


def beside_published(
    scope: Scope,
    numbers: Mapping[Key, Numbers],
    quantities: Iterable[str],
    theirs: Callable[[str, str], Mapping[str, tuple[float, float]]],
    printed: Mapping[str, str] = SHOWN,
) -> tuple[list[str], list[list[str]], str]:
    """Returns the header and rows of a table of means beside the published ones (not in a quick
    look), and a sentence that counts those inside."""
    header, rows, inside, total = ["world", "method"], [], 0, 0
    for quantity in quantities:
        header += [quantity] if scope.quick else [quantity, "published"]
    for key, of_seeds in numbers.items():
        cells, means = list(key), theirs(*key)
        for quantity in quantities:
            ours = mean_of(of_seeds[quantity])
            cells.append(shown(quantity, ours))
            if scope.quick:
                continue
            if quantity not in means:
                cells.append("-")
                continue
            is_inside = "inside" in published.verdict_of_mean(ours, *means[quantity])
            inside, total = inside + is_inside, total + 1
            text = printed[quantity].format(means[quantity][0])
            cells.append(text if is_inside else f"{text} (outside)")
        rows.append(cells)
    counted = f"{inside} of {total} published means lie in our 95 % intervals, as far as they can "
    return header, rows, f"{counted}be read."


def answer(scope: Scope, get: Get) -> Answer:
    keys = [(world, method) for world in ITERATIONS for method in METHODS]
    records = {key: needed(get, job(scope, *key)) for key in keys}
    results = {key: record.arrays for key, record in records.items()}
    numbers = {key: numbers_of(arrays) for key, arrays in results.items()}
    inaccurate = sum(record.facts.get("inaccurate", 0) for record in records.values())
    header, rows, counted = beside_published(scope, numbers, DISCOVERED, published.options)
    return Answer(
        "Option discovery",
        "its figures on option discovery",
        _verdict(scope, numbers, counted),
        {"options": _figure(results)},
        [Table(header, rows, _caption(scope))],
        [] if scope.quick else _notes(numbers, inaccurate),
        by_world({key: of_seeds["visited"] for key, of_seeds in numbers.items()}),
        paper=PAPER,
    )


def plain_answer(scope: Scope, get: Get) -> Answer:
    keys = [(world, method) for world in PLAIN for method in PLAIN_METHODS]
    results = {key: needed(get, plain_job(scope, *key)).arrays for key in keys}
    numbers = {key: numbers_of(arrays) for key, arrays in results.items()}
    quantities = DISCOVERED[:2]
    printed: dict[str, str] = dict.fromkeys(quantities, "{:.3f}")
    header, rows, counted = beside_published(scope, numbers, quantities, published.options, printed)
    visited = by_world({key: arrays["visited"] for key, arrays in results.items()})
    pairs = [f"{of[RACE]:.2f} and {of[CEO]:.2f} in {world}" for world, of in visited.items()]
    verdict = f"{counted} RACE and CEO visit {', '.join(pairs)}."
    caption = (
        "The share of states visited, in the mean over all steps and at the end. Mean and 95 % "
        f"bootstrap interval over {scope.seeds} seeds"
        + scope.against_paper(
            ". Published means are read off a figure (±0.01), where that of RACE mostly hides CEO; "
            "outside: not in our interval even so"
        )
        + "."
    )
    note = (
        "The random walk and CEO do not see rewards, so that their visits are those of the worlds "
        "with low-reward cells."
    )
    return Answer(
        "Option discovery without low-reward cells",
        "its figure 3",
        too_short() if scope.quick else verdict,
        {"options-plain": _plain_figure(results)},
        [Table(header, rows, caption)],
        [note],
        visited,
        paper=PAPER,
    )


def by_world(shares: Mapping[Key, np.ndarray]) -> dict[str, dict[str, float]]:
    """Returns the means of some arrays, by world and method."""
    means: dict[str, dict[str, float]] = {}
    for (world, method), array in shares.items():
        means.setdefault(world, {})[method] = float(array.mean())
    return means


def too_short() -> str:
    return f"{QUICK_ITERATIONS} iterations: too short for a verdict."


def _verdict(scope: Scope, numbers: Mapping[Key, Numbers], counted: str) -> str:
    if scope.quick:
        return too_short()
    cheaper = all(
        numbers[world, RACE]["reward"].mean() > numbers[world, CEO]["reward"].mean()
        for world in ITERATIONS
    )
    costs = "costs less" if cheaper else "does not cost less"
    costs = f"RACE {costs} than CEO in all worlds, {'as' if cheaper else 'other than'} published"
    both = {
        world: [f"{numbers[world, method]['reward'].mean():.1f}" for method in (RACE, CEO)]
        for world in ITERATIONS
    }
    pairs = ", ".join(f"{' and '.join(shown)} in {world}" for world, shown in both.items())
    return f"{counted} {costs}: {pairs} (thousands)."


def _caption(scope: Scope) -> str:
    return (
        "The share of states visited, in the mean over all steps and at the end, and the sum of "
        f"rewards in thousands. Mean and 95 % bootstrap interval over {scope.seeds} seeds"
        + scope.against_paper(
            ". Published means are read off figures (±0.01 and ±0.1); outside: not in our interval "
            "even so"
        )
        + "."
    )


def _notes(numbers: Mapping[Key, Numbers], inaccurate: int) -> list[str]:
    """Describes the differences from the published runs, and the results of exact vectors."""

    def means(method: str, quantity: str) -> str:
        shown = (f"{numbers[world, method][quantity].mean():.2f}" for world in ITERATIONS)
        return ", ".join(shown)

    return [
        "The random walk is the published one, step by step. The walks of the other methods have "
        "our own random numbers, and options are solved exactly where the published script sweeps "
        "over all steps. Eigenvectors are computed in double precision, in place of 100 digits. "
        f"{inaccurate} of them were not accurate.",
        "A learned table keeps its first values where it was not updated. The vector of CEO is "
        "smallest, and that of RACE largest, in states with few visits, which leads options there. "
        "Exact vectors of what was seen know nothing of that and explore less: "
        f"{means(runs.RACE_EXACT, 'visited')} visited by RACE, exact, and "
        f"{means(runs.CEO_EXACT, 'visited')} by CEO, exact.",
        "If actions that were never tried count as terminal states worth reaching, the exact map "
        "explores without a step size, passes or a norm, around what is costly. It visits "
        f"{means(runs.UNTRIED, 'visited')} with the settings of RACE. When everything was tried, "
        "the rest is a random walk, which its rewards include.",
    ]


def _figure(results: Results) -> Figure:
    figure = new_figure(13, 6)
    panels = figure.subplots(2, len(ITERATIONS), sharex="col")
    for column, world in zip(panels.T, ITERATIONS, strict=True):
        _draw_visited(column[0], world, {m: results[world, m]["visited"] for m in METHODS})
        for method, colour in zip(METHODS, OKABE_ITO, strict=False):
            reward = results[world, method]["reward"].mean(axis=0).cumsum() * STEPS / 1000
            line = "-" if method in runs.PUBLISHED else "--"
            column[1].plot(np.arange(1, len(reward) + 1), reward, line, color=colour)
        column[1].set_xlabel(f"iterations of {STEPS} steps")
        column[1].grid(alpha=0.3)
    panels[0, 0].set_ylabel("share of states visited")
    panels[1, 0].set_ylabel("sum of rewards (thousands)")
    legend_below(figure, panels[0, 0])
    return figure


def _plain_figure(results: Results) -> Figure:
    figure = new_figure(13, 3.2)
    panels = figure.subplots(1, len(PLAIN))
    for axes, world in zip(panels, PLAIN, strict=True):
        _draw_visited(axes, world, {m: results[world, m]["visited"] for m in PLAIN_METHODS})
        axes.set_xlabel(f"iterations of {STEPS} steps")
    panels[0].set_ylabel("share of states visited")
    legend_below(figure, panels[0])
    return figure


def _draw_visited(axes: Axes, world: str, visited: Mapping[str, np.ndarray]) -> None:
    for (method, shares), colour in zip(visited.items(), OKABE_ITO, strict=False):
        line = "-" if method in runs.PUBLISHED else "--"
        mean = shares.mean(axis=0)[:: STEPS + 1]
        axes.plot(np.arange(len(mean)), mean, line, color=colour, label=method)
    axes.set(title=world, ylim=(0, 1.02))
    axes.grid(alpha=0.3)


QUESTIONS = {
    "options": Question(answer, jobs),
    "options-plain": Question(plain_answer, plain_jobs),
}
