"""The local engine: as many worker processes as there are cores, one run at a time each.

One thread to a process: the programs are small, and two of them side by side get more out of two
cores than one that uses both.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drogo.errors import ArgumentError, RunsFailed
from drogo.runs.job import Job
from drogo.runs.store import Store

MOST_TRIES = 3
"""Of a run whose worker dies under it (out of memory, killed)."""

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Environment of a worker. The same in every engine, so that they give the same numbers."""

Listener = Callable[[Job, str, float], None]
"""Called with a job, what became of it (progress, done, failed, retried) and a number: the share
done, or seconds."""


@dataclass
class Worker:
    process: subprocess.Popen
    listener: threading.Thread
    job: Job | None = None

    def dismiss(self) -> None:
        self.process.kill()
        self.process.wait()
        self.listener.join()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


@dataclass
class Failure:
    job: Job
    error: str
    trace: str = ""


@dataclass
class LocalEngine:
    """Runs jobs in processes of their own."""

    workers: int = 0
    """0: one for each core."""

    def run(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        """Do all of them; `RunsFailed` at the end if some could not be done."""
        if self.workers < 0:
            raise ArgumentError(f"workers is {self.workers}; 0 is one for each core.")
        count = min(self.workers or os.cpu_count() or 1, len(jobs))
        # The longest first, so that the end is not spent waiting for one of them.
        waiting = sorted(jobs, key=lambda job: -job.seconds)
        tries: dict[str, int] = {}
        failures: list[Failure] = []
        active: dict[int, Worker] = {}
        # Of this call alone: what dismissed workers leave in it must not reach the next.
        events: queue.Queue = queue.Queue()
        try:
            for number in range(count):
                active[number] = _hire(number, events)
            open_jobs = len(jobs)
            while open_jobs:
                number, event = events.get()
                worker = active.get(number)
                if worker is None:
                    continue
                kind = event["event"]
                if kind == "progress" and worker.job is not None:
                    listen(worker.job, "progress", event["share"])
                    continue
                if kind == "gone":
                    job = worker.job
                    if job is not None and tries[job.id] < MOST_TRIES:
                        listen(job, "retried", 0.0)
                        waiting.insert(0, job)
                    elif job is not None:
                        failures.append(Failure(job, f"its process died {MOST_TRIES} times"))
                        listen(job, "failed", 0.0)
                        open_jobs -= 1
                    elif event["silent"]:
                        raise RuntimeError("a worker process ended before it began.")
                    worker.dismiss()
                    active[number] = _hire(number, events)
                    continue
                if kind == "busy" and worker.job is not None:  # another process has it
                    job, worker.job = worker.job, None
                    tries[job.id] -= 1
                    waiting.append(job)
                elif kind in ("done", "failed") and worker.job is not None:
                    job, worker.job = worker.job, None
                    open_jobs -= 1
                    if kind == "failed":
                        failures.append(Failure(job, event["error"], event["trace"]))
                    listen(job, kind, event.get("duration", 0.0))
                if waiting:
                    job = waiting.pop(0)
                    tries[job.id] = tries.get(job.id, 0) + 1
                    worker.job = job
                    asked = {"id": job.id, "job": job.as_json(), "store": str(store.path)}
                    assert worker.process.stdin is not None
                    try:
                        worker.process.stdin.write(json.dumps(asked) + "\n")
                        worker.process.stdin.flush()
                    except BrokenPipeError:
                        pass  # its end is on the way as an event
        finally:
            for worker in active.values():
                worker.dismiss()
        if failures:
            told = "\n".join(f"{f.job.label}: {f.error}" for f in failures)
            raise RunsFailed(f"{len(failures)} of {len(jobs)} runs failed:\n{told}")


def _hire(number: int, events: queue.Queue) -> Worker:
    process = subprocess.Popen(
        [sys.executable, "-m", "drogo.runs.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ONE_THREAD},
    )
    listener = threading.Thread(target=_listen, args=(number, process, events), daemon=True)
    listener.start()
    return Worker(process, listener)


def _listen(number: int, process: subprocess.Popen, events: queue.Queue) -> None:
    """Pass on what a worker tells, and at last that it is gone."""
    assert process.stdout is not None
    silent = True
    try:
        with process.stdout as lines:
            for line in lines:
                event: dict[str, Any] = json.loads(line)
                silent = False
                events.put((number, event))
    except (ValueError, OSError):  # half a line: it was killed while it wrote
        process.kill()
    finally:
        events.put((number, {"event": "gone", "silent": silent}))
