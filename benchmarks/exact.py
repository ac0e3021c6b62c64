"""The exact vectors: against a 100-digit eigendecomposition, and growth to a million states.

    uv run benchmarks/exact.py                 both parts; about 4 minutes
    uv run benchmarks/exact.py --accuracy      every definition on the four worlds, 100 digits;
                                               about 10 minutes

Prints Markdown, and draws docs/figures/exact-growth.png.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from drogo import GridWorld, exact, plot

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
LAM = 20.0
EIGENVECTORS = ("transition", "representation", "right")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
FIGURE = ROOT / "docs" / "figures" / "exact-growth.png"


def seconds(function, repeats: int = 7) -> float:
    """Median of several runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def against_eigendecomposition(name: str = "grid-room") -> None:
    import judge

    mdp = GridWorld.load(name).mdp
    print(f"\n### {name}, {mdp.n_states} states, lambda {LAM:g}, against 100 digits\n")
    print(
        "| definition | eigendecomposition, 100 digits | drogo | ratio | largest log difference |"
    )
    print("|---|---|---|---|---|")
    for definition in EIGENVECTORS:
        began = time.perf_counter()
        theirs, _ = judge.by_eigendecomposition(mdp, LAM, definition)
        slow = time.perf_counter() - began
        ours = exact.log_eigenvector(mdp, LAM, definition)

        def fast(definition: str = definition) -> object:
            return exact.log_eigenvector(mdp, LAM, definition)

        quick = seconds(fast)
        difference = np.abs(ours - theirs).max()
        print(
            f"| `{definition}` | {slow:.1f} s | {quick * 1e3:.1f} ms | {slow / quick:,.0f} | "
            f"{difference:.0e} |",
            flush=True,
        )


def measure(states: int) -> dict[str, float]:
    """One size in a process of its own, so that its memory is its own."""
    code = (
        "import json, time\nfrom pathlib import Path\n"
        "from worlds import random_world\nfrom drogo import exact\n"
        f"mdp = random_world({states}).mdp\nmdp.P\n"
        f"began = time.perf_counter(); s = exact.solve(mdp, {LAM})\n"
        "took = time.perf_counter() - began\n"
        # Not getrusage: its peak is inherited from the parent process.
        "status = Path('/proc/self/status').read_text()\n"
        "peak = int(status.split('VmHWM:')[1].split()[0])\n"
        "print(json.dumps(dict(states=mdp.n_states, seconds=took, gib=peak / 2**20, "
        "residual=s.residual, error=s.error, smallest=float(s.log_e.min()), "
        "converged=s.status == 'converged')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    return json.loads(done.stdout)


def growth() -> None:
    print(f"\n### Growth: `column` of a random world, lambda {LAM:g}\n")
    print(
        "| states | seconds | peak memory, GiB | smallest log entry | residual | estimated error |"
    )
    print("|---|---|---|---|---|---|")
    rows = []
    for size in SIZES:
        row = measure(size)
        assert row["converged"]
        rows.append(row)
        print(
            f"| {row['states']:,} | {row['seconds']:.3g} | {row['gib']:.2f} | "
            f"{row['smallest']:.1f} | {row['residual']:.0e} | {row['error']:.0e} |",
            flush=True,
        )
    FIGURE.write_bytes(plot.as_png(draw_growth(rows)))


def draw_growth(rows: list[dict[str, float]]) -> Figure:
    states = np.array([row["states"] for row in rows])
    figure = Figure(figsize=(7.5, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, key, label, colour in (
        (left, "seconds", "seconds", "#0072b2"),
        (right, "gib", "peak memory of the process, GiB", "#d55e00"),
    ):
        values = np.array([row[key] for row in rows])
        axes.loglog(states, values, "o-", color=colour)
        axes.set_xlabel("states")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3, which="both")
    measured = np.array([row["seconds"] for row in rows])
    linear = measured[1] * states / states[1]
    left.loglog(states, linear, ":", color="grey", label="linear")
    left.legend(frameon=False)
    figure.suptitle("Exact column of a random world (20 % walls, 5 % low reward)", fontsize=10)
    return figure


def accuracy() -> None:
    import judge

    print("\n### Largest log difference to 100-digit eigendecompositions\n")
    print("| world | lambda | column | transition | representation | right |")
    print("|---|---|---|---|---|---|")
    for name in ("grid-task", "four-rooms", "grid-maze", "grid-room"):
        mdp = GridWorld.load(name).mdp
        for lam in (1.3, 20.0):
            cells = [np.abs(exact.log_column(mdp, lam) - judge.column(mdp, lam)).max()]
            for definition in EIGENVECTORS:
                theirs, _ = judge.by_eigendecomposition(mdp, lam, definition)
                cells.append(np.abs(exact.log_eigenvector(mdp, lam, definition) - theirs).max())
            print(
                f"| {name} | {lam:g} | " + " | ".join(f"{c:.0e}" for c in cells) + " |", flush=True
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accuracy", action="store_true")
    if parser.parse_args().accuracy:
        accuracy()
    else:
        against_eigendecomposition()
        growth()
