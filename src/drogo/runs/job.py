"""`Job`: one run, named by what it does and with which settings. `perform` does it, anywhere."""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import OtherCode

Report = Callable[[float], None]
"""Called now and then with the share of the run that is done, from 0 to 1."""

ROOMS = (
    "files.py",
    "config.py",
    "mdp",
    "exact",
    "worlds",
    "data",
    "potential.py",
    "learn",
    "use",
    "agents",
    "../drogo_paper/fits.py",
    "../drogo_paper/scope.py",
    "../drogo_paper/shaping_runs.py",
)
"""Source that decides what a run's numbers are."""


@dataclass(frozen=True)
class Job:
    """A call of `function` with `settings`.

    `function` is "module:name" of a function `(settings, scratch, report) -> Outcome`, so that
    another process or machine can find it. Settings are plain JSON: they are the run's identity.
    """

    function: str
    settings: Mapping[str, Any]
    label: str
    """For people; no part of the identity."""
    seconds: float = 60.0
    """About how long it takes; short ones are sent to a cluster in packs. No part of it either."""

    @cached_property
    def id(self) -> str:
        """Of the settings and the code."""
        told = {"function": self.function, "settings": self.settings, "code": code_version()}
        text = json.dumps(told, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        return {
            "function": self.function,
            "settings": dict(self.settings),
            "label": self.label,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Outcome:
    """What a run gives: arrays, and a few plain facts beside them."""

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)


@cache
def code_version() -> str:
    """A digest of the source: a run of other code is another run."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    files = [(root / room).resolve() for room in ROOMS if room.endswith(".py")]
    for room in ROOMS:
        files += sorted(p for p in (root / room).rglob("*") if p.suffix in (".py", ".txt"))
    for path in files:
        digest.update(path.relative_to(root.parent).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def check_id(job: Job, asked: str) -> None:
    """Before a run in another process: there, the name must be the same."""
    if job.id != asked:
        raise OtherCode(
            "drogo's source here is not that of the process that asked (was it edited, or is "
            "another version on this node?). Start the command again."
        )


def perform(job: Job, scratch: Path, report: Report) -> tuple[Outcome, dict[str, Any]]:
    """Run it here; the outcome, and where and how long it was run."""
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
        "code": code_version(),
    }


def versions() -> dict[str, str]:
    packages = ("drogo", "jax", "equinox", "optax", "numpy", "scipy")
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
    }
