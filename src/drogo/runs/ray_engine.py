"""The Ray engine: the same jobs on a cluster (extra `ray`).

Workers send their results back and the process that asked keeps them, so that the nodes need no
common disk. Short jobs are sent together. Ray retries a task whose node is lost.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from drogo.errors import ArgumentError, DrogoError, import_extra
from drogo.runs.job import Job, Outcome, name_error, perform, raise_failures
from drogo.runs.local import ONE_THREAD, Listener
from drogo.runs.store import Store

PACK_SECONDS = 60.0
"""Jobs that together take less than this share a task."""
SECONDS_BETWEEN_READINGS = 1.0
RETRIES = 5
"""How often Ray retries a task whose node or process is lost."""

Result = tuple[Outcome, dict[str, Any]] | str
"""What `perform` returns, or the error that it raised."""


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
        ray = import_extra("ray", "Ray", extra="ray")
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


def _run(ray: Any, jobs: Sequence[Job], store: Store, listen: Listener) -> list[str]:
    task = ray.remote(num_cpus=1, max_retries=RETRIES, runtime_env={"env_vars": ONE_THREAD})(
        perform_pack
    )
    board = ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
    running = {task.remote(pack, board): pack for pack in packs(jobs)}
    failures: list[str] = []
    while running:
        ready, _ = ray.wait(list(running), num_returns=1, timeout=SECONDS_BETWEEN_READINGS)
        unfinished = {job.id: job for pack in running.values() for job in pack}
        for job_id, fraction in _read(ray, board).items():
            if job_id in unfinished:  # the last report of a finished job may come late
                listen(unfinished[job_id], "progress", fraction)
        if not ready:
            continue
        pack = running.pop(ready[0])
        results: list[Any]
        try:
            results = ray.get(ready[0])
        except ray.exceptions.RayError as error:
            if len(pack) > 1:  # which of them ends its process? Each alone will show it.
                running |= {task.remote([job], board): [job] for job in pack}
                continue
            results = [name_error(error)]
        for job, result in zip(pack, results, strict=True):
            problem = _keep(job, result, store)
            if problem is not None:
                failures.append(f"{job.label}: {problem}")
                listen(job, "failed", 0.0)
            else:
                listen(job, "done", result[1]["duration"])
    return failures


def _keep(job: Job, result: Result, store: Store) -> str | None:
    """Puts a run into the store. Returns the error of the run or of the store, if there is one."""
    if isinstance(result, str):
        return result
    try:
        with store.claim(job):  # so that `Store.clean` of another process does not remove it
            store.put(job, *result)
    except DrogoError as error:
        return name_error(error)
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


def perform_pack(pack: list[Job], board: Any) -> list[Result]:
    """Runs jobs one after another on a node; an error in one does not affect the others."""
    results: list[Result] = []
    for job in pack:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                report = partial(board.write.remote, job.id)
                results.append(perform(job.checked(), Path(scratch), report))
            except BaseException as error:  # also if the job calls sys.exit
                if hasattr(error, "ray_terminate_msg"):  # Ray ends this process, not the job
                    raise
                results.append(name_error(error))
    return results
