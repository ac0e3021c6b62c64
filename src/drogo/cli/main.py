"""The `drogo` command: each verb is a frozen dataclass whose fields are its options. Nothing heavy
is imported before it runs, so that `--help` answers at once."""

import contextlib
import difflib
import io
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import fields
from importlib import metadata
from typing import Annotated, Any, NoReturn, Union

import tyro

import drogo
from drogo.cli.envs import Envs
from drogo.cli.exact import Exact
from drogo.cli.goals import Goals
from drogo.cli.learn import Learn
from drogo.errors import ArgumentError, DrogoError
from drogo.progress import print_warning

VERBS = {"envs": Envs, "exact": Exact, "goals": Goals, "learn": Learn}
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 1.0  # Seconds that a command may take to end after a signal.
DESCRIPTION = """The default representation of an MDP: its principal eigenvector, exact and learned.
`drogo --version` prints the version."""


def verbs() -> dict[str, type]:
    """Returns all verbs by name, with those that entry points of other packages add."""
    by_name: dict[str, type] = dict(VERBS)
    for entry_point in metadata.entry_points(group="drogo.verbs"):
        try:
            by_name.setdefault(entry_point.name, entry_point.load())
        except Exception as error:  # another package's mistake must not disable the command
            print(f"drogo: the verb {entry_point.name!r} ({entry_point.value}) cannot be loaded: "
                  f"{error}", file=sys.stderr)  # fmt: skip
    return by_name


def main(arguments: list[str] | None = None) -> None:
    """Runs the `drogo` command and ends the process with its exit status if it fails."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may not have every character
        sys.stdout.reconfigure(errors="backslashreplace")
    if arguments == ["--version"]:
        print(f"drogo {drogo.__version__}")
        return
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())  # where the module of `module:Id-v0` usually is
    try:
        with _signals(), warnings.catch_warnings():
            warnings.showwarning = print_warning
            try:
                _parse(arguments).run()
            finally:
                sys.stdout.flush()
    except KeyboardInterrupt as error:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        if error.args:  # by a signal
            _stop(*error.args)
        print("drogo: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # The reader of the output has gone; what is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except DrogoError as error:
        if "--json" in arguments:
            about = {"kind": type(error).__name__, "argument": error.argument}
            print(json.dumps({"error": error.for_command_line, **about}))
        print(f"drogo: {error.for_command_line}", file=sys.stderr)
        sys.exit(2)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Raises `KeyboardInterrupt` at SIGINT and SIGTERM, and ends the process after GRACE anyway:
    the pipe has signals also while XLA compiles, when Python does not handle them."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt(number)

    def watch() -> None:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while number := pipe.read(1):
                if number[0] in SIGNALS:
                    time.sleep(GRACE)
                    _stop(number[0])

    if threading.current_thread() is not threading.main_thread():  # only that one has signals
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=watch, daemon=True).start()
    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    wakeup = signal.set_wakeup_fd(writing)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writing)  # which ends the thread, unless a signal came


def _stop(number: int) -> NoReturn:
    """Ends the process after a signal, at once: XLA's threads crash while Python shuts down."""
    cursor = "\x1b[?25h\n" if os.isatty(2) else ""  # a progress bar hides it
    word = "interrupted" if number == signal.SIGINT else "terminated"
    os.write(2, f"{cursor}drogo: {word}\n".encode())
    os._exit(128 + number)


def _checked(verb: Any, arguments: list[str]) -> list[str]:
    """Returns the arguments with mistyped options last: tyro would take their values for others.
    An option with several values that is given twice is an error: tyro would drop the first."""
    names = [text.partition("=")[0].replace("_", "-") for text in arguments]
    known = {f"--{field.name.replace('_', '-')}": field.default for field in fields(verb)}
    for name, default in known.items():
        if isinstance(default, tuple) and names.count(name) > 1:
            problem = f"{name} is given twice; give it once, with all its values."
            raise ArgumentError(problem, argument=name)
    mistyped = [name for name in names if name.startswith("--") and name not in known]
    return [
        text for text, name in zip(arguments, names, strict=True) if name not in mistyped
    ] + mistyped


def _parse(arguments: list[str]) -> Any:
    """Returns the verb that the arguments name, with its options."""
    by_name, name = verbs(), next(iter(arguments), "-")
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
    if name in by_name:  # alone, so that hints to mistyped options are those of this verb
        rest = _checked(by_name[name], arguments[1:])
        return tyro.cli(by_name[name], prog=f"drogo {name}", args=rest, config=config)
    if not name.startswith("-"):
        close = difflib.get_close_matches(name, by_name, n=1)
        problem = f"{name!r} is no verb{f'. Did you mean {close[0]}?' if close else '.'}"
        raise ArgumentError(f"{problem} Verbs are {', '.join(by_name)}.")
    choices = [Annotated[verb, tyro.conf.subcommand(name)] for name, verb in by_name.items()]
    return tyro.cli(
        Union[tuple(choices)],  # noqa: UP007  # pyright: ignore
        prog="drogo",
        description=DESCRIPTION,
        args=arguments or ["--help"],
        config=config,
    )
