"""The maps that come with the library: text files beside this one, and their `-plain` variants."""

from __future__ import annotations

from importlib import resources

PAPER = ("grid-task", "four-rooms", "grid-room", "grid-maze")
"""The worlds of the paper, in its order."""
FURTHER = ("grid-room-large", "grid-maze-large", "four-rooms-multigoal", "ring")
PLAIN = "-plain"
"""Every low-reward cell `x` becomes an ordinary one."""


def names() -> tuple[str, ...]:
    """All shipped worlds: the paper's, their plain variants, and larger ones."""
    return (*PAPER, *(name + PLAIN for name in PAPER), *FURTHER)


def read(name: str) -> str:
    text = (resources.files("drogo.worlds") / "maps" / f"{name.removesuffix(PLAIN)}.txt").read_text(
        encoding="utf-8"
    )
    if not name.endswith(PLAIN):
        return text
    header, _, cells = text.partition("\n\n")
    return header + "\n\n" + cells.replace("x", ".")
