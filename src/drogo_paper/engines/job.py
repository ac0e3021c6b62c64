"""`Job`, a function and its settings; `Outcome`, its result; and `perform`, which runs it."""

import importlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import ArgumentError, ArgumentTypeError, DrogoError
from drogo.requests import digest, plain, versions

Report = Callable[[float], None]
"""Called during a run with the fraction that is done, from 0 to 1."""
SECONDS_BETWEEN_REPORTS = 0.5


class RunsFailed(DrogoError, RuntimeError):
    """Some jobs raised an error, by their labels in `failures`. The results of others were kept."""

    def __init__(self, problem: str, *, failures: Mapping[str, str] | None = None) -> None:
        super().__init__(problem)
        self.failures = dict(failures or {})


@dataclass(frozen=True)
class Job:
    """One run: a call of a function with some settings.

    A job is identified by its `request`: its function, settings and version.

    Args:
        function: "module:name" of a function `(settings, scratch, report) -> Outcome`, which other
            processes and machines can import.
        settings: Plain JSON.
        label: A description for people, which is not part of the identity.
        seconds: The expected duration: long jobs start first. It is not part of the identity.
        version: The version of the function. Count it up when the function's numbers change, so
            that earlier results are not taken for new ones.
    """

    function: str
    settings: Mapping[str, Any]
    label: str
    seconds: float = 60.0
    version: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or not isinstance(self.settings, Mapping):
            given = f"function is {self.function!r} and settings is {self.settings!r}"
            raise ArgumentTypeError(f"{given}; give the name of a function and a dictionary.")

    @cached_property
    def request(self) -> dict[str, Any]:
        """All that decides the result."""
        settings = dict(self.settings)
        return {"function": self.function, "settings": settings, "version": self.version}

    @cached_property
    def id(self) -> str:
        """The function's name and a digest of the request."""
        return f"{self.function.rpartition(':')[2]}-{digest(self.request)[:16]}"


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Args:
        arrays: Arrays of numbers.
        facts: Other results, as plain JSON; infinity and NaN are kept as strings.
    """

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)


def raise_failures(failures: Mapping[str, str], jobs: int) -> None:
    """Raises `RunsFailed` if there are errors, which are given by the labels of the jobs."""
    if failures:
        lines = "\n".join(f"{label}: {error}" for label, error in failures.items())
        raise RunsFailed(f"{len(failures)} of {jobs} jobs failed:\n{lines}", failures=failures)


def name_error(error: BaseException) -> str:
    """Returns the kind and the text of an error, if it has any."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # a broken __str__ must not hide the error
        return type(error).__name__


def perform(job: Job, scratch: Path, report: Report) -> tuple[Outcome, dict[str, Any]]:
    """Runs a job in this process, and returns its outcome in plain types and its provenance."""
    last = 0.0

    def throttled(fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            report(float(fraction))

    module, _, name = job.function.partition(":")
    function = getattr(importlib.import_module(module), name)
    resumed = scratch.is_dir() and any(scratch.iterdir())
    began = time.perf_counter()
    outcome = function(dict(job.settings), scratch, throttled)
    if not isinstance(outcome, Outcome):
        problem = f"{job.function} returned {type(outcome).__name__}; a job must return an Outcome."
        raise ArgumentTypeError(problem, argument="function")
    arrays = {str(name): np.asarray(array) for name, array in dict(outcome.arrays).items()}
    try:
        facts = json.loads(json.dumps(plain(dict(outcome.facts))))
    except (TypeError, ValueError) as error:
        problem = f"the facts of {job.function} are not JSON: {error}."
        raise ArgumentError(problem, argument="facts") from error
    return Outcome(arrays, facts), {
        "resumed": resumed,
        "duration": round(time.perf_counter() - began, 3),
        "machine": platform.node(),
        "versions": versions(),
    }
