"""How much of it: presets, seeds, and the short version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from drogo.errors import DrogoError
from drogo.runs.job import Job
from drogo.runs.store import Record

WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
INPUTS = ("one-hot", "coordinates", "pixels")
LAM, DISCOUNT, TRANSITIONS = 20.0, 0.99, 200_000

Get = Callable[[Job], Record | None]


@dataclass(frozen=True)
class Scope:
    preset: str = "fast"
    seeds: int = 10
    quick: bool = False
    """Minutes instead of an hour: fewer updates and steps, two seeds. For a first look only."""


@dataclass(frozen=True)
class Table:
    header: list[str]
    rows: list[list[str]]
    caption: str = ""


@dataclass(frozen=True)
class Answer:
    """What came out of one question."""

    title: str
    source: str
    """Where the paper has it."""
    verdict: str
    """In plain words."""
    figures: dict[str, Figure] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    """What a machine may want of it, as plain JSON."""


class Missing(DrogoError, LookupError):
    """A question was asked before its runs were done."""


def needed(get: Get, job: Job) -> Record:
    found = get(job)
    if found is None:
        raise Missing(f"the run {job.label!r} is not there.")
    return found
