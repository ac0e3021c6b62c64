"""A map to every goal, learned from transitions, beside the exact columns of all pairs.

    uv run benchmarks/learned_goals.py --write                 four worlds, two inputs, five seeds
    uv run benchmarks/learned_goals.py --worlds four-rooms --inputs pixels --seeds 1

The runs are kept in `--out`. Prints Markdown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from common import LAM, WORLDS, data_of, finish, job
from drogo import Goals, GridWorld, Regression, Solution, Transitions, exact, fit, solve
from drogo.data.index import ObservationIndex
from drogo.learn import PairMLP, Quasimetric
from drogo.learn.judge import cosine
from drogo_paper.engines import Outcome
from drogo_paper.engines.store import Record
from tables import parse_options, write_table

MAPS = ("exact", "PairMLP", "PairMLP, by action", "Quasimetric")
TRIPLES = 10**6
ROUNDING = 1e-5
"""The share of the depth of a map that single precision may lose."""


def learn(data: Transitions, settings: dict[str, Any]) -> Solution:
    name, problem = settings["map"], Goals(lam=LAM)
    if name == "exact":
        return solve(data, problem)
    coordinates = settings["input"] == "coordinates"
    if name == "Quasimetric":
        network: Any = Quasimetric() if coordinates else None
    else:
        network = PairMLP() if coordinates else PairMLP(depth=1, frequencies=0)
    by_action = name == "PairMLP, by action"
    method = Regression(action_values=by_action, updates=settings["updates"])
    return fit(data, problem, method, seeds=settings["seeds"], network=network)


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    world, kind = GridWorld.load(settings["world"]), settings["input"]
    data = data_of(world, kind, settings["transitions"])
    began, cpu = time.perf_counter(), time.process_time()
    solution = learn(data, settings)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    rows = ObservationIndex(solution.observations).rows(world.observations(kind))
    place = np.argsort(solution.goals)[np.searchsorted(np.sort(solution.goals), rows)]
    learned = solution.v[0][np.ix_(place, rows)]
    truth = exact.log_columns(world.mdp, LAM)
    finite = np.isfinite(truth)
    assert np.array_equal(finite, np.isfinite(learned))
    pairs = zip(learned, truth, finite, strict=True)
    difference = np.abs(learned[finite] - truth[finite])
    facts = {
        "status": solution.status[0], "seconds": took, "cpu": cpu,
        "difference": float(difference.max()), "mean difference": float(difference.mean()),
        "depth": float(-truth[finite].min()), "violations": violations(learned),
    }  # fmt: skip
    cosines = [cosine(v[None, finite], t[finite])[0] for v, t, finite in pairs]
    return Outcome({"cosine": np.array(cosines)}, facts)


def violations(v: np.ndarray) -> int:
    """Returns how many of a million triples violate v(s, g) >= v(s, h) + v(h, g)."""
    s, h, g = np.random.default_rng(0).integers(len(v), size=(3, TRIPLES))
    slack = ROUNDING * -v[np.isfinite(v)].min()
    with np.errstate(invalid="ignore"):
        return int((v[g, s] < v[h, s] + v[g, h] - slack).sum())


def rows(records: dict[tuple[Any, ...], Record]) -> Iterator[list[str]]:
    for cell in dict.fromkeys(key[:3] for key in records):
        runs = [record for key, record in records.items() if key[:3] == cell]
        facts = {name: [one.facts[name] for one in runs] for name in runs[0].facts}
        cosines = np.stack([one.arrays["cosine"] for one in runs])
        yield [*cell, f"{cosines.mean():.6f}", f"{cosines.min():.6f}",
               f"{np.mean(facts['mean difference']):.3f}", f"{max(facts['difference']):.2f}",
               f"{facts['depth'][0]:.1f}", f"{max(facts['violations']):,}",
               ", ".join(sorted(set(facts["status"]))), f"{np.mean(facts['seconds']):.0f}",
               f"{np.mean(facts['cpu']):.0f}"]  # fmt: skip


def main() -> None:
    options = parse_options(
        __doc__, worlds=WORLDS, inputs=("coordinates", "pixels"), maps=MAPS, seeds=5,
        transitions=20_000, updates=None, workers=0, out=Path("results/learned-goals"),
    )  # fmt: skip
    jobs = {}
    for world, kind, name in product(options.worlds, options.inputs, options.maps):
        for seed in range(1 if name == "exact" else options.seeds):
            label = f"{world}, {kind}, {name}, seed {seed}"
            jobs[world, kind, name, seed] = job(
                "learned_goals:run", label, world=world, input=kind, map=name, seeds=[seed],
                transitions=options.transitions, updates=options.updates,
            )  # fmt: skip
    write_table(
        "learned-goals",
        f"All pairs of a state and a goal from {options.transitions:,} transitions at λ = {LAM:g}, "
        f"{options.seeds} seeds, beside the exact columns.",
        ("world", "input", "map", "mean cosine", "worst cosine", "mean difference",
         "largest difference", "depth", "violations", "status", "seconds", "of a CPU"),
        rows(finish(jobs, options.out, options.workers)),
        "A cosine is that of v(s, g) over all states s for one goal g; the worst is over all goals "
        "and seeds. A violation is a triple with v(s, g) < v(s, h) + v(h, g), beyond rounding, out "
        "of a million that are sampled, with the worst seed.",
        write=options.write,
    )  # fmt: skip


if __name__ == "__main__":
    main()
