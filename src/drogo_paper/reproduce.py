"""From questions to answers: what must be run, in what order, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from drogo.errors import RunsFailed
from drogo.runs.job import Job
from drogo.runs.local import Listener
from drogo.runs.store import Record, Store
from drogo_paper import questions
from drogo_paper.scope import Answer, Missing, Scope


@runtime_checkable
class Engine(Protocol):
    def run(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None: ...


class Reader:
    """Runs of a store, each read (and checked) once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.known: dict[str, Record] = {}

    def __call__(self, job: Job) -> Record | None:
        if job.id not in self.known:
            found = self.store.get(job)
            if found is None:
                return None
            self.known[job.id] = found
        return self.known[job.id]


def missing(names: Sequence[str], scope: Scope, get: Reader) -> list[Job]:
    """Runs that the questions need and the store has not; more may follow from these."""
    wanted = {job.id: job for name in names for job in questions.find(name).jobs(scope, get)}
    return [job for job in wanted.values() if get(job) is None]


def run(
    names: Sequence[str],
    scope: Scope,
    store: Store,
    engine: Engine,
    listen: Listener,
    announce: Callable[[int], None],
) -> None:
    """Everything that is missing, round by round: a search first, then what follows from it.

    `announce` is told how many runs a round adds. Runs that fail are named at the end, when all
    that does not depend on them is done.
    """
    get = Reader(store)
    failed: set[str] = set()
    told: list[str] = []
    while todo := [job for job in missing(names, scope, get) if job.id not in failed]:
        announce(len(todo))
        try:
            engine.run(todo, store, listen)
        except RunsFailed as error:  # what does not depend on them goes on
            told.append(str(error))
        lost = [job for job in todo if get(job) is None]
        failed |= {job.id for job in lost}
        if lost and not told:
            labels = ", ".join(job.label for job in lost)
            told.append(f"said to be done, but not in the store: {labels}")
    if told:
        raise RunsFailed("\n".join(told))


def answers(names: Sequence[str], scope: Scope, store: Store) -> dict[str, Answer]:
    """Those that the store's runs can give."""
    get = Reader(store)
    made = {}
    for name in names:
        try:
            made[name] = questions.find(name).answer(scope, get)
        except Missing:
            continue
    return made
