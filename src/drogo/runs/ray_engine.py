"""The Ray engine: the same jobs on a cluster (`pip install "drogo[ray]"`).

Workers send results back, and the process that asked keeps them, so that nodes need no common
disk. Short runs travel in packs. A task whose node is lost is tried again by Ray.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drogo.errors import ArgumentError, RunsFailed
from drogo.runs.job import Job, Outcome, Report, check_id, perform
from drogo.runs.local import ONE_THREAD, Failure, Listener
from drogo.runs.store import Store

PACK_SECONDS = 60.0
"""Runs that are shorter together than this share a task."""
SECONDS_BETWEEN_REPORTS, SECONDS_BETWEEN_READINGS = 0.5, 1.0
RETRIES = 5
"""Of a task whose node or process is lost."""


@dataclass(frozen=True)
class RayEngine:
    """`address="auto"` joins the cluster that this machine is part of; None starts a new one."""

    address: str | None = None

    def run(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ArgumentError('the Ray engine needs Ray: pip install "drogo[ray]".') from error
        started = not ray.is_initialized()
        if started:
            try:
                ray.init(
                    address=self.address or "local", log_to_driver=False, configure_logging=False
                )
            except ConnectionError as error:
                raise ArgumentError(
                    f"there is no Ray cluster at {self.address!r}: {error} Start one with "
                    "`ray start --head`, or leave --address out."
                ) from error
        try:
            self._run(ray, jobs, store, listen)
        finally:
            if started:
                ray.shutdown()

    def _run(self, ray: Any, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        remote = ray.remote(num_cpus=1, max_retries=RETRIES, runtime_env={"env_vars": ONE_THREAD})(
            perform_pack
        )
        board = ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
        known = {job.id: job for job in jobs}
        waiting = {}
        for pack in packs(jobs):
            waiting[remote.remote([(job.id, job.as_json()) for job in pack], board)] = pack
        failures: list[Failure] = []
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=SECONDS_BETWEEN_READINGS)
            if not done:
                open_ids = {job.id for pack in waiting.values() for job in pack}
                for job_id, share in _read(ray, board).items():
                    if job_id in open_ids:  # the last word of one that is done may come late
                        listen(known[job_id], "progress", share)
                continue
            ready = done[0]
            pack = waiting.pop(ready)
            try:
                results = ray.get(ready)
            except ray.exceptions.RayError as error:
                for job in pack:
                    failures.append(Failure(job, f"{type(error).__name__}: {error}"))
                    listen(job, "failed", 0.0)
                continue
            for job, result in zip(pack, results, strict=True):
                if "error" in result:
                    failures.append(Failure(job, result["error"], result["trace"]))
                    listen(job, "failed", 0.0)
                    continue
                outcome = Outcome(result["arrays"], result["facts"])
                try:
                    with store.claim(job):  # so that nobody takes what is half written for left
                        store.put(job, outcome, result["how"])
                except (OSError, ValueError) as error:
                    failures.append(Failure(job, f"{type(error).__name__}: {error}"))
                    listen(job, "failed", 0.0)
                    continue
                listen(job, "done", result["how"]["duration"])
        if failures:
            told = "\n".join(f"{f.job.label}: {f.error}" for f in failures)
            raise RunsFailed(f"{len(failures)} of {len(jobs)} runs failed:\n{told}")


def packs(jobs: Sequence[Job], seconds: float = PACK_SECONDS) -> list[list[Job]]:
    """Long runs alone, short ones together; the longest first."""
    made: list[list[Job]] = []
    room = 0.0
    for job in sorted(jobs, key=lambda job: -job.seconds):
        if made and job.seconds <= room:
            made[-1].append(job)
            room -= job.seconds
        else:
            made.append([job])
            room = seconds - job.seconds
    return made


class Board:
    """An actor on which workers write how far they are, and the process that asked reads it."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}

    def tell(self, job_id: str, share: float) -> None:
        self.shares[job_id] = share

    def read(self) -> dict[str, float]:
        """What is new."""
        shares, self.shares = self.shares, {}
        return shares


def _read(ray: Any, board: Any) -> dict[str, float]:
    """Progress is a courtesy: a board that is lost with its node says nothing until it is back."""
    try:
        return ray.get(board.read.remote(), timeout=SECONDS_BETWEEN_READINGS)
    except (ray.exceptions.RayError, TimeoutError):
        return {}


def _reporter(board: Any, job: Job) -> Report:
    last = 0.0

    def report(share: float) -> None:
        nonlocal last
        if board is not None and time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            board.tell.remote(job.id, float(share))

    return report


def perform_pack(pack: list[tuple[str, dict[str, Any]]], board: Any = None) -> list[dict[str, Any]]:
    """On a worker: one run after another; an error in one leaves the others alone."""
    results = []
    for asked, told in pack:
        job = Job(**told)
        with tempfile.TemporaryDirectory() as scratch:
            try:
                check_id(job, asked)
                outcome, how = perform(job, Path(scratch), _reporter(board, job))
                results.append(
                    {"arrays": dict(outcome.arrays), "facts": dict(outcome.facts), "how": how}
                )
            except Exception as error:
                named = f"{type(error).__name__}: {error}"
                results.append({"error": named, "trace": traceback.format_exc()})
    return results
