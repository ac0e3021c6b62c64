"""Worlds, data and kept runs that several benchmarks share."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import numpy as np

from drogo import Column, GridWorld, Solution, Transitions, collect, fit
from drogo.errors import Diverged
from drogo.learn.settings import seed_list
from drogo.worlds.control import STARTS, STEP_COSTS, mountain_car_truth, walled_room_truth
from drogo.worlds.shipped import ROOM_IDS as ROOMS
from drogo_paper.engines import Job, LocalEngine, Outcome, Store
from drogo_paper.engines.store import Record
from tables import code

LAM = 20.0
WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
INPUTS = ("one-hot", "coordinates", "pixels")
LOGGED = 40
"""The number of logged updates of a fit."""
K = TypeVar("K", bound=Hashable)


def env_of(world: GridWorld | str, kind: str) -> gymnasium.Env:
    """Returns the environment of a grid world with some kind of observation."""
    return gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)


def data_of(world: GridWorld | str, kind: str, transitions: int) -> Transitions:
    """Returns transitions of a grid world under uniform actions, from uniform states."""
    return collect(env_of(world, kind), transitions, seed=0)


def control_data(name: str, transitions: int, start: Any = None) -> Transitions:
    """Returns transitions of classic control or of a walled room, each from a uniform state."""
    env = gymnasium.make(name).unwrapped
    start = STARTS[name] if start is None else start
    return collect(env, transitions, seed=0, start=start, reward=STEP_COSTS.get(name))


def control_truth(name: str) -> Any:
    """Returns the exact column of MountainCar or of a walled room, on a fine grid."""
    return walled_room_truth(ROOMS[name], LAM) if name in ROOMS else mountain_car_truth(LAM)


def truth_places(truth: Any) -> np.ndarray:
    """Returns the nodes of the grid on which `control_truth` was solved, without terminal ones."""
    nodes = np.stack(np.meshgrid(*truth.axes, indexing="ij"), axis=2).reshape(-1, 2)
    return nodes[truth.log_e.ravel() < 0]


def finish_agents(function: str, methods: Iterable[str], options: Namespace) -> dict[Any, Record]:
    """Runs a function for each world, method and seed, early seeds first; returns its records."""
    cells: Iterable[Any] = product(range(options.seeds), options.worlds, methods)
    jobs: dict[Any, Job] = {
        (world, method, seed): job(
            function, f"{world}, {method}, seed {seed}", 1.0 / (1 + seed),
            world=world, method=method, seed=seed, steps=options.steps,
        )
        for seed, world, method in cells
    }  # fmt: skip
    return finish(jobs, options.out, options.workers)


def timed(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[float, Any]:
    """Returns the seconds that a call takes, and its result."""
    began = time.perf_counter()
    result = function(*arguments, **options)
    return time.perf_counter() - began, result


def learn(
    data: Transitions, truth: np.ndarray | None, method: Any, settings: dict[str, Any],
    scratch: Path, report: Callable[[float], None], **options: Any,
) -> tuple[Solution | None, Outcome]:  # fmt: skip
    """Fits the column as a kept run, and compares it with the truth.

    Args:
        data: The transitions.
        truth: The exact column, or None where it is not known.
        method: The method, or None for the recommended one.
        settings: The settings of the run, with `seeds`.
        scratch: The directory of the checkpoint.
        report: Called with the fraction that is done.
        **options: Other options of `fit`.

    Returns:
        The solution, or None if all seeds diverged; and the outcome: as facts, the worst numbers of
        all seeds that did not diverge.
    """
    began = time.perf_counter()
    try:
        solution: Solution = fit(
            data, Column(lam=LAM), method, seeds=settings["seeds"],
            truth={} if truth is None else {"column": truth},
            checkpoint=scratch / "checkpoint.npz",
            callbacks=[lambda event: report(event.update / event.updates)], **options,
        )  # fmt: skip
    except Diverged:
        return None, Outcome({}, {"diverged": len(seed_list(settings["seeds"]))})
    good = np.array([status != "diverged" for status in solution.status])
    last = {name: rows[-1][good] for name, rows in solution.history.items() if rows.ndim == 2}
    facts: dict[str, Any] = {"worst residual": float(last["worst"].max())}
    if truth is not None:
        facts["smallest cosine"] = float(last["cosine_column"].min())
        facts["mean difference"] = float(last["mean_difference_column"].max())
        facts["largest difference"] = float(last["difference_column"].max())
        facts["depth"] = float(np.ptp(truth))
    facts |= {"diverged": int((~good).sum()), "updates": solution.updates,
              "states": len(data.observations), "seconds": time.perf_counter() - began,
              "status": ", ".join(f"{solution.status.count(one)} {one}"
                                  for one in sorted(set(solution.status)))}  # fmt: skip
    arrays = {"v": solution.v, **{f"history/{k}": rows for k, rows in solution.history.items()}}
    return solution, Outcome(arrays, facts)


def updates_per_second(
    data: Transitions, problem: Any, method: Any, updates: int, *, seeds: int = 1
) -> float:
    """Returns the updates per second of a fit, times the number of seeds.

    It is that of the updates by which a long fit exceeds a short one. Both are logged equally often
    and were compiled before, so that only the updates themselves count.

    Args:
        data: The transitions.
        problem: The problem.
        method: The method.
        updates: The number of updates that count.
        seeds: The number of seeds.
    """
    counts = (LOGGED, LOGGED + updates)
    methods = [replace(method, updates=count, stop_early=False) for count in counts]
    for one in methods:  # compiles
        fit(data, problem, one, seeds=seeds)
    short, long = (timed(fit, data, problem, one, seeds=seeds)[0] for one in methods)
    return seeds * updates / (long - short)


def job(function: str, label: str, seconds: float = 60.0, **settings: Any) -> Job:
    """Returns a run that is kept for as long as the code in src does not change.

    Args:
        function: "module:name" of the function that makes the run.
        label: A description for people.
        seconds: The expected duration: long runs start first.
        **settings: The settings of the function, plain JSON.
    """
    return Job(function, {**settings, "code": code()}, label, seconds)


def finish(jobs: Mapping[K, Job], out: Path, workers: int = 0) -> dict[K, Record]:
    """Makes the runs that are not kept yet, prints each as it ends, and returns all of them.

    Args:
        jobs: The runs, by any key.
        out: The directory in which they are kept: an interrupted benchmark continues there.
        workers: The number of processes; 0 means one for each core.
    """
    store = Store(out)
    store.clean()

    def tell(job: Job, event: str, number: float) -> None:
        if event == "progress":
            return
        record = store.get(job) if event == "done" else None
        facts = {} if record is None else record.facts
        short = [
            f", {name} {fact:.6g}" if isinstance(fact, float) else f", {name} {fact}"
            for name, fact in facts.items()
            if isinstance(fact, int | float | str)
        ]
        print(f"<!-- {job.label}: {event}, {number:.0f} s{''.join(short)} -->", flush=True)

    missing = [job for job in jobs.values() if not store.has(job)]
    if missing:
        LocalEngine(workers).run(missing, store, tell)
    records = {key: store.get(job) for key, job in jobs.items()}
    lost = [jobs[key].label for key, record in records.items() if record is None]
    if lost:
        raise SystemExit(f"These runs are not in {out}: {', '.join(lost)}.")
    return {key: record for key, record in records.items() if record is not None}


def history_of(record: Record) -> dict[str, np.ndarray]:
    """Returns the arrays of a run whose names begin with "history/"."""
    parts = record.arrays.items()
    return {name[len("history/") :]: part for name, part in parts if name.startswith("history/")}
