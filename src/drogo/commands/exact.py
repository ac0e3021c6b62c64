"""`drogo exact ENV`: the vector in closed form, as a picture and a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

import drogo
from drogo import plot
from drogo.commands import problem
from drogo.commands.problem import Problem
from drogo.exact import Solution, solve
from drogo.files import read_array_file, write_array_file, write_file

if TYPE_CHECKING:
    from drogo.cli import Exact


def run(options: Exact) -> None:
    console = Console(quiet=options.json)
    with console.status(f"reading {options.env}"):
        found = problem.find(options.env, options.reward)
    began = time.perf_counter()
    with console.status(f"solving {found.mdp.n_states} states"):
        solution = solve(
            found.mdp,
            options.lam,
            options.definition,
            delta=options.delta,
            terminal=options.terminal,
        ).checked()
    seconds = time.perf_counter() - began
    stem = file_stem(found.name, solution)
    files = {kind: options.out / f"{stem}.{kind}" for kind in ("png", "npz")}
    with console.status("drawing"):
        note = _save(found, solution, files, overwrite=options.overwrite)
    report = _report(found, solution, seconds, files)
    if options.json:
        print(json.dumps(report, indent=2, allow_nan=False))
        return
    console.print(_table(report))
    console.print(f"{note}: {files['png']} and {files['npz'].name}", soft_wrap=True)


def file_stem(name: str, solution: Solution) -> str:
    """Settings that differ get names that differ."""
    parts = [name, solution.definition, f"lam{solution.lam:g}"]
    if solution.definition != "column":
        parts.append("zero-row" if solution.terminal == "zero-row" else f"delta{solution.delta:g}")
    return "-".join(parts)


def _save(found: Problem, solution: Solution, files: dict[str, Path], *, overwrite: bool) -> str:
    arrays: dict[str, np.ndarray] = {
        "log_e": solution.log_e,
        "reward": found.mdp.reward,
        "terminal": found.mdp.terminal,
    }
    if found.world is not None:
        arrays["cells"] = found.world.cells
    settings: dict[str, Any] = {
        "env": found.name,
        "definition": solution.definition,
        "lam": solution.lam,
        "delta": solution.delta,
        "terminal": solution.terminal,
        "map": None if found.world is None else found.world.text,
        "drogo": drogo.__version__,
    }
    if files["npz"].exists() and not overwrite:
        if not _same(files["npz"], arrays, settings):
            raise FileExistsError(
                f"{files['npz']} holds another result (another map or version). It was left as it "
                "is: choose another --out, or replace it with --overwrite."
            )
        if files["png"].exists():
            return "Already there, unchanged"
    else:
        write_array_file(files["npz"], arrays, settings, overwrite=overwrite)
    write_file(files["png"], plot.as_png(_picture(found, solution)), overwrite=True)
    return "Written"


def _same(path: Path, arrays: dict[str, np.ndarray], settings: dict[str, Any]) -> bool:
    try:
        before, described = read_array_file(path)
    except ValueError:
        return False
    return (
        described == settings
        and before.keys() == arrays.keys()
        # Another machine's last bits may differ; the answer is the same.
        and all(
            before[k].shape == a.shape and np.allclose(before[k], a, rtol=1e-9, atol=1e-9)
            for k, a in arrays.items()
        )
    )


def _picture(found: Problem, solution: Solution) -> Any:
    title = f"{found.name}: {solution.definition}, lambda = {solution.lam:g}"
    label = "log of the DR column" if solution.definition == "column" else "log e"
    if found.world is None:
        return plot.profile(solution.log_e, title=title, label=label)
    return plot.heatmap(found.world, solution.log_e, title=title, label=label)


def _report(
    found: Problem, solution: Solution, seconds: float, files: dict[str, Path]
) -> dict[str, Any]:
    def number(value: float | None) -> float | None:
        return None if value is None or not np.isfinite(value) else float(value)

    finite = solution.log_e[np.isfinite(solution.log_e)]
    return {
        "env": found.name,
        "states": found.mdp.n_states,
        "definition": solution.definition,
        "lam": solution.lam,
        "delta": solution.delta,
        "terminal": solution.terminal,
        "status": solution.status,
        "eigenvalue": number(solution.eigenvalue),
        "bracket": None if solution.bracket is None else [number(b) for b in solution.bracket],
        "residual": solution.residual,
        "correction": solution.correction,
        "log_e_min": float(finite.min()),
        "log_e_max": float(finite.max()),
        "seconds": seconds,
        "files": {kind: str(path) for kind, path in files.items()},
    }


def _table(report: dict[str, Any]) -> Table:
    table = Table(title=f"{report['env']}, {report['states']} states", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    formulation = (
        "zero row" if report["terminal"] == "zero-row" else f"absorbing, delta {report['delta']:g}"
    )
    table.add_row("definition", report["definition"])
    table.add_row("lambda", f"{report['lam']:g}")
    if report["definition"] != "column":
        table.add_row("terminal states", formulation)
        table.add_row("eigenvalue", f"{report['eigenvalue']:.10g}")
        low, high = (("unbounded" if b is None else f"{b:.10g}") for b in report["bracket"])
        table.add_row("bracket", f"{low} to {high}")
    table.add_row("log e", f"{report['log_e_min']:.4f} to {report['log_e_max']:.4f}")
    table.add_row("residual", f"{report['residual']:.1e}")
    table.add_row("status", report["status"])
    table.add_row("time", f"{report['seconds'] * 1e3:.1f} ms")
    return table
