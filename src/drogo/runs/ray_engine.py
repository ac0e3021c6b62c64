"""The Ray engine: the same jobs on a cluster (extra `ray`).

Workers send their results back and the process that asked keeps them, so that the nodes need no
common disk. Short jobs are sent together. Ray retries a task whose node is lost.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drogo.errors import ArgumentError, DrogoError, MissingPackage
from drogo.runs.job import Failure, Job, Outcome, Report, check_id, perform, raise_failures
from drogo.runs.local import ONE_THREAD, Listener
from drogo.runs.store import Store

PACK_SECONDS = 60.0
"""Jobs that together take less than this share a task."""
SECONDS_BETWEEN_REPORTS, SECONDS_BETWEEN_READINGS = 0.5, 1.0
RETRIES = 5
"""How often Ray retries a task whose node or process is lost."""


@dataclass(frozen=True)
class RayEngine:
    """Runs jobs on a Ray cluster.

    Args:
        address: The address of the cluster. "auto" is the one that this machine is part of; None
            starts a new one on this machine.
    """

    address: str | None = None

    def run(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        """Runs jobs and keeps their outcomes.

        Args:
            jobs: The jobs, whose functions every node can import.
            store: Where the outcomes are kept, on this machine.
            listen: Called with the events of the jobs.

        Raises:
            RunsFailed: Some jobs failed. It is raised when all others are done.
        """
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingPackage(
                "Ray is not installed. Install drogo with its extra 'ray'."
            ) from error
        started = not ray.is_initialized()
        if started:
            try:
                ray.init(
                    address=self.address or "local", log_to_driver=False, configure_logging=False
                )
            except ConnectionError as error:
                raise ArgumentError(
                    f"There is no Ray cluster at {self.address!r}: {error} Start one with "
                    "`ray start --head`, or leave the address out."
                ) from error
        try:
            raise_failures(_run(ray, jobs, store, listen), len(jobs))
        finally:
            if started:
                ray.shutdown()


def _run(ray: Any, jobs: Sequence[Job], store: Store, listen: Listener) -> list[Failure]:
    task = ray.remote(num_cpus=1, max_retries=RETRIES, runtime_env={"env_vars": ONE_THREAD})(
        perform_pack
    )
    board = ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
    known = {job.id: job for job in jobs}
    running = {
        task.remote([(job.id, job.as_json()) for job in pack], board): pack for pack in packs(jobs)
    }
    failures: list[Failure] = []
    while running:
        ready, _ = ray.wait(list(running), num_returns=1, timeout=SECONDS_BETWEEN_READINGS)
        unfinished = {job.id for pack in running.values() for job in pack}
        for job_id, fraction in _read(ray, board).items():
            if job_id in unfinished:  # the last report of a finished job may come late
                listen(known[job_id], "progress", fraction)
        if not ready:
            continue
        pack = running.pop(ready[0])
        results: list[dict[str, Any]]
        try:
            results = ray.get(ready[0])
        except ray.exceptions.RayError as error:
            results = [{"error": f"{type(error).__name__}: {error}", "trace": ""}] * len(pack)
        for job, result in zip(pack, results, strict=True):
            failure = _keep(job, result, store)
            if failure is not None:
                failures.append(failure)
                listen(job, "failed", 0.0)
            else:
                listen(job, "done", result["how"]["duration"])
    return failures


def _keep(job: Job, result: dict[str, Any], store: Store) -> Failure | None:
    if "error" in result:
        return Failure(job, result["error"], result["trace"])
    try:
        with store.claim(job):  # so that `Store.clean` of another process does not remove it
            store.put(job, Outcome(result["arrays"], result["facts"]), result["how"])
    except DrogoError as error:
        return Failure(job, f"{type(error).__name__}: {error}")
    return None


def packs(jobs: Sequence[Job], seconds: float = PACK_SECONDS) -> list[list[Job]]:
    """Groups jobs: long ones alone and short ones together, the longest first."""
    groups: list[list[Job]] = []
    left = 0.0
    for job in sorted(jobs, key=lambda job: -job.seconds):
        if groups and job.seconds <= left:
            groups[-1].append(job)
            left -= job.seconds
        else:
            groups.append([job])
            left = seconds - job.seconds
    return groups


class Board:
    """An actor to which workers write their progress, and from which the driver reads it."""

    def __init__(self) -> None:
        self.fractions: dict[str, float] = {}

    def write(self, job_id: str, fraction: float) -> None:
        self.fractions[job_id] = fraction

    def read(self) -> dict[str, float]:
        """Returns what is new."""
        fractions, self.fractions = self.fractions, {}
        return fractions


def _read(ray: Any, board: Any) -> dict[str, float]:
    """The progress that is new. It is not essential: a board whose node is lost reports none."""
    try:
        return ray.get(board.read.remote(), timeout=SECONDS_BETWEEN_READINGS)
    except (ray.exceptions.RayError, TimeoutError):
        return {}


def _reporter(board: Any, job: Job) -> Report:
    last = 0.0

    def report(fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            board.write.remote(job.id, float(fraction))

    return report


def perform_pack(pack: list[tuple[str, dict[str, Any]]], board: Any) -> list[dict[str, Any]]:
    """Runs jobs one after another on a node; an error in one does not affect the others."""
    results = []
    for expected, arguments in pack:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                job = Job(**arguments)
                check_id(job, expected)
                outcome, how = perform(job, Path(scratch), _reporter(board, job))
                results.append(
                    {"arrays": dict(outcome.arrays), "facts": dict(outcome.facts), "how": how}
                )
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                results.append({"error": text, "trace": traceback.format_exc()})
    return results
