"""MountainCar, and four MiniGrid worlds from pixels: every seed against the truth.

    uv run benchmarks/beyond_grids.py                        all of it, one process to a core
    uv run benchmarks/beyond_grids.py --only mountain-car --seeds 5

A run for each world and seed, kept in `--out` with its fit (which `sb3_agents.py` shapes with).
Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from drogo import collect, exact, fit, load
from drogo.learn import LogEigenvector
from drogo.runs import Job, LocalEngine, Outcome, Store
from stability import LAM, mountain_car

OF_A_GRID = 1_000_000
"""MiniGrid worlds have up to 23,000 distinct transitions, and what is learned is their map."""
WORLDS: dict[str, dict[str, Any]] = {
    "mountain-car": {},
    "MiniGrid-LavaCrossingS9N2-v0": {"tile": 3},
    "MiniGrid-DoorKey-6x6-v0": {"tile": 3},
    "MiniGrid-FourRooms-v0": {"tile": 2},
    "MiniGrid-MultiRoom-N4-S5-v0": {"tile": 2},
}
SECONDS = {"mountain-car": 170.0, "MiniGrid-LavaCrossingS9N2-v0": 130.0,
           "MiniGrid-MultiRoom-N4-S5-v0": 160.0}  # fmt: skip


def data_of(world: str) -> tuple[Any, np.ndarray]:
    if world == "mountain-car":
        data, truth = mountain_car()
        return data, truth["column"]
    from drogo.worlds.minigrid import MiniGridWorld

    made = MiniGridWorld(world, layout=0, **WORLDS[world])
    return collect(made, OF_A_GRID, seed=0), exact.log_column(made.mdp, LAM)


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    data, truth = data_of(settings["world"])
    chosen = settings["overrides"]
    began = time.perf_counter()
    result = fit(
        data, lam=LAM, seeds=[settings["seed"]], truth={"column": truth},
        checkpoint=scratch / "checkpoint.npz",
        callbacks=[lambda event: report(event.update / event.updates)], **chosen,
    )  # fmt: skip
    took = time.perf_counter() - began
    facts = {"status": list(result.status), "states": len(data.observations), "seconds": took,
             "updates": result.updates, "diagnosis": result.diagnosis()}  # fmt: skip
    result.save(scratch / "fit.npz", overwrite=True)
    saved = np.frombuffer((scratch / "fit.npz").read_bytes(), dtype=np.uint8)
    return Outcome({"fit": saved, **{f"history/{k}": h for k, h in result.history.items()}}, facts)


def job(world: str, seed: int, overrides: dict[str, Any]) -> Job:
    settings = {"world": world, "seed": seed, "overrides": overrides, **WORLDS[world]}
    return Job("beyond_grids:run", settings, f"{world}, seed {seed}", SECONDS.get(world, 60.0))


def learned(store: Store, world: str, seed: int, overrides: dict[str, Any]) -> LogEigenvector:
    """The fit of a run that is done."""
    record = store.get(job(world, seed, overrides))
    if record is None:
        raise SystemExit(f"no fit of {world}, seed {seed}: run benchmarks/beyond_grids.py first.")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "fit.npz"
        path.write_bytes(record.arrays["fit"].tobytes())
        return load(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path("results/beyond-grids"))
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent),
                                                os.environ.get("PYTHONPATH", "")])  # fmt: skip
    overrides = {} if options.updates is None else {"updates": options.updates}
    store = Store(options.out)
    store.clean()
    jobs = {(w, s): job(w, s, overrides) for w in options.only for s in range(options.seeds)}
    todo = [j for j in jobs.values() if not store.has(j)]
    began = time.perf_counter()
    if todo:
        told = lambda j, what, n: what != "progress" and print(f"<!-- {j.label}: {what}, {n:.0f} s -->", flush=True)  # noqa: E501, E731  # fmt: skip
        LocalEngine().run(todo, store, told)
    took = time.perf_counter() - began
    print("\n| world | observations | updates | smallest cosine | mean log difference | largest | "
          "converged | diverged | seconds a seed |")  # fmt: skip
    print("|---" * 9 + "|")
    for world in options.only:
        records = [store.get(jobs[world, seed]) for seed in range(options.seeds)]
        found = [record for record in records if record is not None]
        last = {
            name: np.array([r.arrays[f"history/{name}_column"][-1, 0] for r in found])
            for name in ("cosine", "mean_difference", "difference")
        }
        status = [r.facts["status"][0] for r in found]
        facts = found[0].facts
        print(
            f"| {world} | {facts['states']:,} | {facts['updates']:,} | {last['cosine'].min():.5f} "
            f"| {last['mean_difference'].max():.2f} | {last['difference'].max():.2f} | "
            f"{status.count('converged')}/{len(found)} | {status.count('diverged')} | "
            f"{np.mean([r.facts['seconds'] for r in found]):.0f} |"
        )
    print(f"\n{len(todo)} of {len(jobs)} runs, in {took / 60:.1f} minutes.")


if __name__ == "__main__":
    main()
