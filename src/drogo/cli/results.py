"""Results on disk: where one is kept, and whether it is already there.

The verbs import this file when they run: unlike them, it imports what is heavy at its top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drogo
from drogo.requests import ResultDirectory, library_digest
from drogo.worlds.resolve import World

WRITTEN = "Written"
NOT_ASKED = ("env", "observation", "key", "layout", "tile", "log", "out", "fits", "resume",
             "overwrite", "json")  # fmt: skip
"""Options that do not decide a result, or that decide it by the world that they choose."""


def directory(options: Any, world: World, label: str, **decided: Any) -> ResultDirectory:
    """Returns the directory of the result that a verb was asked for.

    Args:
        options: The verb with its options.
        world: The world that `options.env` stands for.
        label: The readable part of the directory's name.
        decided: What decides the result besides the options, or in place of one of them.
    """
    asked = {name: value for name, value in vars(options).items() if name not in NOT_ASKED}
    verb = type(options).__name__.lower()
    request = {"verb": verb, **code(), "world": world.digest, **asked, **decided}
    return ResultDirectory(options.out, label, request)


def code() -> dict[str, str]:
    """Returns the part of a request that says which code makes the result."""
    return {"drogo": drogo.__version__, "library": library_digest()}


def obtain(
    options: Any, result: ResultDirectory, make: Callable[[], dict[str, Any]]
) -> tuple[dict[str, Any], str]:
    """Returns the report of a result, and whether it is new: it is made unless it is there."""
    report = None if options.overwrite else result.report()
    return (make(), WRITTEN) if report is None else (report, "Already there")
