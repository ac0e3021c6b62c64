"""The tables of the documentation, printed and written by the benchmarks that measure them.

    write_table("twelve-cells", "The largest difference ...", ("world", "input"), rows)

prints a Markdown table, and writes it to docs/tables/twelve-cells.md with the command and the
commit that made it. The README shows some of these tables between comments, which

    uv run benchmarks/tables.py

brings up to date.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drogo.files import write_file

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "docs" / "tables"
GENERATED = (":!docs/tables", ":!docs/figures")
"""Paths whose changes do not make the tree dirty: benchmarks write them."""


def write_table(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    note: str = "",
    *,
    write: bool = True,
) -> None:
    """Prints a Markdown table row by row, and writes it to docs/tables/NAME.md.

    Args:
        name: The name of the file, without its ending.
        title: The first sentence of the file.
        header: The names of the columns.
        rows: The cells of each row. The rows of a generator are printed as they are measured.
        note: Sentences below the table.
        write: Whether the file is written. Otherwise the table is only printed.
    """
    made_by = f"Made by `{command()}` at commit {commit()}."  # as it is before the first row
    lines = [title, "", _line(header), "|---" * len(header) + "|"]
    print("\n" + "\n".join(lines), flush=True)
    for row in rows:
        lines.append(_line(row))
        print(lines[-1], flush=True)
    ending = ["", *([note, ""] if note else []), made_by]
    print("\n".join(ending), flush=True)
    if write:
        content = "\n".join([*lines, *ending]) + "\n"
        write_file(TABLES / f"{name}.md", content.encode(), overwrite=True)


def with_tables(page: str) -> str:
    """Returns a page with the newest tables between `<!-- table: NAME -->` and `<!-- end -->`."""

    def newest(shown: re.Match[str]) -> str:
        return f"{shown[1]}{(TABLES / f'{shown[2]}.md').read_text()}<!-- end -->"

    return re.sub(r"(<!-- table: (.*?) -->\n).*?<!-- end -->", newest, page, flags=re.DOTALL)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def formatted(facts: Mapping[str, Any], forms: Mapping[str, str]) -> list[str]:
    """Returns some facts as cells: numbers in the given forms, text as it is, "-" for none."""
    cells = []
    for name, form in forms.items():
        fact = facts.get(name)
        is_number = isinstance(fact, int | float)
        cells.append("-" if fact is None else format(fact, form) if is_number else str(fact))
    return cells


def command() -> str:
    """Returns the command that runs this process, as a reader would type it."""
    return shlex.join(["uv", "run", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def commit() -> str:
    """Returns the short hash of the commit, followed by "+" if the tree differs from it."""
    changed = _git("status", "--porcelain", "--", ".", *GENERATED)
    return _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def code() -> str:
    """Returns the short hash of everything in src, as it was committed last."""
    return _git("rev-parse", "--short", "HEAD:src")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Part(NamedTuple):
    """One of the tables of a benchmark. Its texts may contain {options}."""

    name: str
    """The name of its file."""
    rows: Callable[[argparse.Namespace], Iterable[Sequence[object]]]
    title: str
    header: Sequence[str]
    note: str = ""


def parse_options(description: str | None, **defaults: Any) -> argparse.Namespace:
    """Returns the options of the command line, and `write`.

    Args:
        description: The docstring of the benchmark.
        **defaults: The options with their defaults: a tuple takes several values, None stands for a
            whole number that need not be given.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write docs/tables and docs/figures")
    for name, default in defaults.items():
        several = isinstance(default, tuple)
        kind = int if default is None else type(default[0] if several else default)
        shown = " ".join(map(str, default)) if several else default
        parser.add_argument(f"--{name}", type=kind, nargs="+" if several else None,
                            default=default, help=f"default: {shown}")  # fmt: skip
    return parser.parse_args()


def write_parts(parts: Mapping[str, Part], options: argparse.Namespace) -> None:
    """Prints, and with `--write` writes, the tables of all parts that are asked for."""
    for part in (parts[name] for name in options.only):
        title, note = (text.format(**vars(options)) for text in (part.title, part.note))
        rows = part.rows(options)
        write_table(part.name, title, part.header, rows, note, write=options.write)


if __name__ == "__main__":
    page = ROOT / "README.md"
    write_file(page, with_tables(page.read_text()).encode(), overwrite=True)
