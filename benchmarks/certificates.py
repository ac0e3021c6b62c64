"""Certificates by rollouts: what they say of good fits and of damaged ones, beside the truth.

    uv run benchmarks/certificates.py --only damaged      200 damaged fits and 50 good ones
    uv run benchmarks/certificates.py --only worlds       walled rooms and MountainCar

Damaged fits are of the four grid worlds, from coordinates: noise on all parameters of the network,
a region of the map that is raised, one state that is much too low while all others follow from it,
a fit that was stopped early, and data in which a door was never passed. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from drogo import GridWorld, Transitions, certify, collect, exact, fit
from drogo.data.simulate import simulator
from drogo.learn import Certificate, LogEigenvector
from drogo.learn.certify import certify_maps, tolerated
from drogo.runs import Job, LocalEngine, Outcome, Store
from drogo.worlds.control import ROOMS, STARTS, mountain_car_truth, walled_room_truth

LAM = 20.0
WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
KINDS = ("noise", "raised region", "lowered state", "stopped early", "data without a door", "good")
EACH = 50
TEST_TRANSITIONS = 200_000

Values = Callable[[np.ndarray], np.ndarray]


def noisy(result: LogEigenvector, lane: int, rng: np.random.Generator) -> Values:
    """Every parameter is changed by some percents of the spread of its layer."""
    share = rng.uniform(0.02, 0.3)

    def changed(leaf: Any) -> np.ndarray:
        noise = share * np.std(leaf[lane]) * rng.normal(size=leaf.shape)
        return np.asarray(leaf) + noise.astype(np.float32)

    params = jax.tree.map(changed, result.state.params)
    return replace(result, state=replace(result.state, params=params)).values_of(lane)


def raised(result: LogEigenvector, lane: int, rng: np.random.Generator) -> Values:
    """A round region of the map is raised by some units."""
    values, height, radius = result.values_of(lane), rng.uniform(1.0, 6.0), rng.uniform(0.1, 0.3)
    live = np.setdiff1d(np.arange(len(result.observations)), result.terminal_states)
    centre = result.observations[rng.choice(live)]
    width = np.ptp(result.observations, axis=0)

    def of_batch(batch: np.ndarray) -> np.ndarray:
        near = np.linalg.norm((batch - centre) / width, axis=1) < radius
        return values(batch) + np.where(near, height, 0.0)

    return of_batch


def lowered(result: LogEigenvector, lane: int, rng: np.random.Generator) -> Values:
    """One state is much too low, and all others follow from that: rollouts do not go there."""
    name = next(name for name in WORLDS if same(GridWorld.load(name), result))
    mdp = GridWorld.load(name).mdp
    low = rng.choice(np.flatnonzero(~mdp.terminal))
    fixed = mdp.terminal | (np.arange(mdp.n_states) == low)
    e = np.exp(np.where(mdp.terminal, mdp.reward / LAM, 0.0))
    e[low] = np.exp(result.v[lane, low] - rng.uniform(5.0, 25.0))
    policy = zip(mdp.transitions, mdp.default_policy.T, strict=True)
    matrix = sum(part.toarray() * chance[:, None] for part, chance in policy)
    matrix = matrix * np.exp(mdp.reward / LAM)[:, None]
    rest = np.eye((~fixed).sum()) - matrix[np.ix_(~fixed, ~fixed)]
    e[~fixed] = np.linalg.solve(rest, matrix[np.ix_(~fixed, fixed)] @ e[fixed])
    return lambda batch: np.log(e)[: len(batch)]  # it is called with the table of all states


def same(world: GridWorld, result: LogEigenvector) -> bool:
    return np.array_equal(world.observations("coordinates"), result.observations)


def without_door(world: GridWorld, data: Transitions, rng: np.random.Generator) -> Transitions:
    """Leaves out all transitions into one state without which many cannot reach the goal as
    before."""
    truth = exact.log_column(world.mdp, LAM)
    live = np.flatnonzero(~world.mdp.terminal)
    for door in rng.permutation(live):
        kept = (data.next_state != door) & (data.state != door)
        others = np.setdiff1d(live, [door])
        cut = replace_columns(data, kept)
        if not np.isin(others, cut.state).all():
            continue
        solved = fit(cut, preset="direct", lam=LAM, updates=1).history  # its exact solution is all
        if "error" in solved and np.isfinite(solved["error"]).all() and truth[door] < -0.5:
            return cut
    raise RuntimeError("every state is needed")


def replace_columns(data: Transitions, kept: np.ndarray) -> Transitions:
    names = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward")
    columns = {name: getattr(data, name)[kept] for name in (*names, "action", "behaviour")}
    return Transitions.from_table(data.observations, **columns, n_actions=data.n_actions)


def damaged(world: GridWorld, kind: str, numbers: list[int]) -> Iterator[Values]:
    """Returns the maps of some fits, each damaged in its own way."""
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="coordinates")
    data = collect(env, 20_000, seed=0)
    result = None
    if kind not in ("stopped early", "data without a door"):
        result = fit(data, lam=LAM, seeds=numbers)
    for lane, number in enumerate(numbers):
        rng = np.random.default_rng([KINDS.index(kind), number])
        if result is not None:
            damage = {"noise": noisy, "raised region": raised, "lowered state": lowered}.get(kind)
            yield damage(result, lane, rng) if damage else result.values_of(lane)
        elif kind == "stopped early":
            early = int(rng.integers(20, 400))
            yield fit(data, lam=LAM, preset="fast", seeds=[number], updates=early).values_of(0)
        else:
            yield fit(without_door(world, data, rng), lam=LAM, seeds=[number]).values_of(0)


def run_damaged(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Every map of one world and kind: its true error, and what the certificate says."""
    warnings.simplefilter("ignore")
    world = GridWorld.load(settings["world"])
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="state")
    truth, table = exact.log_column(world.mdp, LAM), world.observations("coordinates")
    live = ~world.mdp.terminal
    rows = []
    numbers = settings["numbers"]
    for k, values in enumerate(damaged(world, settings["kind"], numbers)):
        number, vector = numbers[k], values(table)  # of all states at once, and then looked up
        error = np.abs(vector - truth)[live]
        lookup, allowed = partial(np.take, vector), tolerated(vector[None, live], 0.1)
        made = certify_maps([lookup], simulator(env), lam=LAM, tolerance=allowed, seeds=(number,),
                            seed=number)  # fmt: skip
        of_starts = np.abs(made.claimed[0] - truth[made.observations]).max()
        rows.append({"error": float(error.max()), "at starts": float(of_starts),
                     "allowed": float(allowed[0]), "status": made.status[0],
                     "says": float(made.error[0]) if np.isfinite(made.error[0]) else None,
                     "ascents": float(made.ascents.mean())})  # fmt: skip
        report((k + 1) / len(numbers))
    return Outcome({}, {"rows": rows})


