"""Four worlds, three inputs, ten seeds: how close a preset comes to the exact column.

    uv run benchmarks/worlds_by_inputs.py                              fast, all twelve
    uv run benchmarks/worlds_by_inputs.py --preset paper --inputs one-hot coordinates

Each fit is kept in `--out` and checkpointed, so that an interrupted table goes on where it was.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium
import numpy as np

import drogo  # noqa: F401  (registers the environments)
from drogo import GridWorld, exact
from drogo.files import write_file
from drogo.learn import LogEigenvector, collect, fit, load

WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
INPUTS = ("one-hot", "coordinates", "pixels")
TRANSITIONS = 200_000


def one(
    preset: str, world_name: str, kind: str, seeds: int, out: Path
) -> tuple[LogEigenvector, float]:
    """A finished fit and the seconds it took, from disk if it is there."""
    stem = out / f"{preset}-{world_name}-{kind}-{seeds}"
    result_path, time_path = stem.with_suffix(".npz"), stem.with_suffix(".seconds")
    if result_path.exists() and time_path.exists():
        return load(result_path), float(time_path.read_text())
    world = GridWorld.load(world_name)
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    data = collect(env, TRANSITIONS, seed=0)
    truth = {
        name: exact.solve(world.mdp, 20.0, name).checked().log_e
        for name in ("column", "representation", "transition")
    }
    began = time.perf_counter()
    result = fit(
        data, preset=preset, seeds=seeds, truth=truth, checkpoint=stem.with_suffix(".checkpoint")
    )
    seconds = time.perf_counter() - began
    result.save(result_path)
    write_file(time_path, f"{seconds:.1f}".encode())
    return result, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--worlds", nargs="+", default=WORLDS)
    parser.add_argument("--inputs", nargs="+", default=INPUTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/worlds-by-inputs"))
    options = parser.parse_args()
    print("| world | input | smallest cosine | mean cosine | largest log difference | "
          "converged | seconds |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    total = 0.0
    for world in options.worlds:
        for kind in options.inputs:
            result, seconds = one(options.preset, world, kind, options.seeds, options.out)
            total += seconds
            cosines = result.history["cosine_column"][-1]
            difference = result.history["difference_column"][-1]
            print(
                f"| {world} | {kind} | {cosines.min():.6f} | {cosines.mean():.6f} | "
                f"{np.max(difference):.2f} | {result.status.count('converged')}/{options.seeds} | "
                f"{seconds:.0f} |",
                flush=True,
            )
    print(f"\n{total / 60:.1f} minutes of training in all.")


if __name__ == "__main__":
    main()
