"""Four worlds, three inputs, ten seeds: how close a preset comes to the exact column.

    uv run benchmarks/worlds_by_inputs.py                              fast, all twelve
    uv run benchmarks/worlds_by_inputs.py --preset paper --inputs one-hot coordinates
    uv run benchmarks/worlds_by_inputs.py --preset direct --transitions 20000

The runs are those of `drogo reproduce cosine`, one process to a core, and are kept in `--out`: an
interrupted table goes on where it was. Prints Markdown, and draws the curves.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from drogo import GridWorld, exact, plot
from drogo.files import write_file
from drogo.runs.local import LocalEngine
from drogo.runs.store import Record, Store
from drogo_paper import cosine, fits
from drogo_paper.scope import INPUTS, LAM, TRANSITIONS, WORLDS, Scope


def draw(world_name: str, kind: str, preset: str, record: Record, out: Path) -> None:
    world = GridWorld.load(world_name)
    history = cosine.history_of(record)
    truth = exact.log_column(world.mdp, LAM)
    title = f"{world_name} from {kind}: {preset}"
    figure = plot.learned(world, truth, record.arrays["v"], history, title=title)
    write_file(out / f"{preset}-{world_name}-{kind}.png", plot.as_png(figure, 90), overwrite=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--worlds", nargs="+", default=WORLDS)
    parser.add_argument("--inputs", nargs="+", default=INPUTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--transitions", type=int, default=TRANSITIONS)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/reproduce"))
    options = parser.parse_args()
    scope = Scope(options.preset, options.seeds)
    store = Store(options.out / "runs")
    store.clean()
    jobs = {
        (world, kind): fits.job(scope, world, kind, options.transitions)
        for world in options.worlds
        for kind in options.inputs
    }
    todo = [job for job in jobs.values() if not store.has(job)]
    began = time.perf_counter()
    if todo:
        told = lambda job, what, number: what != "progress" and print(f"<!-- {job.label}: {what}, {number:.0f} s -->", flush=True)  # noqa: E501, E731  # fmt: skip
        LocalEngine(options.workers).run(todo, store, told)
    took = time.perf_counter() - began
    print("\n| world | input | smallest cosine | mean cosine | mean, representation | "
          "mean, transition | largest log difference | converged | seconds |")  # fmt: skip
    print("|---" * 9 + "|")
    records = {}
    for (world, kind), job in jobs.items():
        record = store.get(job)
        assert record is not None
        records[world, kind] = record
        print("| " + " | ".join(cosine.row(world, kind, record)) + " |", flush=True)
        draw(world, kind, options.preset, record, options.out / "fits")
    figure = plot.as_png(cosine.curves(records), 90)
    write_file(options.out / "fits" / f"{options.preset}-curves.png", figure, overwrite=True)
    print(f"\n{len(todo)} of {len(jobs)} fits were run, in {took / 60:.1f} minutes.")


if __name__ == "__main__":
    main()
