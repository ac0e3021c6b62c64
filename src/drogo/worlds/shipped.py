"""Reads the maps that come with the library, their `-plain` variants, and map files."""

from __future__ import annotations

import difflib
import os
from importlib import resources
from pathlib import Path

from drogo.errors import ArgumentError, ArgumentTypeError, FileError, MissingFile

PAPER = ("grid-task", "four-rooms", "grid-room", "grid-maze")
"""The worlds of the paper, in its order."""
FURTHER = ("grid-room-large", "grid-maze-large", "four-rooms-multigoal", "ring")
PLAIN = "-plain"
"""The variants in which every low-reward cell `x` is an ordinary one."""


def names() -> tuple[str, ...]:
    """Returns the names of the paper's worlds, of their plain variants, and of further worlds."""
    return (*PAPER, *(name + PLAIN for name in PAPER), *FURTHER)


def read(source: str | Path) -> tuple[str, str]:
    """Returns the name and the text of a shipped map or a file."""
    if not isinstance(source, str | Path):
        problem = f"source is a {type(source).__name__}; give the name of a world or a map file."
        raise ArgumentTypeError(problem, argument="source")
    name, path = str(source), Path(source)
    if name in names():
        file = resources.files("drogo.worlds") / "maps" / f"{name.removesuffix(PLAIN)}.txt"
        header, gap, cells = file.read_text(encoding="utf-8").partition("\n\n")
        return name, header + gap + (cells.replace("x", ".") if name.endswith(PLAIN) else cells)
    if not os.path.isfile(path):  # also of a name that no file can have
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise MissingFile(
            f"no shipped world and no map file is called {name!r}.{hint} "
            f"Shipped worlds: {', '.join(names())}.",
            argument="source",
        )
    try:
        return path.stem, path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        problem = f"{path} is not a text file in UTF-8: {error}."
        raise ArgumentError(problem, argument="source") from error
    except OSError as error:
        raise FileError(f"the map {path} cannot be read: {error}.", argument="source") from error
