"""The scope of the questions, and the form of their answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from drogo.errors import DrogoError
from drogo_paper.engines.job import Job
from drogo_paper.engines.store import Record
from drogo_paper.protocol import PROTOCOLS, WORLDS as WORLDS, Protocol

INPUTS = ("one-hot", "coordinates", "pixels")
LAM, DISCOUNT, TRANSITIONS = 20.0, 0.99, 200_000

Get = Callable[[Job], Record | None]


@dataclass(frozen=True)
class Scope:
    """The size of the runs."""

    protocol: str = "text"
    """The name of one of `PROTOCOLS`."""
    seeds: int = 10
    quick: bool = False
    """Short runs, which take minutes instead of an hour, for a first look."""

    @property
    def reading(self) -> Protocol:
        return PROTOCOLS[self.protocol]

    def against_paper(self, text: str) -> str:
        """Returns a text about the paper's result, or nothing for a quick look."""
        return "" if self.quick else text


@dataclass(frozen=True)
class Table:
    """A table of text, in which `**bold**` and `code` are marked as in Markdown."""

    header: list[str]
    rows: list[list[str]]
    caption: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer to one question."""

    title: str
    source: str
    """Its figure or table in that paper."""
    verdict: str
    """The answer in one or two sentences."""
    figures: dict[str, Figure] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    """The main numbers as plain JSON."""
    paper: str = "the paper"
    """The paper that it is from."""


def no_jobs(scope: Scope, get: Get) -> list[Job]:
    """Returns no jobs, for a question that needs none."""
    return []


class Question(NamedTuple):
    """A question. A module with functions of these names is one, too."""

    answer: Callable[[Scope, Get], Answer]
    """Returns its answer; raises `Missing` if a run has not been done."""
    jobs: Callable[[Scope, Get], list[Job]] = no_jobs
    """Returns the jobs that it needs, as far as the finished ones decide them."""


class Missing(DrogoError, LookupError):
    """A run that an answer needs has not been done."""


def needed(get: Get, job: Job) -> Record:
    """Returns the run of a job; `Missing` if it has not been done."""
    record = get(job)
    if record is None:
        raise Missing(f"The job {job.label!r} has not been run.")
    return record


def table_of(
    scope: Scope, header: list[str], rows: list[list[str]], caption: str, *, of_paper: Sequence[int]
) -> Table:
    """Returns a table, in a quick look without its columns about the paper."""
    hidden = of_paper if scope.quick else ()
    header, *rows = (
        [cell for k, cell in enumerate(row) if k not in hidden] for row in (header, *rows)
    )
    return Table(header, rows, caption)