def table_of_damaged(store: Store, workers: int, each: int) -> None:
    """Damage is a true error above the tolerance in any state; the certificate sees 20 of them."""
    numbers = [list(range(k, each, len(WORLDS))) for k in range(len(WORLDS))]
    jobs = {(kind, world): Job("certificates:run_damaged",
                               {"world": world, "kind": kind, "numbers": some}, f"{kind}, {world}")
            for kind in KINDS for world, some in zip(WORLDS, numbers, strict=True)}  # fmt: skip
    finish(list(jobs.values()), store, workers)
    print("| kind | fits | off by more than allowed | of these refuted | undecided | certified, "
          "but off somewhere | certified, but off at a start | not off: certified | undecided | "
          "refuted | certified error below the true one at the starts |")  # fmt: skip
    print("|---" * 11 + "|")
    for kind in KINDS:
        rows = [row for world in WORLDS for row in facts(store, jobs[kind, world])["rows"]]
        off = [row for row in rows if row["error"] > row["allowed"]]
        fine = [row for row in rows if row["error"] <= row["allowed"]]
        told, of_fine = Counter(r["status"] for r in off), Counter(r["status"] for r in fine)
        at_start = sum(r["status"] == "certified" and r["at starts"] > r["allowed"] for r in off)
        below = sum(r["says"] is not None and r["says"] < r["at starts"] - 1e-6 for r in rows)
        statuses = ("refuted", "undecided", "certified")
        cells = [kind, len(rows), len(off), *(told[status] for status in statuses), at_start]
        cells += [*(of_fine[status] for status in reversed(statuses)), below]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def run_world(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """One seed of a continuous world: the fit by all defaults, and its certificate."""
    name = settings["world"]
    env: Any = gymnasium.make(name).unwrapped
    reward = -1.0 if name.startswith("Mountain") else None
    if name in ROOMS:
        truth: Any = walled_room_truth(ROOMS[name], LAM)
        places = truth_places(truth)
    else:
        truth = mountain_car_truth(LAM)
        places = collect(env, 20_000, seed=1, start=STARTS[name], reward=reward).observations
    data = collect(env, TEST_TRANSITIONS, seed=0, start=STARTS[name], reward=reward)
    began = time.perf_counter()
    result = fit(data, lam=LAM, seeds=[settings["seed"]], checkpoint=scratch / "checkpoint.npz",
                 callbacks=[lambda event: report(event.update / event.updates)],
                 **settings["overrides"])  # fmt: skip
    took = time.perf_counter() - began
    began = time.perf_counter()
    start = None if name in ROOMS else STARTS[name]
    made: Certificate = certify(result, env, start=start, reward=reward)
    known = truth(made.observations.astype(np.float64))
    error = np.abs(result(places.astype(np.float32))[0] - truth(places.astype(np.float64)))
    error = error[np.isfinite(error)]
    says = float(made.error[0])
    row = {"status": result.status[0], "certificate": made.status[0], "depth": float(np.ptp(known)),
           "says": says if np.isfinite(says) else None,
           "held": int(made.held.sum()), "refuted": int(made.refuted.sum()),
           "at starts": float(np.abs(made.claimed[0] - known).max()),
           "inside": int(((made.low[0] <= known) & (known <= made.high[0])).sum()),
           "largest": float(error.max()), "mean": float(error.mean()),
           "ascents": int(made.ascents.sum()), "seconds": took,
           "certify": time.perf_counter() - began}  # fmt: skip
    return Outcome({}, row)


def truth_places(truth: Any) -> np.ndarray:
    nodes = np.stack(np.meshgrid(*truth.axes, indexing="ij"), axis=2).reshape(-1, 2)
    return nodes[truth.log_e.ravel() < 0]


def table_of_worlds(store: Store, workers: int, seeds: int, overrides: dict[str, Any]) -> None:
    names = [*ROOMS, "MountainCar-v0"]
    jobs = {}
    for name, seed in product(names, range(seeds)):
        settings = {"world": name, "seed": seed, "overrides": overrides}
        jobs[name, seed] = Job("certificates:run_world", settings, f"{name}, seed {seed}")
    finish(list(jobs.values()), store, workers)
    print("| world | seed | status of the fit | by rollouts | within the tolerance | off at most, "
          "by the certificate | truly, at the starts | truly, anywhere | mean | depth | steepest "
          "ascents | seconds | of the certificate |")  # fmt: skip
    print("|---" * 13 + "|")
    for (name, seed), job in sorted(jobs.items()):
        row = facts(store, job)
        says = "unknown" if row["says"] is None else f"{row['says']:.2f}"
        cells = [name, seed, row["status"], row["certificate"], f"{row['held']} of 20", says,
                 *(f"{row[key]:.2f}" for key in ("at starts", "largest", "mean", "depth")),
                 f"{row['ascents']} of 20"]  # fmt: skip
        cells += [f"{row['seconds']:.0f}", f"{row['certify']:.0f}"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def finish(jobs: list[Job], store: Store, workers: int) -> None:
    told = lambda job, what, number: what != "progress" and print(f"<!-- {job.label}: {what}, {number:.0f} s -->", flush=True)  # noqa: E501, E731  # fmt: skip
    LocalEngine(workers).run([job for job in jobs if not store.has(job)], store, told)


def facts(store: Store, job: Job) -> Mapping[str, Any]:
    record = store.get(job)
    assert record is not None
    return record.facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("damaged", "worlds"), default=None)
    parser.add_argument("--each", type=int, default=EACH, help="Fits of each kind of damage.")
    parser.add_argument("--seeds", type=int, default=2, help="Of each continuous world.")
    parser.add_argument("--updates", type=int, default=None)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/certificates"))
    options = parser.parse_args()
    store = Store(options.out / "runs")
    if options.only != "worlds":
        table_of_damaged(store, options.workers, options.each)
    if options.only != "damaged":
        overrides = {} if options.updates is None else {"updates": options.updates}
        table_of_worlds(store, options.workers, options.seeds, overrides)


if __name__ == "__main__":
    main()
