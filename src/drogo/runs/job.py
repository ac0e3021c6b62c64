"""`Job`, a function and its settings, and `perform`, which runs it."""

from __future__ import annotations

import importlib
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import OtherCode, RunsFailed
from drogo.requests import digest, library_digest, source_digest

Report = Callable[[float], None]
"""Called now and then with the fraction of the run that is done, from 0 to 1."""


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

    def as_json(self) -> dict[str, Any]:
        """Returns the arguments of this job as plain JSON."""
        return {
            "function": self.function,
            "settings": dict(self.settings),
            "label": self.label,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Outcome:
    """What a run returns.

    Args:
        arrays: Arrays of numbers.
        facts: Other results, as plain JSON.
    """

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A job that raised an error, or whose process died."""

    job: Job
    error: str
    trace: str = ""


def raise_failures(failures: list[Failure], jobs: int) -> None:
    """Raises `RunsFailed`, which names the jobs that failed, if there are any."""
    if failures:
        lines = "\n".join(f"{failure.job.label}: {failure.error}" for failure in failures)
        raise RunsFailed(f"{len(failures)} of {jobs} jobs failed:\n{lines}")


def check_id(job: Job, expected: str) -> None:
    """Raises `OtherCode` in a worker process whose source code is not that of its parent."""
    if job.id != expected:
        raise OtherCode(
            "The source code changed after the command was started, or this machine has another "
            "version of it. Start the command again."
        )


def perform(job: Job, scratch: Path, report: Report) -> tuple[Outcome, dict[str, Any]]:
    """Runs a job in this process.

    Args:
        job: The job.
        scratch: A directory for checkpoints.
        report: Called with the fraction that is done.

    Returns:
        The outcome, and how it came about: duration, machine, versions.
    """
    module, _, name = job.function.partition(":")
    function = getattr(importlib.import_module(module), name)
    resumed = scratch.is_dir() and any(scratch.iterdir())
    began = time.perf_counter()
    outcome = function(dict(job.settings), scratch, report)
    return outcome, {
        "resumed": resumed,
        "duration": round(time.perf_counter() - began, 3),
        "machine": platform.node(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that decide numbers."""
    packages = ("drogo", "jax", "equinox", "optax", "numpy", "scipy")
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
    }
