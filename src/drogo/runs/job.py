"""`Job`, a function and its settings, and `perform`, which runs it."""

from __future__ import annotations

import importlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import ArgumentError, ArgumentTypeError, OtherCode, RunsFailed
from drogo.requests import digest, library_digest, plain, source_digest, versions

Report = Callable[[float], None]
"""Called now and then with the fraction of the run that is done, from 0 to 1."""
SECONDS_BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class Job:
    """One run: a call of a function with some settings.

    A job is identified by its `request`: by its function and settings, and by the source code of
    the function and of the library.

    Args:
        function: "module:name" of a function `(settings, scratch, report) -> Outcome`, which other
            processes and machines can import.
        settings: Plain JSON.
        label: A description for people, which is not part of the identity.
        seconds: About how long it takes. Long jobs start first, and short ones are sent to a
            cluster together. It is not part of the identity.
    """

    function: str
    settings: Mapping[str, Any]
    label: str
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or not isinstance(self.settings, Mapping):
            raise ArgumentTypeError(
                f"function is {self.function!r} and settings is {self.settings!r}; give the name "
                "of a function and a dictionary."
            )

    @cached_property
    def request(self) -> dict[str, Any]:
        """Everything that decides the result."""
        return {
            "function": self.function,
            "settings": dict(self.settings),
            "source": source_digest(self.function.partition(":")[0]),
            "library": library_digest(),
        }

    @cached_property
    def id(self) -> str:
        """The function's name and a digest of the request."""
        return f"{self.function.rpartition(':')[2]}-{digest(self.request)[:16]}"

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is sent to another process: the fields, and the id that they have here."""
        return {**asdict(self), "id": self.id}

    def checked(self) -> Job:
        """Returns a job that was received; `OtherCode` if it has another id in this process."""
        here = replace(self)
        if here.id != self.id:
            raise OtherCode(
                "The source code changed after the command was started, or this machine has "
                "another version of it. Start the command again."
            )
        return here


@dataclass(frozen=True)
class Outcome:
    """What a run returns.

    Args:
        arrays: Arrays of numbers.
        facts: Other results, as plain JSON; infinity and NaN are kept as strings.
    """

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)


def raise_failures(failures: list[str], jobs: int) -> None:
    """Raises `RunsFailed`, which says which jobs failed and why, if there are any."""
    if failures:
        lines = "\n".join(failures)
        raise RunsFailed(f"{len(failures)} of {jobs} jobs failed:\n{lines}")


def name_error(error: BaseException) -> str:
    """Returns the kind and the text of an error, if it has any."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the error's own mistake must not hide it
        return type(error).__name__


def _now_and_then(send: Report) -> Report:
    """Returns a function that passes on a fraction unless it has just passed on another."""
    last = 0.0

    def report(fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            send(float(fraction))

    return report


def perform(job: Job, scratch: Path, report: Report) -> tuple[Outcome, dict[str, Any]]:
    """Runs a job in this process.

    Args:
        job: The job.
        scratch: A directory for checkpoints.
        report: Called now and then with the fraction that is done.

    Returns:
        The outcome, and how it came about: duration, machine, versions.
    """
    module, _, name = job.function.partition(":")
    function = getattr(importlib.import_module(module), name)
    resumed = scratch.is_dir() and any(scratch.iterdir())
    began = time.perf_counter()
    outcome = _checked(job, function(dict(job.settings), scratch, _now_and_then(report)))
    return outcome, {
        "resumed": resumed,
        "duration": round(time.perf_counter() - began, 3),
        "machine": platform.node(),
        "versions": versions(),
    }


def _checked(job: Job, outcome: Any) -> Outcome:
    """Returns an outcome in plain types, which can be sent to other processes and be saved."""
    if not isinstance(outcome, Outcome):
        raise ArgumentTypeError(
            f"{job.function} returned {type(outcome).__name__}; a job must return an Outcome."
        )
    arrays = {str(name): np.asarray(array) for name, array in dict(outcome.arrays).items()}
    try:
        return Outcome(arrays, json.loads(json.dumps(plain(dict(outcome.facts)))))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"the facts of {job.function} are not JSON: {error}.") from error
