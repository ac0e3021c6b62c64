"""Options and output that the verbs share. rich is imported when something is printed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

import drogo
from drogo.files import write_arrays
from drogo.requests import ResultDirectory, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from drogo.worlds.resolve import World

Make = Callable[[], dict[str, Any]]
BOLD = "**"
UNLIMITED = 10_000
NEW, OLD = "Written", "Already there (--overwrite makes it again)"
NOT_REQUESTED = ("env", "observation", "key", "layout", "actions", "tile", "log", "out", "fits",
                 "overwrite", "json")  # fmt: skip
"""Options that do not decide a result, or that decide it through the world that they choose."""


def _whole(texts: list[str]) -> int:
    """Returns a whole number, which may be written like 2e5."""
    value = float(texts[0])
    if not value.is_integer():
        raise ValueError(f"{texts[0]} is not a whole number")
    return int(value)


Whole = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=_whole,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]
Env = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="ENV", help="A shipped world, a map file, a Gymnasium id, or module:Id-v0."
    ),
]


def hint(text: str = "", help: str | None = None, metavar: str | None = None) -> Any:
    """Returns the note on an option's default that stands in `--help`, and its help."""
    return tyro.conf.arg(help_behavior_hint=text, help=help, metavar=metavar)


Flag = Annotated[bool, hint()]
REWARD = ("Reward of every step in place of a Gymnasium environment's, for example -1. Its own "
          "rewards still say which ends are good.")  # fmt: skip
Reward = Annotated[float | None, hint("(default: that of the environment)", REWARD)]
TERMINAL = "Value of every terminal state of a Gymnasium environment, in units of reward."
TerminalReward = Annotated[float | None, hint("(default: by the last rewards)", TERMINAL)]
KEY = "Parts of a Dict observation to use. Several parts are joined, in this order."
Key = Annotated[tuple[str, ...], hint("", KEY, "NAME ...")]
Layout = Annotated[int | None, hint("(default: 0)", "Seed of a MiniGrid environment's grid.")]
Tile = Annotated[int | None, hint("(default: 3)", "Pixels per cell of a MiniGrid environment.")]
ACTIONS = "Actions of a MiniGrid environment, such as left right forward pickup drop toggle."
Actions = Annotated[tuple[str, ...], hint("(default: all that are useful)", ACTIONS, "NAME ...")]
Out = Annotated[Path, tyro.conf.arg(help="Directory of all results, which have one each in it.")]
Json = Annotated[bool, hint("", "Print JSON instead of a table.")]
OVERWRITE = "Compute the result again even if it is there, or was interrupted."
Overwrite = Annotated[bool, hint("", OVERWRITE)]


def result_directory(options: Any, world: World, label: str, **decided: Any) -> ResultDirectory:
    """Returns the directory of a result, of whose request `decided` are further entries."""
    chosen = {name: value for name, value in vars(options).items() if name not in NOT_REQUESTED}
    verb = type(options).__name__.lower()
    request = {"verb": verb, "drogo": drogo.__version__, "world": world.digest, **chosen, **decided}
    return ResultDirectory(options.out, label, request)


def solve(options: Any, label: str, make: Callable[[World, ResultDirectory], Any]) -> None:
    """Prints the result of a verb that solves a world, which `make` computes and keeps."""
    from drogo.worlds.resolve import resolve

    names = ("reward", "layout", "actions")
    world = resolve(options.env, **{name: getattr(options, name) for name in names})
    result = result_directory(options, world, f"{world.name}-{label}-lam{options.lam:g}")
    console, status = terminal(quiet=options.json), f"solving {options.env}"
    print_result(options, console, result, lambda: make(world, result), status=status)


def keep(
    options: Any, result: ResultDirectory, kind: str, arrays: Mapping[str, Any],
    report: Mapping[str, Any], pictures: Mapping[str, bytes], **settings: Any,
) -> dict[str, Any]:  # fmt: skip
    """Writes arrays, pictures and the report, which names their files, and returns the report."""
    settings = plain({**result.request, **settings})
    with result.begin(overwrite=options.overwrite):
        write_arrays(result.path / report["files"][kind], kind, arrays, settings, overwrite=True)
        return result.finish(report, **pictures)


def obtain_report(options: Any, result: ResultDirectory, make: Make) -> tuple[dict[str, Any], str]:
    """Returns the report of a result, computed unless it exists, and a note on which it is."""
    report = None if options.overwrite else result.report()
    return (make(), NEW) if report is None else (report, OLD)


def print_result(
    options: Any, console: Console, result: ResultDirectory, make: Make, *, status: str = ""
) -> None:
    """Prints the report of a result, computed unless it exists. `status` is shown meanwhile."""
    with console.status(status) if status else nullcontext():
        report, note = obtain_report(options, result, make)
    files = {kind: result.path / name for kind, name in report["files"].items()}
    if options.json:
        kept = {name: value for name, value in report.items() if name != "table"}
        kept["files"] = {kind: str(path) for kind, path in files.items()}
        print(json.dumps(kept, indent=2, allow_nan=False))
        return
    print_table(console, report["table"], report.get("verdict", ""))
    first, *others = files.values()
    names = f" with {', '.join(path.name for path in others)}" if others else ""
    console.print(f"{note}: {first}{names}", soft_wrap=True)
    for warning in report["warnings"]:
        print(f"drogo: {warning}", file=sys.stderr)


def terminal(*, quiet: bool = False) -> Console:
    """Returns a console without markup, which leaves closed pipes to `main`."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Terminal(quiet=quiet, markup=False, emoji=False)


def number(value: float | None) -> float | None:
    """Returns a plain number, or None for one that JSON does not have."""
    return None if value is None or not math.isfinite(value) else float(value)


def table(
    title: str, caption: str, rows: Sequence[Mapping[str, str]], *, left: Collection[str]
) -> dict[str, Any]:
    """Returns a table as plain JSON, with rows of cells by column. Those `left` are texts."""
    columns = {name: "left" if name in left else "right" for name in rows[0]}
    cells = [list(row.values()) for row in rows]
    return {"title": title, "caption": caption, "columns": columns, "rows": cells}


def print_table(console: Console, content: Mapping[str, Any], verdict: str = "") -> None:
    """Prints a table, and below it a verdict and its caption. Where the table is wider than the
    terminal, each cell has its own line, since half a number is useless."""
    from rich import box
    from rich.table import Table

    columns = content["columns"]
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    shown.show_header = any(map(str.strip, columns))
    for name, side in columns.items():
        shown.add_column(name, justify=side, no_wrap=side == "left")
    for row in content["rows"]:
        shown.add_row(*map(_text, row))
    console.print(content["title"], style="bold")
    unlimited = console.options.update(max_width=UNLIMITED)
    if console.measure(shown, options=unlimited).minimum <= console.width:
        console.print(shown)
    else:
        for row in content["rows"]:
            pairs = zip(columns, map(_text, row), strict=True)
            cells = [": ".join(filter(str.strip, (name, str(cell)))) for name, cell in pairs]
            lines = ["", *cells] if shown.show_header else [": ".join(cells)]
            console.print("\n".join(lines), soft_wrap=True)
    console.print()
    for text in filter(None, (verdict, content["caption"])):
        console.print(text)


def _text(cell: str) -> Text:
    from rich.text import Text

    is_bold = cell.startswith(BOLD) and cell.endswith(BOLD)
    return Text(cell.removeprefix(BOLD).removesuffix(BOLD), style="bold" if is_bold else "")
