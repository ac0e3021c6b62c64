"""The work of `drogo reproduce` and `drogo report`."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn
from rich.table import Table

from drogo.errors import ArgumentError, DamagedFile, DrogoError, MissingFile
from drogo.files import read_file, read_json, write_file
from drogo_paper import report, reproduce
from drogo_paper.engines.job import Job, RunsFailed
from drogo_paper.engines.local import Listener, LocalEngine
from drogo_paper.engines.ray_engine import RayEngine
from drogo_paper.engines.store import Store
from drogo_paper.protocol import PROTOCOLS
from drogo_paper.scope import Answer, Scope
from drogo_paper.verbs import Report, Reproduce

QUICK_SEEDS = 2


def reproduce_questions(options: Reproduce) -> None:
    """Runs the missing jobs of the questions, and writes the report."""
    console = Console(quiet=options.json)
    names = list(options.names) or [
        name for name in reproduce.QUESTIONS if name not in reproduce.ON_REQUEST
    ]
    for name in names:
        reproduce.find(name)
    if options.seeds is not None and options.seeds < 2:
        raise ArgumentError("intervals need at least 2 --seeds.", argument="seeds")
    if options.address is not None and options.engine != "ray":
        raise ArgumentError("--address is only for --engine ray.", argument="address")
    seeds = options.seeds or (QUICK_SEEDS if options.quick else 10)
    scope = Scope(options.protocol, seeds, quick=options.quick)
    store = Store(options.out / "runs")
    store.clean()
    engine = RayEngine(options.address) if options.engine == "ray" else LocalEngine(options.workers)
    quick = "-quick" if scope.quick else ""
    directory = options.out / f"{scope.protocol}-{scope.seeds}seeds{quick}"
    write_file(directory / "scope.json", json.dumps(asdict(scope)).encode(), overwrite=True)
    page = directory / "report.html"
    began = time.perf_counter()
    try:
        with _progress(console) as (listen, announce):
            reproduce.run(names, scope, store, engine, listen, announce)
    except KeyboardInterrupt:
        console.print("Finished runs are kept. The same command continues from here.")
        raise
    except RunsFailed as error:
        _write(names, scope, store, directory, shrink=True)
        problem = f"{error}\nFinished runs are kept; {page} has the answers that they give."
        raise RunsFailed(problem, failures=error.failures) from error
    answers = _write(names, scope, store, directory, shrink=True)
    answers = {name: answers[name] for name in names}
    seconds = time.perf_counter() - began
    if options.json:
        summary = {
            "answers": {
                name: {"verdict": answer.verdict, "numbers": answer.numbers}
                for name, answer in answers.items()
            },
            "seconds": round(seconds, 1),
            "report": str(page),
        }
        print(json.dumps(summary, indent=2, allow_nan=False))
        return
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("name", "in the paper", "a quick look" if scope.quick else "verdict"):
        table.add_column(title)
    for name, answer in answers.items():
        table.add_row(name, answer.source, answer.verdict)
    console.print(table)
    console.print(f"{seconds / 60:.1f} minutes. Written: {page} and report.md", soft_wrap=True)


def write_reports(options: Report) -> None:
    """Writes the reports of a directory that `drogo reproduce` has filled."""
    directory = options.directory
    scopes = sorted(directory.glob("*/scope.json")) or sorted(directory.glob("scope.json"))
    if not scopes:
        raise MissingFile(f"{directory} has no scope.json of `drogo reproduce`.")
    pages = []
    for path in scopes:
        scope = _read_scope(path)
        runs = path.resolve().parents[1] / "runs"
        if not runs.is_dir():
            raise MissingFile(f"{runs} does not exist: the runs of {path.parent} are missing.")
        _write(list(reproduce.QUESTIONS), scope, Store(runs), path.parent, shrink=False)
        pages.append(str(path.parent / "report.html"))
    if options.json:
        print(json.dumps({"reports": pages}))
        return
    for page in pages:
        Console().print(f"Written: {page}", soft_wrap=True)


def _write(
    asked: Sequence[str], scope: Scope, store: Store, directory: Path, *, shrink: bool
) -> dict[str, Answer]:
    """Writes the answers to some questions and to those that the page answered before. Unless
    `shrink` is set, a page is not replaced by one with fewer answers."""
    listed = directory / "answers.json"
    before = _read_names(listed) if listed.exists() else []
    names = list(reproduce.QUESTIONS)
    wanted = [name for name in names if name in asked or name in before]
    answers = reproduce.answers(wanted, scope, store)
    lost = [name for name in before if name not in answers]
    if lost and not shrink:
        raise _lost(lost, store, directory)
    get = reproduce.Reader(store)
    jobs = {job.id: job for name in answers for job in reproduce.find(name).jobs(scope, get)}
    records = [record for job in jobs.values() if (record := get(job)) is not None]
    about = report.facts(scope, records)
    absent = [name for name in names if name not in answers and name not in reproduce.ON_REQUEST]
    figures = report.as_pngs(answers)
    above = report.QUICK if scope.quick else report.WHOLE
    page = report.as_html(answers, about, figures, absent, above)
    write_file(directory / "report.html", page.encode(), overwrite=True)
    text = report.as_markdown(answers, about, "figures", absent, above)
    write_file(directory / "report.md", text.encode(), overwrite=True)
    for name, picture in figures.items():
        write_file(directory / "figures" / f"{name}.png", picture, overwrite=True)
    write_file(listed, json.dumps(list(answers)).encode(), overwrite=True)
    return answers


def _lost(names: Sequence[str], store: Store, directory: Path) -> DrogoError:
    """Returns an error about answers that a page would lose, since their runs are missing."""
    left = f"so the page in {directory} was left as it is. `drogo reproduce` runs them again."
    if store.damage:
        damage = "\n".join(store.damage)
        return DamagedFile(f"{damage}\nWithout them, {', '.join(names)} cannot be answered, {left}")
    aside = ", ".join(sorted(path.name for path in store.path.glob("*.damaged-*")))
    earlier = f" Damaged ones were moved aside before: {aside}." if aside else ""
    text = f"The runs of {', '.join(names)} are not in {store.path}, {left}{earlier}"
    return ArgumentError(text, argument="directory")


def _read_scope(path: Path) -> Scope:
    """Returns the scope in a file; `DamagedFile` if it holds none."""
    content = read_json(path)
    types = {name: type(value) for name, value in asdict(Scope()).items()}
    both = types.keys() & content
    differing = sorted({*content} ^ {*types})
    differing += sorted(name for name in both if type(content[name]) is not types[name])
    if not differing and content["protocol"] in PROTOCOLS and content["seeds"] >= 2:
        return Scope(**content)
    problem = f"{path} is damaged: {', '.join(differing) or 'protocol or seeds'} is not as written."
    remedy = "The same `drogo reproduce` writes it again."
    raise DamagedFile(problem, remedy=remedy)


def _read_names(path: Path) -> list[str]:
    """Returns the names of the questions that a page answers."""
    names: Any = None
    with suppress(ValueError):
        names = json.loads(read_file(path))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        problem = f"{path} is damaged: it does not hold a list of names."
        remedy = "Remove it, and the report is written from the finished runs."
        raise DamagedFile(problem, remedy=remedy)
    return names


@contextmanager
def _progress(console: Console) -> Iterator[tuple[Listener, Callable[[int], None]]]:
    """Shows one bar for all runs and one for each that is under way."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        total = progress.add_task("all runs", total=0)
        bars: dict[str, TaskID] = {}
        lock = threading.Lock()

        def announce(count: int) -> None:
            progress.update(total, total=(progress.tasks[0].total or 0) + count)

        def listen(job: Job, event: str, number: float) -> None:
            with lock:
                if event == "progress":
                    if job.id not in bars:
                        bars[job.id] = progress.add_task(job.label, total=100)
                    progress.update(bars[job.id], completed=round(100 * number))
                    return
                if job.id in bars:
                    progress.remove_task(bars.pop(job.id))
                if event in ("done", "failed"):
                    progress.advance(total)
                if event == "done":
                    console.print(f"  {job.label}: {number:.0f} s", style="dim")
                elif event == "failed":
                    console.print(f"  {job.label}: failed", style="red")
                else:
                    console.print(f"  {job.label}: its process died, retrying", style="yellow")

        yield listen, announce
