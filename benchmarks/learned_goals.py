"""A map to every goal, learned from transitions: how close it is to the exact columns of all pairs.

    uv run benchmarks/learned_goals.py                         four worlds, two inputs, five seeds
    uv run benchmarks/learned_goals.py --worlds four-rooms --inputs pixels --seeds 1

The runs are kept in `--out`: an interrupted table goes on where it was. Prints Markdown. A cosine
is that of v(s, g) over all states s, for one goal g; the worst is over all goals and seeds, and so
is the largest difference of a log. A violation is a triple with v(s, g) < v(s, h) + v(h, g), beyond
rounding, out of a million that are drawn.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo import GridWorld, collect, exact, fit_goals
from drogo.learn.judge import cosine
from drogo.runs import Job, LocalEngine, Outcome, Store

LAM = 20.0
WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
INPUTS = ("coordinates", "pixels")
NETWORKS = {
    "table": {"network": "table"},
    "mlp": {"network": "mlp"},
    "mlp, q": {"network": "mlp", "objective": "q"},
    "quasimetric": {"network": "quasimetric"},
}
TRIPLES = 10**6
ROUNDING = 1e-5
"""The share of the depth of a map that single precision may lose."""


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    world, kind = GridWorld.load(settings["world"]), settings["input"]
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    data = collect(env, settings["transitions"], seed=0)
    began, cpu = time.perf_counter(), time.process_time()
    goals = fit_goals(
        data, lam=LAM, seeds=[settings["seed"]], **NETWORKS[settings["network"]],
        **settings["overrides"],
    )  # fmt: skip
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    rows = goals.rows_of(world.observations(kind))
    place = np.argsort(goals.goals)[np.searchsorted(np.sort(goals.goals), rows)]
    learned = goals.v[0][np.ix_(place, rows)]
    truth = exact.log_columns(world.mdp, LAM)
    known = np.isfinite(truth)
    assert np.array_equal(known, np.isfinite(learned))
    pairs = zip(learned, truth, known, strict=True)
    cosines = [cosine(v[None, ok], t[ok])[0] for v, t, ok in pairs]
    facts = {
        "status": goals.status[0],
        "seconds": took,
        "cpu": cpu,
        "error": float(goals.error[0]),
        "difference": float(np.abs(learned[known] - truth[known]).max()),
        "mean difference": float(np.abs(learned[known] - truth[known]).mean()),
        "violations": violations(learned),
        "depth": -float(truth[known].min()),
    }
    return Outcome({"cosine": np.array(cosines)}, facts)


def violations(v: np.ndarray) -> int:
    """How many of a million triples violate v(s, g) >= v(s, h) + v(h, g)."""
    s, h, g = np.random.default_rng(0).integers(len(v), size=(3, TRIPLES))
    slack = ROUNDING * -v[np.isfinite(v)].min()
    with np.errstate(invalid="ignore"):
        return int((v[g, s] < v[h, s] + v[g, h] - slack).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", default=WORLDS)
    parser.add_argument("--inputs", nargs="+", default=INPUTS)
    parser.add_argument("--networks", nargs="+", default=[*NETWORKS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--transitions", type=int, default=20_000)
    parser.add_argument("--updates", type=int, default=None)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/learned-goals"))
    options = parser.parse_args()
    overrides = {} if options.updates is None else {"updates": options.updates}
    store = Store(options.out)
    table = list(product(options.worlds, options.inputs, options.networks))
    jobs = {
        (*cell, seed): Job(
            "learned_goals:run",
            dict(zip(("world", "input", "network"), cell, strict=True))
            | {"seed": seed, "transitions": options.transitions, "overrides": overrides},
            f"{', '.join(cell)}, seed {seed}",
        )
        for seed, cell in product(range(options.seeds), table)
        if seed == 0 or cell[2] != "table"
    }
    todo = [job for job in jobs.values() if not store.has(job)]
    told = lambda job, what, number: what != "progress" and print(f"<!-- {job.label}: {what}, {number:.0f} s -->", flush=True)  # noqa: E501, E731  # fmt: skip
    if todo:
        LocalEngine(options.workers).run(todo, store, told)
    print("\n| world | input | network | seeds | mean cosine | worst cosine | mean difference | "
          "largest difference | depth | violations | status | seconds | of a CPU |")  # fmt: skip
    print("|---" * 13 + "|")
    for cell in table:
        records = [store.get(job) for key, job in jobs.items() if key[:3] == cell]
        found = [record for record in records if record is not None]
        facts = {name: [r.facts[name] for r in found] for name in found[0].facts}
        cosines = np.stack([record.arrays["cosine"] for record in found])
        print("| " + " | ".join([
            *cell, str(len(found)), f"{cosines.mean():.6f}", f"{cosines.min():.6f}",
            f"{np.mean(facts['mean difference']):.3f}", f"{max(facts['difference']):.2f}",
            f"{facts['depth'][0]:.1f}", f"{max(facts['violations']):,}",
            ", ".join(sorted(set(facts["status"]))), f"{np.mean(facts['seconds']):.0f}",
            f"{np.mean(facts['cpu']):.0f}",
        ]) + " |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
