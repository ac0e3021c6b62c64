"""The exact vectors: against a 100-digit eigendecomposition, and growth to a million states.

    uv run benchmarks/exact.py --write                     all parts; about a quarter of an hour
    uv run benchmarks/exact.py --only speed growth         about 4 minutes
    uv run benchmarks/exact.py --only accuracy             every definition on the four worlds

Prints Markdown. With `--write`, the part growth also draws docs/figures/exact-growth.png.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from common import LAM, WORLDS, timed
from drogo import GridWorld, exact, plot
from drogo.files import write_file
from tables import ROOT, Part, formatted, parse_options, write_parts

sys.path.insert(0, str(ROOT / "tests"))
EIGENVECTORS = ("transition", "representation", "right")
FIGURE = ROOT / "docs" / "figures" / "exact-growth.png"
MEASURE = f"""
import json, time
from pathlib import Path
from drogo import exact
from worlds import random_world

mdp = random_world({{states}}).mdp
mdp.P
began = time.perf_counter()
solution = exact.solve(mdp, {LAM})
seconds = time.perf_counter() - began
assert solution.status == "converged"
# Not getrusage: its peak is inherited from the parent process.
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(json.dumps(dict(states=mdp.n_states, seconds=seconds, gib=peak / 2**20,
    residual=solution.residual, error=solution.error, smallest=float(solution.log_e.min()))))
"""
"""Each size is measured in a process of its own, so that the peak of its memory is its own."""


def speed(options: Namespace) -> Iterator[list[str]]:
    import judge

    mdp = GridWorld.load("grid-room").mdp
    for definition in EIGENVECTORS:
        slow, (theirs, _) = timed(judge.by_eigendecomposition, mdp, LAM, definition)
        runs = [timed(exact.solve, mdp, LAM, definition) for _ in range(8)]
        quick = float(np.median([seconds for seconds, _ in runs[1:]]))
        difference = np.abs(runs[0][1].checked().log_e - theirs).max()
        yield [f"`{definition}`", f"{slow:.1f} s", f"{quick * 1e3:.1f} ms", f"{slow / quick:,.0f}",
               f"{difference:.0e}"]  # fmt: skip


def growth(options: Namespace) -> Iterator[list[str]]:
    sizes = []
    for states in options.states:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE.format(states=states)],
            capture_output=True, text=True, check=True, cwd=Path(__file__).parent,
        )  # fmt: skip
        size = json.loads(done.stdout)
        sizes.append(size)
        formats = {"states": ",", "seconds": ".3g", "gib": ".2f", "smallest": ".1f",
                   "residual": ".0e", "error": ".0e"}  # fmt: skip
        yield formatted(size, formats)
    if options.write:
        write_file(FIGURE, plot.as_png(draw_growth(sizes)), overwrite=True)


def draw_growth(sizes: list[dict[str, float]]) -> Figure:
    states, seconds, memory = (
        np.array([size[key] for size in sizes]) for key in ("states", "seconds", "gib")
    )
    figure = Figure(figsize=(7.5, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.loglog(states, seconds, "o-", color="#0072b2")
    left.loglog(states, seconds[0] * states / states[0], ":", color="grey", label="linear")
    left.legend(frameon=False)
    right.loglog(states, memory, "o-", color="#d55e00")
    for axes, label in ((left, "seconds"), (right, "peak memory of the process, GiB")):
        axes.set(xlabel="states", ylabel=label)
        axes.grid(alpha=0.3, which="both")
    figure.suptitle("Exact column of a random world (20 % walls, 5 % low reward)", fontsize=10)
    return figure


def accuracy(options: Namespace) -> Iterator[list[str]]:
    import judge

    for name in options.worlds:
        mdp = GridWorld.load(name).mdp
        for lam in (1.3, 20.0):
            differences = [np.abs(exact.log_column(mdp, lam) - judge.column(mdp, lam)).max()]
            for definition in EIGENVECTORS:
                theirs, _ = judge.by_eigendecomposition(mdp, lam, definition)
                ours = exact.solve(mdp, lam, definition).checked().log_e
                differences.append(np.abs(ours - theirs).max())
            yield [name, f"{lam:g}", *(f"{difference:.0e}" for difference in differences)]


PARTS = {
    "accuracy": Part(
        "exact-accuracy",
        accuracy,
        "The largest difference of any log entry from python-flint at 100 digits.",
        ("world", "lambda", "column", *EIGENVECTORS),
    ),
    "speed": Part(
        "exact-speed",
        speed,
        "Speed in grid-room (272 states, λ = 20) beside an eigendecomposition of 100 digits.",
        ("definition", "eigendecomposition, 100 digits", "drogo", "ratio",
         "largest log difference"),
    ),
    "growth": Part(
        "exact-growth",
        growth,
        "The exact column of random worlds of growing size, with λ = 20.",
        ("states", "seconds", "peak memory, GiB", "smallest log entry", "residual",
         "estimated error"),
    ),
}  # fmt: skip


if __name__ == "__main__":
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    write_parts(PARTS, parse_options(__doc__, only=tuple(PARTS), worlds=WORLDS, states=sizes))
