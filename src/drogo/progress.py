"""Progress and warnings on standard error, and Ctrl-C, for someone who waits at a terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SWITCH = "DROGO_PROGRESS"
"""The environment variable that is 0 where nobody waits, as in a worker process."""


def is_watched() -> bool:
    """Returns whether someone waits at a terminal or in a notebook."""
    interactive = (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules
    return interactive and os.environ.get(SWITCH) != "0"


def print_warning(message: Warning | str, *_: Any) -> None:
    """Prints a warning as a sentence, without its source; it replaces `warnings.showwarning`."""
    print(f"drogo: {message}", file=sys.stderr)


def stops(interrupt: KeyboardInterrupt) -> bool:
    """Returns whether Ctrl-C asks for the result so far; that of the command has a number."""
    return is_watched() and not interrupt.args


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Shows a progress bar, which the yielded function updates: done, total, and a remark."""
    if not is_watched():
        yield lambda done, total, remark: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    bar = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "{task.description}")
    with Progress(label, *bar, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def update(done: int, total: int, remark: str) -> None:
            progress.update(task, completed=done, total=total, description=remark)

        yield update
