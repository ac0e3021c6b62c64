"""`drogo learn ENV`: learn the vector from transitions, compare it with the truth, draw it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from drogo import config as configs
from drogo import plot
from drogo.cli.subject import Grid, Subject, find
from drogo.data import Transitions
from drogo.errors import AlreadyExists
from drogo.files import write_file
from drogo.learn import LogEigenvector, fit, load

if TYPE_CHECKING:
    from drogo.cli.main import Learn


@dataclass(frozen=True)
class Files:
    """What a run leaves in its directory."""

    directory: Path

    @property
    def fit(self) -> Path:
        return self.directory / "fit.npz"

    @property
    def picture(self) -> Path:
        return self.directory / "picture.png"

    @property
    def data(self) -> Path:
        """What was asked to be collected."""
        return self.directory / "data.json"

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint.npz"


def run(options: Learn) -> None:
    console = Console(quiet=options.json)
    result, files, note = obtain(options, console)
    report = _report(result, files)
    if options.json:
        print(json.dumps(report, indent=2, allow_nan=False))
        return
    console.print(_table(options, result, report))
    for line in result.diagnosis():
        console.print(line, style="yellow")
    console.print(f"{note}: {files.picture} and {files.fit.name}", soft_wrap=True)


def obtain(options: Learn, console: Console) -> tuple[LogEigenvector, Files, str]:
    """The fit that the options describe, its files, and whether they were there already."""
    subject = find(options)
    if options.preset == "auto" and isinstance(subject, Grid) and subject.is_small:
        options = replace(options, preset="fast")  # known before any data are
    settings = _settings(options)
    files = Files(options.out / _name(options, subject))
    if options.overwrite:
        files.checkpoint.unlink(missing_ok=True)
    elif files.checkpoint.exists() and not options.resume:
        raise AlreadyExists(
            f"{files.directory} holds an interrupted run. Go on with --resume, or start anew with "
            "--overwrite."
        )
    elif options.resume and not (files.checkpoint.exists() or files.fit.exists()):
        console.print(f"Nothing to resume in {files.directory}: from the start.", soft_wrap=True)
    before = load(files.fit) if files.fit.exists() and not options.overwrite else None
    if before is not None:
        _check_same(before, settings, options, files)
        result, note = before, "Already there"
    else:
        with console.status(f"collecting {options.transitions} transitions"):
            data = subject.collect(options)
            truth = subject.truth(data, options.lam)
        result, note = _fit(options, settings, data, truth, files, console), "Written"
        # Not before: a fit that is there belongs to its own data until it is replaced.
        about = json.dumps(_data_options(options)).encode()
        write_file(files.data, about, overwrite=True)
        result.save(files.fit, overwrite=options.overwrite)
    if before is None or not files.picture.exists():
        how = f"{options.objective}, {options.preset}, {result.network}, lambda = {options.lam:g}"
        figure = subject.picture(result, how)
        write_file(files.picture, plot.as_png(figure), overwrite=options.overwrite)
    files.checkpoint.unlink(missing_ok=True)
    return result, files, note


def _settings(options: Learn) -> dict[str, Any]:
    """What is said on top of the preset."""
    given = {"updates": options.updates, "step_size": options.step_size}
    chosen = {"lam": options.lam, "objective": options.objective}
    return {**chosen, **{name: value for name, value in given.items() if value is not None}}


def _data_options(options: Learn) -> dict[str, Any]:
    return {"transitions": options.transitions, "data_seed": options.data_seed}


def _name(options: Learn, subject: Subject) -> str:
    parts = [subject.name]
    parts += [options.preset, options.objective, f"lam{options.lam:g}", f"{options.seeds}seeds"]
    return "-".join(parts)


def _fit(
    options: Learn,
    settings: dict[str, Any],
    data: Transitions,
    truth: dict[str, np.ndarray],
    files: Files,
    console: Console,
) -> LogEigenvector:
    updates = configs.make_for(data, options.preset, settings).updates
    try:
        with _progress(console, updates) as show:
            return fit(
                data,
                preset=options.preset,
                seeds=options.seeds,
                truth=truth,
                checkpoint=files.checkpoint,
                progress=show,
                **settings,
            )
    except KeyboardInterrupt:
        if files.checkpoint.exists():
            console.print(
                f"Kept in {files.checkpoint}: the same command with --resume goes on.",
                soft_wrap=True,
            )
        raise


@contextmanager
def _progress(console: Console, updates: int) -> Iterator[Callable[[int, Any], None]]:
    columns = (
        TextColumn("learning"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=updates)

        def show(done: int, row: Any) -> None:
            description = None
            if "cosine_column" in row:
                description = f"worst cosine {row['cosine_column'].min():.4f}"
            elif "worst" in row:
                description = f"worst violation {row['worst'].max():.2g}"
            progress.update(task, completed=done, description=description)

        yield show


def _check_same(
    before: LogEigenvector, settings: dict[str, Any], options: Learn, files: Files
) -> None:
    had = configs.as_json(before.config)
    ndim = before.observations.ndim
    wanted = map(configs.as_json, configs.choices(options.preset, settings, ndim=ndim))
    differ = [[name for name in one if one[name] != had[name]] for one in wanted]
    other = min(differ, key=len)
    if files.data.exists():
        asked, used = _data_options(options), json.loads(files.data.read_text())
        other += [name for name in asked if asked[name] != used.get(name)]
    if other:
        raise AlreadyExists(
            f"{files.fit} holds a fit with another {', '.join(other)}. It was left as it is: "
            "choose another --out, or replace it with --overwrite."
        )


def _report(result: LogEigenvector, files: Files) -> dict[str, Any]:
    last = {name: rows[-1] for name, rows in result.history.items() if name != "update"}

    def number(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    told = zip(result.seeds, result.status, result.diverged_at, strict=True)
    return {
        "updates": result.updates,
        "observations": len(result.observations),
        "network": result.network,
        "config": configs.as_json(result.config),
        "seeds": [
            {
                "seed": seed,
                "status": status,
                "diverged_at": at,
                **{name: number(values[k]) for name, values in last.items()},
            }
            for k, (seed, status, at) in enumerate(told)
        ],
        "files": {"fit": str(files.fit), "picture": str(files.picture)},
    }


def _caption(result: LogEigenvector) -> str:
    worst = "worst: violation of any state's equation, or of groups of held-out transitions where "
    worst += "states do not repeat"
    if "cosine_column" not in result.history:
        return f"no exact answer is known; {worst}"
    return (
        "cosine with each exact vector; difference: the largest of any log entry, to the column; "
        + worst
    )


def _table(options: Learn, result: LogEigenvector, report: dict[str, Any]) -> Table:
    table = Table(
        title=f"{options.env}: {options.objective}, {options.preset}, {result.network}, "
        f"{result.updates} updates",
        caption=_caption(result),
        box=box.SIMPLE_HEAD,
    )
    shown = {"column": "cosine_column", "difference": "difference_column"}
    shown |= {"represent.": "cosine_representation", "transition": "cosine_transition"}
    shown = {title: key for title, key in shown.items() if key in result.history}
    shown["worst"] = "worst"
    table.add_column("seed", justify="right")
    for title in shown:
        table.add_column(title, justify="right")
    table.add_column("status")
    for seed in report["seeds"]:
        values = (seed[key] for key in shown.values())
        cells = ["-" if value is None else f"{value:.5f}" for value in values]
        table.add_row(str(seed["seed"]), *cells, seed["status"])
    return table
