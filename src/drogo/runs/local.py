"""The local engine: worker processes on this machine.

Each worker runs one job at a time in one thread: the programs are small, and two of them side by
side use two cores better than one that uses both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

from drogo.errors import RunsFailed, check_whole
from drogo.runs.job import Job, raise_failures
from drogo.runs.store import Store

STDERR = 2
"""What a job prints goes where errors go."""
MOST_ATTEMPTS = 3
"""How often a job is started whose worker process dies, for example for lack of memory."""

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Environment variables of a worker. All engines use the same, so that their numbers agree."""

Listener = Callable[[Job, str, float], None]
"""Called with a job, an event ("progress", "done", "failed" or "retried") and a number: the
fraction that is done, or seconds."""


@dataclass(frozen=True)
class LocalEngine:
    """Runs jobs in processes on this machine.

    Args:
        workers: The number of processes; 0 means one for each core.
    """

    workers: int = 0

    def run(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        """Runs jobs and keeps their outcomes.

        Args:
            jobs: The jobs. They find their functions on this process's `sys.path`.
            store: Where the outcomes are kept.
            listen: Called with the events of the jobs.

        Raises:
            RunsFailed: Some jobs failed. It is raised when all others are done.
        """
        check_whole("workers", self.workers, 0)
        sweep = _Sweep(jobs, store, listen)
        sweep.run(min(self.workers or os.cpu_count() or 1, len(jobs)))
        raise_failures(sweep.failures, len(jobs))


class _Sweep:
    """The jobs and the workers of one call of `LocalEngine.run`."""

    def __init__(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        # The longest first, so that nobody waits for a single long job at the end.
        self.waiting = deque(sorted(jobs, key=lambda job: -job.seconds))
        self.attempts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.workers: list[_Worker] = []
        self.store, self.listen = store, listen

    def run(self, count: int) -> None:
        try:
            for _ in range(count):
                self.workers.append(_Worker())
            while self.waiting or any(worker.job for worker in self.workers):
                ready = wait([worker.connection for worker in self.workers])
                for worker in list(self.workers):
                    if worker.connection in ready:
                        self._handle(worker)
        finally:
            for worker in self.workers:
                worker.stop()

    def _handle(self, worker: _Worker) -> None:
        """Reacts to what a worker reports, or to its end."""
        event, value = worker.receive()
        if worker.job is not None:
            self._note(worker.job, event, value)
        elif event == "ended" and not worker.started:
            raise RunsFailed("A worker process ended before it was ready; it printed why.")
        if event == "progress":
            return
        worker.job = None
        if event == "ended":
            worker.stop()
            self.workers[self.workers.index(worker)] = _Worker()
        elif self.waiting:
            job = self.waiting.popleft()
            self.attempts[job.id] += 1
            worker.send(job, self.store)

    def _note(self, job: Job, event: str, value: Any) -> None:
        """Keeps account of a job of which a worker reports something."""
        if event in ("progress", "done"):
            self.listen(job, event, value)
        elif event == "busy":  # another process is running the same job
            self.attempts[job.id] -= 1
            self.waiting.append(job)
        elif event == "ended" and self.attempts[job.id] < MOST_ATTEMPTS:
            self.listen(job, "retried", 0.0)
            self.waiting.appendleft(job)
        else:
            self.failures.append(f"{job.label}: {value}")
            self.listen(job, "failed", 0.0)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started in this context never see Ctrl-C, not even while they load.

    This process sees it when the context ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """A worker process and the connection to it."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.started = False
        self.connection, theirs = Pipe()
        # Like multiprocessing: the same modules are found in the worker as in this process.
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        with theirs, _without_interrupts():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "drogo.runs.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            )

    def send(self, job: Job, store: Store) -> None:
        self.job = job
        with contextlib.suppress(OSError):  # if the process has died, an event says so
            self.connection.send((job, store.path.resolve()))

    def receive(self) -> tuple[str, Any]:
        """Returns the next event: its name, and a number or, of an error, its text."""
        try:
            event = self.connection.recv()
        except (EOFError, OSError):  # it may have been killed in the middle of an event
            return "ended", f"its process died {MOST_ATTEMPTS} times"
        self.started = True
        return event

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()
