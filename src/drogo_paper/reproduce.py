"""From questions to answers: finds the missing jobs, runs them in order, and collects answers."""

import contextlib
import difflib
import importlib
from collections.abc import Callable, Sequence
from types import ModuleType

from drogo.errors import ArgumentError
from drogo_paper.engines.job import Job, RunsFailed
from drogo_paper.engines.local import Listener, LocalEngine
from drogo_paper.engines.ray_engine import RayEngine
from drogo_paper.engines.store import Record, Store
from drogo_paper.scope import Answer, Missing, Question, Scope

QUESTIONS = {
    "ring": "illustrations",
    "cosine": "cosine",
    "eigenvectors": "cosine",
    "shaping": "shaping",
    "shaping-successor": "shaping_successor",
    "shaping-curves": "shaping",
    "formulations": "illustrations",
    "environments": "illustrations",
    "natural-gradient": "illustrations",
    "ablation-tabular": "ablation_answer",
    "ablation-network": "ablation_answer",
    "ablation-network-paper": "ablation_answer",
    "theory": "theory",
    "transfer": "transfer",
    "counts": "counts",
    "options": "options",
    "options-plain": "options",
    "options-returns": "options_returns",
}
ON_REQUEST = ("options-plain", "options-returns")
"""Questions that take long, and are run only if they are named."""


def find(name: str) -> Question | ModuleType:
    """Returns a question: the module, or an entry of its `QUESTIONS` if it has several."""
    if name not in QUESTIONS:
        close = difflib.get_close_matches(name, QUESTIONS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        problem = f"There is no {name!r} to reproduce.{hint} The names are {', '.join(QUESTIONS)}."
        raise ArgumentError(problem, argument="names")
    module = importlib.import_module(f"drogo_paper.{QUESTIONS[name]}")
    return getattr(module, "QUESTIONS", {}).get(name, module)


class Reader:
    """Reads the runs of a store; each is read and checked once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.records: dict[str, Record] = {}

    def __call__(self, job: Job) -> Record | None:
        if job.id not in self.records:
            record = self.store.get(job)
            if record is None:
                return None
            self.records[job.id] = record
        return self.records[job.id]


def missing(names: Sequence[str], scope: Scope, get: Reader) -> list[Job]:
    """Returns the jobs that the questions need and the store does not have."""
    wanted = {job.id: job for name in names for job in find(name).jobs(scope, get)}
    return [job for job in wanted.values() if get(job) is None]


def run(
    names: Sequence[str],
    scope: Scope,
    store: Store,
    engine: LocalEngine | RayEngine,
    listen: Listener,
    announce: Callable[[int], None],
) -> None:
    """Runs all missing jobs, in rounds: a search first, then the jobs that depend on it.

    `announce` is called with the number of jobs that a round adds. If some fail, `RunsFailed` is
    raised when all that do not depend on them are done.
    """
    get = Reader(store)
    failed: set[str] = set()
    errors: list[str] = []
    failures: dict[str, str] = {}
    while todo := [job for job in missing(names, scope, get) if job.id not in failed]:
        announce(len(todo))
        try:
            engine.run(todo, store, listen)
        except RunsFailed as error:
            errors.append(str(error))
            failures |= error.failures
        lost = [job for job in todo if get(job) is None]
        failed |= {job.id for job in lost}
        if lost and not errors:
            labels = ", ".join(job.label for job in lost)
            errors.append(f"These jobs were reported as done, but are not in the store: {labels}.")
    if errors:
        raise RunsFailed("\n".join(errors), failures=failures)


def answers(names: Sequence[str], scope: Scope, store: Store) -> dict[str, Answer]:
    """Returns the answers for which the store has all runs."""
    get = Reader(store)
    by_name = {}
    for name in names:
        with contextlib.suppress(Missing):
            by_name[name] = find(name).answer(scope, get)
    return by_name
