"""A million transitions of byte images (56 x 56 x 3), none twice: 9.6 GB, and less than 4 to train.

    uv run benchmarks/large_pixels.py --file /tmp/observations.bin

Walks through MiniGrid's FourRooms, seen from above with noise on every pixel, so that no image
repeats; the truth is that of the grid without noise. Prints the largest memory the process held.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np

from drogo import Transitions, exact, fit
from drogo.learn import Report
from drogo.worlds.minigrid import MiniGridWorld

SIDE, LAM = 56, 20.0
NOISE = 24
"""Grey levels."""


def walk(world: MiniGridWorld, n: int, rng: np.random.Generator) -> np.ndarray:
    """States of random episodes from uniform starts, cut after 50 steps; -1 between episodes."""
    inside = np.flatnonzero(~world.mdp.terminal)
    next_state = world.mdp.outcomes.next_state[:, :, 0]
    path, steps = [], 0
    while steps < n:
        state = int(rng.choice(inside))
        path.append(state)
        for _ in range(50):
            state = int(next_state[state, rng.integers(world.mdp.n_actions)])
            path.append(state)
            steps += 1
            if world.mdp.terminal[state] or steps == n:
                break
        path.append(-1)
    return np.array(path)


def write(file: Path, images: np.ndarray, states: np.ndarray, rng: np.random.Generator) -> None:
    with file.open("xb") as stream:
        for at in range(0, len(states), 5000):
            part = images[states[at : at + 5000]].astype(np.int16)
            noise = rng.integers(-NOISE, NOISE + 1, part.shape, dtype=np.int16)
            stream.write(np.clip(part + noise, 0, 255).astype(np.uint8).data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True, help="where the images go; kept")
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=1500)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    world = MiniGridWorld("MiniGrid-FourRooms-v0", tile=3)
    images = world.all_observations()[:, :SIDE, :SIDE]
    path = walk(world, options.transitions, rng)
    here = np.flatnonzero((path[:-1] >= 0) & (path[1:] >= 0))
    row = np.cumsum(path >= 0) - 1
    states = path[path >= 0]
    began = time.perf_counter()
    if not options.file.exists():
        write(options.file, images, states, rng)
    shape = (len(states), SIDE, SIDE, 3)
    table = np.memmap(options.file, np.uint8, mode="r", shape=shape)
    data = Transitions.from_table(
        table,
        row[here],
        row[here + 1],
        world.mdp.reward[path[here]],
        world.mdp.terminal[path[here + 1]],
    )
    print(f"{data}, {table.nbytes / 1e9:.1f} GB, {time.perf_counter() - began:.0f} s to write")
    truth = exact.log_column(world.mdp, LAM)[states]
    began = time.perf_counter()

    def show(report: Report) -> None:
        print(f"<!-- {report.update}: cosine {report.row['cosine_column'].min():.4f}, "
              f"{time.perf_counter() - began:.0f} s -->", flush=True)  # fmt: skip

    result = fit(data, lam=LAM, updates=options.updates, truth={"column": truth}, callbacks=[show])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{result}\ncosine {result.history['cosine_column'][-1].min():.4f}, mean log difference "
          f"{result.history['mean_difference_column'][-1].max():.2f}, "
          f"{time.perf_counter() - began:.0f} s, at most {most:.2f} GiB")  # fmt: skip


if __name__ == "__main__":
    main()
