"""MountainCar, and four MiniGrid worlds from pixels: every seed against the truth.

    uv run benchmarks/beyond_grids.py --write                 all of it, one process to a core
    uv run benchmarks/beyond_grids.py --worlds MountainCar-v0 --seeds 1

The runs are kept in `--out` with their fits, which `sb3_agents.py` shapes with. Prints Markdown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from common import LAM, control_data, control_truth, finish, job, learn
from drogo import MiniGridWorld, Solution, Transitions, collect, exact, load
from drogo_paper.engines import Job, Outcome
from drogo_paper.engines.store import Record
from tables import parse_options, write_table

TRANSITIONS = {"MountainCar-v0": 200_000}
OF_A_GRID = 1_000_000
"""The transitions of a MiniGrid world, which has up to 23,000 distinct ones."""
TILES = {"MiniGrid-LavaCrossingS9N2-v0": 3, "MiniGrid-DoorKey-6x6-v0": 3,
         "MiniGrid-FourRooms-v0": 2, "MiniGrid-MultiRoom-N4-S5-v0": 2}  # fmt: skip
WORLDS = ("MountainCar-v0", *TILES)


def data_of(world: str, transitions: int | None = None) -> tuple[Transitions, np.ndarray]:
    """Returns transitions of a world, and its exact column over their observations."""
    n = transitions or TRANSITIONS.get(world, OF_A_GRID)
    if world not in TILES:
        data = control_data(world, n)
        truth = control_truth(world)(data.observations.astype(np.float64))
        truth[data.terminal_states] = 0.0
        return data, truth
    grid = MiniGridWorld(world, layout=0, tile=TILES[world])
    return collect(grid, n, seed=0), exact.log_column(grid.mdp, LAM)


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    data, truth = data_of(settings["world"], settings["transitions"])
    solution, outcome = learn(data, truth, None, settings, scratch, report)
    if solution is None:
        return outcome
    how = {"method": solution.method.name, "network": type(solution.network).__name__}
    return Outcome({**outcome.arrays, "fit": saved(solution, scratch)}, {**outcome.facts, **how})


def saved(solution: Solution, scratch: Path) -> np.ndarray:
    """Returns the file of a solution as an array of a run."""
    solution.save(scratch / "fit.npz", overwrite=True)
    return np.frombuffer((scratch / "fit.npz").read_bytes(), dtype=np.uint8)


def fit_job(world: str, seed: int, transitions: int | None = None) -> Job:
    """Returns the run of one world and seed."""
    return job("beyond_grids:run", f"{world}, seed {seed}", world=world, seeds=[seed],
               transitions=transitions)  # fmt: skip


def learned(record: Record) -> Solution:
    """Returns the fit of a run."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "fit.npz"
        path.write_bytes(record.arrays["fit"].tobytes())
        return load(path)


def rows(records: dict[tuple[str, int], Record]) -> Iterator[list[str]]:
    for world in dict.fromkeys(world for world, _ in records):
        facts = [record.facts for (name, _), record in records.items() if name == world]
        good = [one for one in facts if not one["diverged"]]
        first, count = good[0], len(facts)
        yield [world, f"{first['states']:,}", f"{first['method']}, {first['network']}",
               f"{max(one['updates'] for one in good):,}",
               f"{min(one['smallest cosine'] for one in good):.5f}",
               *(f"{max(one[name] for one in good):.2f}"
                 for name in ("mean difference", "largest difference", "depth")),
               ", ".join(sorted(one["status"][2:] for one in good)), str(count - len(good)),
               f"{np.mean([one['seconds'] for one in good]):.0f}"]  # fmt: skip


def main() -> None:
    options = parse_options(__doc__, worlds=WORLDS, seeds=5, transitions=None, workers=0,
                            out=Path("results/beyond-grids"))  # fmt: skip
    cells = product(options.worlds, range(options.seeds))
    jobs = {(world, seed): fit_job(world, seed, options.transitions) for world, seed in cells}
    records = finish(jobs, options.out, options.workers)
    write_table(
        "beyond-grids",
        f"The worst of {options.seeds} seeds beside the exact column, with λ = {LAM:g} and default "
        "settings, from 200,000 transitions (MountainCar) or a million (MiniGrid, from pixels).",
        ("world", "distinct observations", "method, network", "updates", "smallest cosine",
         "mean log difference", "largest", "depth", "status", "diverged", "seconds a seed"),
        rows(records),
        write=options.write,
    )  # fmt: skip


if __name__ == "__main__":
    main()
