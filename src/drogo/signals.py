"""Ctrl-C and SIGTERM end the `drogo` command within a second, wherever it is.

Python reacts to a signal only between two of its own instructions, and a compiled call, such as XLA
compiling a program, may take many seconds. So there are two ways to the end. The gentle one raises
`Interrupted` in the main thread, which then keeps a checkpoint and says what to do next. If it has
not ended after `GRACE` seconds, or if another signal comes, a second thread ends the process as it
is. Nothing is lost then but the work since the last checkpoint, because files are written
completely or not at all.

This file imports nothing that takes time, since it is the first one that the command imports.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE = 0.6
"""Seconds that the gentle way may take."""
SHOW_CURSOR = "\x1b[?25h\n"
"""Undoes what a progress bar did to the terminal."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The process was sent a signal.

    Args:
        number: The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def message(number: int) -> str:
    """Returns what the command says when a signal ends it."""
    return "drogo: interrupted" if number == signal.SIGINT else "drogo: terminated"


def status(number: int) -> int:
    """Returns the exit status of a command that was ended by a signal."""
    return 128 + number


def end_at_once(number: int, frame: FrameType | None = None) -> NoReturn:
    """Ends the process, without any more of its code, as shells expect it of the signal."""
    cursor = SHOW_CURSOR if os.isatty(sys.__stderr__.fileno() if sys.__stderr__ else 2) else ""
    os.write(2, f"{cursor}{message(number)}\n".encode())
    os._exit(status(number))


def end_at_once_by_signals() -> None:
    """Lets the signals end the process at once, as long as it has done nothing but load modules."""
    for number in SIGNALS:
        signal.signal(number, end_at_once)


def ignore_from_now_on() -> None:
    """Lets a command that has done its work end as such, whatever comes while Python shuts down.

    Only where the signals would end it at once: a process of somebody else's keeps its handlers.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is end_at_once:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Raises `Interrupted` when a signal comes, and ends the process if that does not end it.

    Signals reach the main thread only: elsewhere, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()
    complain, sys.unraisablehook = sys.unraisablehook, _ignore_interrupts
    try:
        yield
    finally:
        sys.unraisablehook = complain
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writing)  # which ends the watch, unless a signal came


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)


def _ignore_interrupts(unraisable: sys.UnraisableHookArgs) -> None:
    """Says nothing of an `Interrupted` that is lost in a finaliser: the watch ends the process."""
    if not isinstance(unraisable.exc_value, Interrupted):
        sys.__unraisablehook__(unraisable)


def _watch(reading: int) -> None:
    """Waits for a signal, then for another one or for the end of the time, and ends the process.

    The operating system writes the number of a signal to the pipe, also during a compiled call.
    """
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while number := pipe.read(1):
            if number[0] in SIGNALS:
                another, _, _ = select.select([pipe], [], [], GRACE)
                if not another or pipe.read(1):  # otherwise the main thread is at its end
                    end_at_once(number[0])
