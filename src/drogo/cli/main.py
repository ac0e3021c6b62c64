"""The `drogo` command.

Each verb is a frozen dataclass whose fields are its options. Nothing heavy is imported before a
verb runs, so that `--help` answers at once. Other packages add verbs of their own with entry points
in the group `drogo.verbs`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from importlib import metadata
from typing import Annotated, Any, Union

import tyro

import drogo
from drogo import signals
from drogo.cli.compare import Compare
from drogo.cli.envs import Envs
from drogo.cli.exact import Exact
from drogo.cli.goals import Goals
from drogo.cli.learn import Learn
from drogo.cli.options import Options
from drogo.cli.shape import Shape
from drogo.cli.train import Train
from drogo.errors import DrogoError

VERBS = {
    "envs": Envs,
    "exact": Exact,
    "goals": Goals,
    "learn": Learn,
    "compare": Compare,
    "shape": Shape,
    "train": Train,
    "options": Options,
}
DESCRIPTION = """The default representation of an MDP: its principal eigenvector, exact and learned.
`drogo --version` prints the version."""


def verbs() -> dict[str, type]:
    """Returns all verbs by name: the library's own, then those of other packages."""
    found: dict[str, type] = dict(VERBS)
    for entry_point in metadata.entry_points(group="drogo.verbs"):
        try:
            found.setdefault(entry_point.name, entry_point.load())
        except Exception as error:  # another package's mistake must not disable the command
            print(f"drogo: the verb {entry_point.name!r} ({entry_point.value}) cannot be loaded: "
                  f"{error}", file=sys.stderr)  # fmt: skip
    return found


def main(arguments: list[str] | None = None) -> None:
    """Runs the `drogo` command and ends the process with its exit status if it fails.

    Args:
        arguments: The arguments after the command's name; those of the process by default.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may not have every character
        sys.stdout.reconfigure(errors="backslashreplace")
    if arguments == ["--version"]:
        print(f"drogo {drogo.__version__}")
        return
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())  # where the module of `module:Id-v0` usually is
    try:
        verb = _parse(arguments)
        with signals.interrupted_by_signals():
            verb.run()
            sys.stdout.flush()
        signals.ignore_from_now_on()
    except signals.Interrupted as error:
        # Python would first wait for its threads, and those of XLA do not survive its own end.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        signals.end_at_once(error.number)
    except KeyboardInterrupt:
        print(signals.message(signal.SIGINT), file=sys.stderr)
        sys.exit(signals.status(signal.SIGINT))
    except BrokenPipeError:
        # Whoever read the output has gone; what is still buffered must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except DrogoError as error:
        if "--json" in arguments:
            print(json.dumps({"error": error.for_command_line, "kind": type(error).__name__}))
        print(f"drogo: {error.for_command_line}", file=sys.stderr)
        sys.exit(2)


def _parse(arguments: list[str]) -> Any:
    """Returns the verb that the arguments name, with its options."""
    choices = [Annotated[verb, tyro.conf.subcommand(name)] for name, verb in verbs().items()]
    return tyro.cli(
        Union[tuple(choices)],  # noqa: UP007  # pyright: ignore
        prog="drogo",
        description=DESCRIPTION,
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
    )
