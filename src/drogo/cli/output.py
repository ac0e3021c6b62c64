"""Output of the verbs: result directories, tables and progress for people, JSON for machines.

rich is imported when something is printed, so that `--help` does not wait for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drogo
from drogo.requests import ResultDirectory

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from drogo.worlds.resolve import World

BOLD = "**"
UNLIMITED = 10_000
"""More columns than any table needs."""
NEW, OLD = "Written", "Already there (--overwrite makes it again)"
NOT_REQUESTED = ("env", "observation", "key", "layout", "tile", "log", "out", "fits", "resume",
                 "overwrite", "json")  # fmt: skip
"""Options that do not decide a result, or that decide it through the world that they choose."""


def result_directory(options: Any, world: World, label: str, **decided: Any) -> ResultDirectory:
    """Returns the directory for the result of a verb.

    Args:
        options: The verb with its options.
        world: The world that `options.env` stands for.
        label: The readable part of the directory's name.
        decided: Entries of the request besides the options, or in place of one of them.
    """
    chosen = {name: value for name, value in vars(options).items() if name not in NOT_REQUESTED}
    verb = type(options).__name__.lower()
    request = {"verb": verb, "drogo": drogo.__version__, "world": world.digest, **chosen, **decided}
    return ResultDirectory(options.out, label, request)


def obtain_report(
    options: Any, result: ResultDirectory, make: Callable[[], dict[str, Any]]
) -> tuple[dict[str, Any], str]:
    """Returns the report of a result, which is made unless it exists, and a note on which it is."""
    report = None if options.overwrite else result.report()
    return (make(), NEW) if report is None else (report, OLD)


def terminal(*, quiet: bool = False) -> Console:
    """Returns a console that prints text without interpreting markup, and leaves closed pipes to
    `main`."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Terminal(quiet=quiet, markup=False, emoji=False)


@contextmanager
def progress_bar(console: Console, label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Shows a progress bar, which the yielded function updates: done, total, and a remark."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    bar = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "{task.description}")
    with Progress(label, *bar, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def update(done: int, total: int, remark: str) -> None:
            progress.update(task, completed=done, total=total, description=remark)

        yield update


def number(value: float | None) -> float | None:
    """Returns a plain number, or None for one that JSON does not have."""
    return None if value is None or not math.isfinite(value) else float(value)


def table(
    title: str, caption: str, rows: Sequence[Mapping[str, str]], *, left: Collection[str]
) -> dict[str, Any]:
    """Returns a table as plain JSON, so that it can be kept and printed again.

    Args:
        title: The title above the table.
        caption: The explanation below it.
        rows: The cells of each row by the name of their column. One that begins and ends with
            `BOLD` is printed in bold.
        left: The columns that are aligned left; the others are aligned right.
    """
    columns = {name: "left" if name in left else "right" for name in rows[0]}
    cells = [list(row.values()) for row in rows]
    return {"title": title, "caption": caption, "columns": columns, "rows": cells}


def print_table(console: Console, content: Mapping[str, Any]) -> None:
    """Prints a table that `table` made; columns without names have no header.

    Where it is wider than the terminal, each cell has its own line, since half a number is useless.
    """
    from rich import box
    from rich.table import Table

    columns = content["columns"]
    shown = Table(
        title=content["title"],
        caption=content["caption"],
        show_header=any(map(str.strip, columns)),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name, side in columns.items():
        shown.add_column(name, justify=side, no_wrap=side == "left")
    for row in content["rows"]:
        shown.add_row(*map(_text, row))
    unlimited = console.options.update(max_width=UNLIMITED)
    if console.measure(shown, options=unlimited).minimum <= console.width:
        console.print(shown)
        return
    lines = [content["title"]]
    for row in content["rows"]:
        if shown.show_header:
            lines += [
                "",
                *(f"{name}: {_text(cell)}" for name, cell in zip(columns, row, strict=True)),
            ]
        else:
            lines.append(": ".join(str(_text(cell)) for cell in row))
    for line in (*lines, "", content["caption"]):
        console.print(line, soft_wrap=True)


def _text(cell: str) -> Text:
    from rich.text import Text

    is_bold = cell.startswith(BOLD) and cell.endswith(BOLD)
    return Text(cell.removeprefix(BOLD).removesuffix(BOLD), style="bold" if is_bold else "")


def print_report(
    console: Console, report: Mapping[str, Any], directory: Path, note: str, *, as_json: bool
) -> None:
    """Prints the report of a result.

    Args:
        console: The console, which is not used for JSON.
        report: The report as it is kept in the result's directory. Its table and its warnings are
            for people; the rest is for machines.
        directory: The result's directory.
        note: Whether the result is new.
        as_json: Print JSON instead of a table.
    """
    files = {kind: directory / name for kind, name in report["files"].items()}
    if as_json:
        kept = {name: value for name, value in report.items() if name != "table"}
        kept["files"] = {kind: str(path) for kind, path in files.items()}
        print(json.dumps(kept, indent=2, allow_nan=False))
        return
    print_table(console, report["table"])
    for warning in report["warnings"]:
        console.print(warning, style="yellow")
    first, *others = files.values()
    names = f" with {', '.join(path.name for path in others)}" if others else ""
    console.print(f"{note}: {first}{names}", soft_wrap=True)
