"""From questions to answers: what must be run, in what order, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from drogo.paper import questions
from drogo.paper.scope import Answer, Missing, Scope
from drogo.runs.job import Job
from drogo.runs.local import Listener
from drogo.runs.store import Record, Store


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

    `announce` is told how many runs a round adds.
    """
    get = Reader(store)
    while todo := missing(names, scope, get):
        announce(len(todo))
        engine.run(todo, store, listen)


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
