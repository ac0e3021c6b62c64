"""The fits that several questions share: each world from each kind of observation."""

from __future__ import annotations

from typing import Any

from drogo.runs.job import Job
from drogo_paper.scope import INPUTS, LAM, TRANSITIONS, WORLDS, Scope

SECONDS = {"one-hot": 40.0, "coordinates": 40.0, "pixels": 250.0}
SIZE = {"grid-task": 1.0, "four-rooms": 1.0, "grid-maze": 1.6, "grid-room": 2.7}
"""About how long a fit takes, so that the longest can start first."""
QUICK_UPDATES = {"one-hot": 800, "coordinates": 800, "pixels": 200}


def job(scope: Scope, world: str, kind: str, transitions: int = TRANSITIONS) -> Job:
    settings: dict[str, Any] = {
        "world": world,
        "input": kind,
        "preset": scope.preset,
        "seeds": scope.seeds,
        "lam": LAM,
        "transitions": transitions,
        "overrides": {"updates": QUICK_UPDATES[kind]} if scope.quick else {},
    }
    seconds = SECONDS[kind] * SIZE[world] * (30 if scope.preset == "paper" else 1)
    seconds = 0.1 * seconds if scope.quick else seconds
    return Job("drogo_paper.jobs.fits:learn", settings, f"learn {world} from {kind}", seconds)


def jobs(scope: Scope) -> list[Job]:
    return [job(scope, world, kind) for world in WORLDS for kind in INPUTS]
