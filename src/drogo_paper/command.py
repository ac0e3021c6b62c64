"""`drogo reproduce`: the paper's figures and tables; `drogo report`: them as a page."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from drogo.errors import ArgumentError, MissingFile, RunsFailed
from drogo.files import write_file
from drogo.runs.job import Job
from drogo.runs.local import LocalEngine
from drogo.runs.ray_engine import RayEngine
from drogo.runs.store import Store
from drogo_paper import questions, report, reproduce
from drogo_paper.scope import Answer, Scope

if TYPE_CHECKING:
    from drogo.cli.main import Report, Reproduce

QUICK_SEEDS = 2


def run(options: Reproduce) -> None:
    console = Console(quiet=options.json)
    names = list(options.names) or list(questions.QUESTIONS)
    for name in names:
        questions.find(name)
    if options.seeds is not None and options.seeds < 2:
        raise ArgumentError(f"--seeds is {options.seeds}; intervals need at least 2.")
    if options.address is not None and options.engine != "ray":
        raise ArgumentError("--address is for --engine ray.")
    seeds = options.seeds or (QUICK_SEEDS if options.quick else 10)
    scope = Scope(options.preset, seeds, options.quick)
    store = Store(options.out / "runs")
    store.clean()
    engine = RayEngine(options.address) if options.engine == "ray" else LocalEngine(options.workers)
    directory = options.out / _name(scope)
    write_file(directory / "scope.json", json.dumps(asdict(scope)).encode(), overwrite=True)
    began = time.perf_counter()
    try:
        with _progress(console) as (listen, announce):
            reproduce.run(names, scope, store, engine, listen, announce)
    except KeyboardInterrupt:
        console.print("Finished runs are kept: the same command goes on from here.")
        raise
    except RunsFailed as error:
        _write(names, scope, store, directory, shrink=True)
        raise ArgumentError(
            f"{error}\nFinished runs are kept; {directory / 'report.html'} has what they answer."
        ) from error
    made = _write(names, scope, store, directory, shrink=True)
    made = {name: made[name] for name in names}
    took = time.perf_counter() - began
    if options.json:
        told = {
            "answers": {
                name: {"verdict": a.verdict, "numbers": a.numbers} for name, a in made.items()
            },
            "seconds": round(took, 1),
            "report": str(directory / "report.html"),
        }
        print(json.dumps(told, indent=2, allow_nan=False))
        return
    console.print(_summary(made))
    console.print(f"{took / 60:.1f} minutes. Written: {directory / 'report.html'} and report.md",
                  soft_wrap=True)  # fmt: skip


def report_again(options: Report) -> None:
    """Of a directory that `reproduce` has filled."""
    console = Console(quiet=options.json)
    found = sorted(options.directory.glob("*/scope.json")) or sorted(
        options.directory.glob("scope.json")
    )
    if not found:
        raise MissingFile(
            f"{options.directory} holds no results of `drogo reproduce` (no scope.json in it)."
        )
    pages = []
    for path in found:
        scope = Scope(**json.loads(path.read_text()))
        runs = path.resolve().parents[1] / "runs"
        if not runs.is_dir():
            raise MissingFile(f"{runs} is not there: the runs of {path.parent} are missing.")
        _write(list(questions.QUESTIONS), scope, Store(runs), path.parent, shrink=False)
        pages.append(path.parent / "report.html")
    if options.json:
        print(json.dumps({"reports": [str(page) for page in pages]}))
        return
    for page in pages:
        console.print(f"Written: {page}", soft_wrap=True)


def _name(scope: Scope) -> str:
    return f"{scope.preset}-{scope.seeds}seeds" + ("-quick" if scope.quick else "")


def _write(
    asked: list[str], scope: Scope, store: Store, directory: Path, *, shrink: bool
) -> dict[str, Answer]:
    """Answers to what is asked and to what the page had before: pages and figures, made anew.

    Unless it may `shrink`, a page that is there is not replaced by one with fewer answers.
    """
    listed = directory / "answers.json"
    before = json.loads(listed.read_text()) if listed.exists() else []
    names = list(questions.QUESTIONS)
    made = reproduce.answers([n for n in names if n in asked or n in before], scope, store)
    lost = [name for name in before if name not in made]
    if lost and not shrink:
        raise ArgumentError(
            f"the runs of {', '.join(lost)} are not in {store.path} for this version of drogo; the "
            f"page in {directory} was left as it is. `drogo reproduce` makes them anew."
        )
    get = reproduce.Reader(store)
    jobs = {job.id: job for name in made for job in questions.find(name).jobs(scope, get)}
    records = [record for job in jobs.values() if (record := get(job)) is not None]
    about = report.facts(scope, records)
    absent = [name for name in names if name not in made]
    figures = report.drawn(made)
    page = report.as_html(made, about, figures, absent)
    write_file(directory / "report.html", page.encode(), overwrite=True)
    text = report.as_markdown(made, about, "figures", absent)
    write_file(directory / "report.md", text.encode(), overwrite=True)
    for name, picture in figures.items():
        write_file(directory / "figures" / f"{name}.png", picture, overwrite=True)
    write_file(listed, json.dumps(list(made)).encode(), overwrite=True)
    return made


@contextmanager
def _progress(console: Console) -> Iterator[tuple[Any, Any]]:
    """A bar over all runs, and one for each run under way."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        total = progress.add_task("all runs", total=0)
        bars: dict[str, Any] = {}
        lock = threading.Lock()

        def announce(count: int) -> None:
            known = progress.tasks[0].total or 0
            progress.update(total, total=known + count)

        def listen(job: Job, what: str, number: float) -> None:
            with lock:
                if what == "progress":
                    if job.id not in bars:
                        bars[job.id] = progress.add_task(job.label, total=100)
                    progress.update(bars[job.id], completed=round(100 * number))
                    return
                if job.id in bars:
                    progress.remove_task(bars.pop(job.id))
                if what in ("done", "failed"):
                    progress.advance(total)
                if what == "done":
                    console.print(f"  {job.label}: {number:.0f} s", style="dim")
                elif what == "failed":
                    console.print(f"  {job.label}: failed", style="red")
                else:
                    console.print(f"  {job.label}: its process died, trying again", style="yellow")

        yield listen, announce


def _summary(made: dict[str, Answer]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("name", "in the paper", "what came out"):
        table.add_column(title)
    for name, answer in made.items():
        table.add_row(name, answer.source, answer.verdict)
    return table
