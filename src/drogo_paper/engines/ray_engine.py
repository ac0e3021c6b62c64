"""The Ray engine (extra `ray`): workers send their results back, so nodes need no common disk."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from drogo.errors import ArgumentError, DrogoError, import_extra
from drogo_paper.engines.job import Job, Outcome, name_error, perform, raise_failures
from drogo_paper.engines.local import ONE_THREAD, Listener
from drogo_paper.engines.store import Store

SECONDS_BETWEEN_READINGS = 1.0
RETRIES = 5


@dataclass(frozen=True)
class RayEngine:
    """Runs jobs on a Ray cluster.

    Args:
        address: The address of the cluster. "auto" is the one that this machine is part of; None
            starts a new one on this machine.
    """

    address: str | None = None

    def run(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        """Runs jobs as `LocalEngine.run` does. Every node must find their functions."""
        ray = import_extra("ray", "Ray", extra="ray")
        started = not ray.is_initialized()
        if started:
            try:
                address = self.address or "local"
                ray.init(address=address, log_to_driver=False, configure_logging=False)
            except ConnectionError as error:
                problem = f"There is no Ray cluster at {self.address!r}: {error}"
                remedy = "Start one with `ray start --head`, or leave the address out."
                raise ArgumentError(problem, remedy=remedy, argument="address") from error
        try:
            raise_failures(_run(ray, jobs, store, listen), len(jobs))
        finally:
            if started:
                ray.shutdown()


def _run(ray: Any, jobs: Sequence[Job], store: Store, listen: Listener) -> dict[str, str]:
    """Runs jobs and returns the errors of those that failed, by label."""
    options = {"num_cpus": 1, "max_retries": RETRIES, "runtime_env": {"env_vars": ONE_THREAD}}
    task = ray.remote(**options)(_perform)
    board = ray.remote(num_cpus=0, max_restarts=-1)(_Board).remote()
    running = {task.remote(job, board): job for job in sorted(jobs, key=lambda j: -j.seconds)}
    failures: dict[str, str] = {}
    while running:
        ready, _ = ray.wait(list(running), num_returns=1, timeout=SECONDS_BETWEEN_READINGS)
        unfinished = {job.id: job for job in running.values()}
        try:
            progress = ray.get(board.read.remote(), timeout=SECONDS_BETWEEN_READINGS)
        except (ray.exceptions.RayError, TimeoutError):  # the node of the board may be lost
            progress = {}
        for job_id, fraction in progress.items():
            if job_id in unfinished:  # the last report of a finished job may come late
                listen(unfinished[job_id], "progress", fraction)
        if not ready:
            continue
        job = running.pop(ready[0])
        try:
            result: Any = ray.get(ready[0])
            if not isinstance(result, str):
                with store.claim(job):  # so that `Store.clean` of another process keeps it
                    store.put(job, *result)
        except (ray.exceptions.RayError, DrogoError) as error:
            result = name_error(error)
        if isinstance(result, str):
            failures[job.label] = result
            listen(job, "failed", 0.0)
        else:
            listen(job, "done", result[1]["duration"])
    return failures


class _Board:
    """An actor to which workers write their progress, and from which the driver reads it."""

    def __init__(self) -> None:
        self.fractions: dict[str, float] = {}

    def write(self, job_id: str, fraction: float) -> None:
        self.fractions[job_id] = fraction

    def read(self) -> dict[str, float]:
        """Returns the fractions since the last call."""
        fractions, self.fractions = self.fractions, {}
        return fractions


def _perform(job: Job, board: Any) -> tuple[Outcome, dict[str, Any]] | str:
    """Runs a job on a node and returns its result, or its error as text."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            return perform(job, Path(scratch), partial(board.write.remote, job.id))
        except BaseException as error:  # also if the job calls sys.exit
            if hasattr(error, "ray_terminate_msg"):  # Ray ends this process, not the job
                raise
            return name_error(error)
