"""Four worlds, three inputs, ten seeds: how close each method comes to the exact column.

    uv run benchmarks/worlds_by_inputs.py --write                      Drogo and Regression
    uv run benchmarks/worlds_by_inputs.py --methods Drogo --worlds grid-task --inputs one-hot
    uv run benchmarks/worlds_by_inputs.py --methods Paper --transitions 200000

One process to a core. The runs are kept in `--out`, where an interrupted table continues. Prints
Markdown: an overview, and the details of each method. Draws the map of each cell, and the learning
curves of each method, into `--out`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from common import INPUTS, LAM, WORLDS, data_of, finish, history_of, job, learn
from drogo import Drogo, GridWorld, Paper, Regression, exact, plot
from drogo.files import write_file
from drogo_paper.engines import Outcome
from drogo_paper.engines.store import Record
from tables import formatted, parse_options, write_table

METHODS = {"Drogo": Drogo, "Regression": Regression, "Paper": Paper}
SECONDS = {"one-hot": 100.0, "coordinates": 100.0, "pixels": 1000.0}
"""About how long ten seeds take, so that the longest can start first."""


Records = dict[tuple[str, str, str], Record]


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Fits all seeds of one cell."""
    data = data_of(settings["world"], settings["input"], settings["transitions"])
    truth = exact.log_column(GridWorld.load(settings["world"]).mdp, LAM)
    method = METHODS[settings["method"]](**settings["overrides"])
    return learn(data, truth, method, settings, scratch, report)[1]


def rows(records: Records, method: str) -> Iterator[list[str]]:
    """Yields the cells of one method."""
    forms = {"smallest cosine": ".6f", "largest difference": ".3f", "depth": ".1f", "status": "",
             "seconds": ".0f"}  # fmt: skip
    for (name, world, kind), record in records.items():
        if name == method:
            yield [world, kind, *formatted(record.facts, forms)]


def wide_rows(records: Records, columns: Sequence[tuple[str, str]]) -> Iterator[list[str]]:
    """Yields the largest differences of all methods and inputs in each world."""
    for world in dict.fromkeys(world for _, world, _ in records):
        facts = [records[method, world, kind].facts for method, kind in columns]
        differences = (f"{one['largest difference']:.3f}" for one in facts)
        yield [world, f"{facts[0]['depth']:.1f}", *differences]


def draw(records: Records, directory: Path) -> None:
    from drogo_paper import cosine

    for (method, world_name, kind), record in records.items():
        world = GridWorld.load(world_name)
        truth = exact.log_column(world.mdp, LAM)
        title = f"{world_name} from {kind}: {method}"
        figure = plot.learned(world, truth, record.arrays["v"], history_of(record), title=title)
        path = directory / f"{method}-{world_name}-{kind}.png".lower()
        write_file(path, plot.as_png(figure, 90), overwrite=True)
    for method in dict.fromkeys(method for method, *_ in records):
        cells = {(w, kind): record for (m, w, kind), record in records.items() if m == method}
        path = directory / f"{method}-curves.png".lower()
        write_file(path, plot.as_png(cosine.curves(cells), 90), overwrite=True)


def main() -> None:
    default = ("Drogo", "Regression")
    options = parse_options(
        __doc__, methods=default, worlds=WORLDS, inputs=INPUTS, seeds=10, transitions=20_000,
        updates=None, workers=0, out=Path("results/worlds-by-inputs"),
    )  # fmt: skip
    overrides = {} if options.updates is None else {"updates": options.updates}
    jobs = {}
    for method, world, kind in product(options.methods, options.worlds, options.inputs):
        jobs[method, world, kind] = job(
            "worlds_by_inputs:run", f"{method}, {world}, {kind}", SECONDS[kind], method=method,
            world=world, input=kind, seeds=options.seeds, transitions=options.transitions,
            overrides=overrides,
        )  # fmt: skip
    records = finish(jobs, options.out, options.workers)
    where = f"{options.seeds} seeds, {options.transitions:,} transitions, λ = {LAM:g}"
    columns = list(product(options.methods, options.inputs))
    if set(options.methods) >= set(default):
        write_table(
            "twelve-cells",
            "The largest difference between the learned map and the exact one, over all states and "
            f"seeds: {where}, default settings.",
            ("world", "depth of the map", *(f"`{method}()`, {kind}" for method, kind in columns)),
            wide_rows(records, columns),
            write=options.write,
        )
    for method in options.methods:
        write_table(
            method.lower(),
            f"`{method}()` beside the exact column of the world: {where}, default settings.",
            (
                "world",
                "input",
                "smallest cosine",
                "largest difference",
                "depth",
                "status",
                "seconds",
            ),
            rows(records, method),
            "The seconds are those of one core for all seeds.",
            write=options.write,
        )  # fmt: skip
    draw(records, options.out / "figures")


if __name__ == "__main__":
    main()
