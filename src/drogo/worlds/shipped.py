"""The maps that come with the library: text files, and their `-plain` variants."""

from __future__ import annotations

from importlib import resources

PAPER = ("grid-task", "four-rooms", "grid-room", "grid-maze")
"""The worlds of the paper, in its order."""
FURTHER = ("grid-room-large", "grid-maze-large", "four-rooms-multigoal", "ring")
PLAIN = "-plain"
"""In these variants, every low-reward cell `x` is an ordinary one."""


def names() -> tuple[str, ...]:
    """Returns the names of the paper's worlds, of their plain variants, and of further worlds."""
    return (*PAPER, *(name + PLAIN for name in PAPER), *FURTHER)


def read(name: str) -> str:
    """Reads the text of a shipped map."""
    file = resources.files("drogo.worlds") / "maps" / f"{name.removesuffix(PLAIN)}.txt"
    text = file.read_text(encoding="utf-8")
    if not name.endswith(PLAIN):
        return text
    header, _, cells = text.partition("\n\n")
    return header + "\n\n" + cells.replace("x", ".")
