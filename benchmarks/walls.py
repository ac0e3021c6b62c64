"""Why do values leak through a wall? The walled room, learned without one part after another.

    uv run benchmarks/walls.py                        two seeds of each, about an hour and a half
    uv run benchmarks/walls.py --only "5,000 updates" --seeds 1

Prints Markdown: the largest and the mean difference to the exact solution on a grid.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import numpy as np

from certificates import truth_places
from drogo import STARTS, Diverged, collect, fit
from drogo.worlds.control import ROOMS, walled_room_truth

NAME = "drogo/Room-Wall-v0"
LAM = 20.0
CASES: dict[str, dict[str, Any]] = {
    "stable": {},
    "not scaled": {"scaled": False},
    "not rescaled": {"rescale": False},
    "neither": {"scaled": False, "rescale": False},
    "no Fourier features": {"frequencies": 0},
    "no target network": {"target_rate": 1.0},
    "slow target (0.05)": {"target_rate": 0.05},
    "no share of terminal states": {"terminal_fraction": 0.0},
    "none of these, no features": {"scaled": False, "rescale": False, "frequencies": 0},
    "5,000 updates": {"updates": 5000},
    "1,000 updates": {"updates": 1000},
    "20,000 transitions, 15,000 updates": {"transitions": 20_000, "updates": 15_000},
    "20,000 transitions, 5,000 updates": {"transitions": 20_000, "updates": 5000},
    "episodes from the start": {"start": "reset"},
    "episodes, 20,000 transitions, 15,000 updates": {
        "start": "reset", "transitions": 20_000, "updates": 15_000,
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    env: Any = gymnasium.make(NAME).unwrapped
    truth = walled_room_truth(ROOMS[NAME], LAM)
    places = truth_places(truth)
    known = truth(places)
    print("| | largest difference, seed by seed | mean | status | seconds |\n" + "|---" * 5 + "|")
    for label in options.only:
        settings = dict(CASES[label])
        n, start = settings.pop("transitions", 200_000), settings.pop("start", STARTS[NAME])
        data = collect(env, n, seed=0, start=start)
        largest, mean, status, began = [], [], [], time.perf_counter()
        for seed in range(options.seeds):
            try:
                result = fit(data, lam=LAM, seeds=[seed], **settings)
            except Diverged:
                status.append("diverged")
                continue
            error = np.abs(result(places.astype(np.float32))[0] - known)
            error = error[np.isfinite(error)]
            largest.append(f"{error.max():.2f}")
            mean.append(f"{error.mean():.2f}")
            status.append(result.status[0])
        seconds = (time.perf_counter() - began) / options.seeds
        cells = (label, ", ".join(largest), ", ".join(mean), ", ".join(status), f"{seconds:.0f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
