"""The local engine: worker processes, which put finished runs into the store themselves, so that
they are kept if the parent is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from drogo.errors import check_whole
from drogo.progress import SWITCH, print_warning
from drogo_paper.engines.job import Job, RunsFailed, name_error, perform, raise_failures
from drogo_paper.engines.store import Store

STDERR = 2
PROGRAM = "import sys; from drogo_paper.engines.local import work; work(int(sys.argv[1]))"
MOST_ATTEMPTS = 3
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    SWITCH: "0",
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
            store: The store that keeps the outcomes.
            listen: Called with the events of the jobs.

        Raises:
            RunsFailed: Some jobs failed. It is raised when all others are done.
        """
        check_whole("workers", self.workers, 0)
        count = min(self.workers or os.cpu_count() or 1, len(jobs))
        raise_failures(_run(jobs, store, listen, count), len(jobs))


def _run(jobs: Sequence[Job], store: Store, listen: Listener, count: int) -> dict[str, str]:
    """Runs jobs in some workers and returns the errors of those that failed, by label."""
    # The longest first, so that at the end no worker waits for a single long job.
    waiting = deque(sorted(jobs, key=lambda job: -job.seconds))
    attempts: Counter[str] = Counter()
    failures: dict[str, str] = {}
    workers: list[Worker] = []

    def note(job: Job, event: str, value: Any) -> None:
        if event in ("progress", "done"):
            listen(job, event, value)
        elif event == "busy":  # another process is running the same job
            attempts[job.id] -= 1
            waiting.append(job)
        elif event == "ended" and attempts[job.id] < MOST_ATTEMPTS:
            listen(job, "retried", 0.0)
            waiting.appendleft(job)
        else:
            failures[job.label] = value
            listen(job, "failed", 0.0)

    try:
        workers.extend(Worker() for _ in range(count))
        while waiting or any(worker.job for worker in workers):
            ready = wait([worker.connection for worker in workers])
            for k, worker in enumerate(workers):
                if worker.connection not in ready:
                    continue
                event, value = worker.receive()
                if worker.job is not None:
                    note(worker.job, event, value)
                elif event == "ended" and not worker.started:
                    raise RunsFailed("A worker process ended before it was ready; it printed why.")
                if event == "progress":
                    continue
                worker.job = None
                if event == "ended":
                    worker.stop()
                    workers[k] = Worker()
                elif waiting:
                    job = waiting.popleft()
                    attempts[job.id] += 1
                    worker.send(job, store)
    finally:
        for worker in workers:
            worker.stop()
    return failures


class Worker:
    """A worker process and the connection to it."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.started = False
        self.connection, theirs = Pipe()
        # Like multiprocessing: the same modules are found in the worker as in this process.
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        # The worker inherits the mask, so that it never sees Ctrl-C, not even while it loads.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def send(self, job: Job, store: Store) -> None:
        self.job = job
        with contextlib.suppress(OSError):  # if the process has died, `receive` returns "ended"
            self.connection.send((job, store.path.resolve()))

    def receive(self) -> tuple[str, Any]:
        """Returns the next event: its name, and a number or the text of an error."""
        try:
            event = self.connection.recv()
        except (EOFError, OSError):  # the process may have died in the middle of an event
            return "ended", f"its process died {MOST_ATTEMPTS} times"
        self.started = True
        return event

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


def work(descriptor: int) -> None:
    """Runs the jobs that come over a connection in this process, until there are no more."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    connection, warnings.showwarning = Connection(descriptor), print_warning
    connection.send(("ready", 0.0))
    while True:
        try:
            job, path = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_perform(job, Store(path), connection))
        except BaseException as error:  # also SystemExit: the worker continues with the next job
            connection.send(("failed", name_error(error)))


def _perform(job: Job, store: Store, connection: Connection) -> tuple[str, float]:
    """Returns "done" and the duration, or "busy" if another process is running the job."""
    with store.claim(job) as is_ours:
        if not is_ours:
            time.sleep(0.5)  # so that this process takes another job first
            return "busy", 0.0
        if store.has(job):  # another process has finished it in the meantime
            return "done", 0.0
        scratch = store.scratch(job)
        scratch.mkdir(parents=True, exist_ok=True)
        outcome, how = perform(job, scratch, lambda done: connection.send(("progress", done)))
        store.put(job, outcome, how)
        return "done", how["duration"]


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
