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
from drogo.cli import problem
from drogo.cli.problem import Problem
from drogo.errors import AlreadyExists
from drogo.exact import Solution, solve
from drogo.files import read_array_file, write_array_file, write_file

if TYPE_CHECKING:
    from drogo.cli.main import Exact


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
    parts = [name, solution.definition, f"lam{_short(solution.lam)}"]
    if solution.definition != "column":
        zero_row = solution.terminal == "zero-row"
        parts.append("zero-row" if zero_row else f"delta{_short(solution.delta)}")
    return "-".join(parts)


def _short(number: float) -> str:
    """All digits, but 20 for 20.0."""
    return repr(float(number)).removesuffix(".0")


def _save(found: Problem, solution: Solution, files: dict[str, Path], *, overwrite: bool) -> str:
    arrays: dict[str, np.ndarray] = {
        "log_e": solution.log_e,
        "reward": found.mdp.reward,
        "terminal": found.mdp.terminal,
    }
    if found.world is not None:
        arrays["cells"] = found.world.cells
    else:  # the way back from an index to the environment's own state
        arrays["states"] = np.array([json.dumps(key, default=str) for key in found.mdp.states])
    settings: dict[str, Any] = {
        "env": found.name,
        "definition": solution.definition,
        "lam": solution.lam,
        "delta": solution.delta,
        "terminal": solution.terminal,
        "map": None if found.world is None else found.world.text,
        "drogo": drogo.__version__,
    }
    if overwrite or not files["npz"].exists():
        if files["png"].exists() and not overwrite:
            raise AlreadyExists(
                f"{files['png']} exists without its .npz, so it may not be ours. It was left as it "
                "is: choose another --out, or replace it with --overwrite."
            )
        write_array_file(files["npz"], arrays, settings, overwrite=overwrite)
    else:
        difference = _difference(files["npz"], arrays, settings)
        if difference:
            raise AlreadyExists(
                f"{files['npz']} holds another result ({difference}). It was left as it is: choose "
                "another --out, or replace it with --overwrite."
            )
        if files["png"].exists():
            return "Already there, unchanged"
    write_file(files["png"], plot.as_png(_picture(found, solution)), overwrite=overwrite)
    return "Written"


def _difference(path: Path, arrays: dict[str, np.ndarray], settings: dict[str, Any]) -> str:
    """What an existing result has that this one has not; empty if they are the same."""
    try:
        before, described = read_array_file(path)
    except ValueError as error:
        return str(error)
    others = [name for name in settings if described.get(name) != settings[name]]
    if others:
        return f"another {', '.join(others)}"
    if before.keys() != arrays.keys() or any(before[k].shape != a.shape for k, a in arrays.items()):
        return "other arrays"
    # Another machine's last bits may differ; the answer is the same.
    equal = np.allclose(before["log_e"], arrays["log_e"], rtol=1e-9, atol=1e-9)
    return "" if equal else "other numbers"


def _picture(found: Problem, solution: Solution) -> Any:
    title = f"{found.name}: {solution.definition}, lambda = {solution.lam:g}"
    if solution.definition != "column":
        zero_row = solution.terminal == "zero-row"
        title += ", zero row" if zero_row else f", delta = {solution.delta:g}"
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
        "error": solution.error,
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
    table.add_row("log e", f"{report['log_e_min']:.6g} to {report['log_e_max']:.6g}")
    table.add_row("residual", f"{report['residual']:.1e}")
    table.add_row("estimated error", f"{report['error']:.1e}")
    table.add_row("status", report["status"])
    table.add_row("time", f"{report['seconds'] * 1e3:.1f} ms")
    return table
