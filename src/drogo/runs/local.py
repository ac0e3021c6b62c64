"""The local engine: worker processes on this machine.

Each worker runs one job at a time in one thread: the programs are small, and two of them side by
side use two cores better than one that uses both.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drogo.errors import ArgumentError, RunsFailed
from drogo.runs.job import Failure, Job, raise_failures
from drogo.runs.store import Store

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
        if self.workers < 0:
            raise ArgumentError(f"workers is {self.workers}; it must be 0 or more.")
        sweep = _Sweep(jobs, store, listen)
        try:
            sweep.start(min(self.workers or os.cpu_count() or 1, len(jobs)))
            while sweep.unfinished:
                sweep.handle(*sweep.events.get())
        finally:
            sweep.stop()
        raise_failures(sweep.failures, len(jobs))


class _Sweep:
    """The jobs and the workers of one call of `LocalEngine.run`."""

    def __init__(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        # The longest first, so that nobody waits for a single long job at the end.
        self.waiting = deque(sorted(jobs, key=lambda job: -job.seconds))
        self.unfinished = len(jobs)
        self.attempts: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.workers: dict[int, _Worker] = {}
        self.events: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
        self.store, self.listen = store, listen

    def start(self, count: int) -> None:
        for number in range(count):
            self.workers[number] = _Worker(number, self.events)

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()

    def handle(self, number: int, event: dict[str, Any]) -> None:
        """Reacts to what a worker reports, or to its end."""
        worker, kind = self.workers[number], event["event"]
        job = worker.job
        if kind == "progress" and job is not None:
            self.listen(job, kind, event["fraction"])
            return
        if kind == "ended":
            self._retry(job, event)
            worker.stop()
            self.workers[number] = _Worker(number, self.events)
            return
        if kind == "busy" and job is not None:  # another process is running the same job
            self.attempts[job.id] -= 1
            self.waiting.append(job)
        elif kind == "failed" and job is not None:
            self._fail(Failure(job, event["error"], event["trace"]))
        elif kind == "done" and job is not None:
            self.unfinished -= 1
            self.listen(job, kind, event["duration"])
        worker.job = None
        if self.waiting:
            job = self.waiting.popleft()
            self.attempts[job.id] += 1
            worker.send(job, self.store)

    def _retry(self, job: Job | None, event: dict[str, Any]) -> None:
        """The worker has ended, and the job with it."""
        if job is None:
            if not event["started"]:
                raise RunsFailed("A worker process ended before it was ready; it printed why.")
        elif self.attempts[job.id] < MOST_ATTEMPTS:
            self.listen(job, "retried", 0.0)
            self.waiting.appendleft(job)
        else:
            self._fail(Failure(job, f"its process died {MOST_ATTEMPTS} times"))

    def _fail(self, failure: Failure) -> None:
        self.unfinished -= 1
        self.failures.append(failure)
        self.listen(failure.job, "failed", 0.0)


class _Worker:
    """A worker process, and the thread that passes on what it reports."""

    def __init__(self, number: int, events: queue.Queue) -> None:
        # Like multiprocessing: the same modules are found in the worker as in this process.
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "drogo.runs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        )
        self.thread = threading.Thread(target=self._read, args=(number, events), daemon=True)
        self.thread.start()
        self.job: Job | None = None

    def send(self, job: Job, store: Store) -> None:
        self.job = job
        request = {"id": job.id, "job": job.as_json(), "store": str(store.path.resolve())}
        assert self.process.stdin is not None
        # If the process has died, an event says so.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.thread.join()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def _read(self, number: int, events: queue.Queue) -> None:
        started = False
        assert self.process.stdout is not None
        try:
            with self.process.stdout as lines:
                for line in lines:
                    events.put((number, json.loads(line)))
                    started = True
        except (ValueError, OSError):  # it was killed in the middle of a line
            self.process.kill()
        finally:
            events.put((number, {"event": "ended", "started": started}))
