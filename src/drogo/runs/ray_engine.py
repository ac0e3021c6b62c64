"""The Ray engine: the same jobs on a cluster (`pip install "drogo[ray]"`).

Workers send results back, and the process that asked keeps them, so that nodes need no common
disk. Short runs travel in packs. A task whose node is lost is tried again by Ray.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drogo.runs.job import Job, Outcome, perform
from drogo.runs.local import ONE_THREAD, Failure, Listener, RunsFailed
from drogo.runs.store import Store

PACK_SECONDS = 60.0
"""Runs that are shorter together than this share a task."""
RETRIES = 5
"""Of a task whose node or process is lost."""


@dataclass(frozen=True)
class RayEngine:
    """`address="auto"` joins the cluster that this machine is part of; None starts one here."""

    address: str | None = None

    def run(self, jobs: Sequence[Job], store: Store, listen: Listener) -> None:
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ValueError('the Ray engine needs Ray: pip install "drogo[ray]".') from error
        started = not ray.is_initialized()
        if started:
            try:
                ray.init(address=self.address, log_to_driver=False, configure_logging=False)
            except ConnectionError as error:
                raise ValueError(
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
        waiting = {}
        for pack in packs(jobs):
            waiting[remote.remote([job.as_json() for job in pack])] = pack
        failures: list[Failure] = []
        while waiting:
            (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
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
                store.put(job, Outcome(result["arrays"], result["facts"]), result["how"])
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


def perform_pack(pack: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """On a worker: one run after another; an error in one leaves the others alone."""
    results = []
    for told in pack:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                outcome, how = perform(Job(**told), Path(scratch), lambda share: None)
                results.append(
                    {"arrays": dict(outcome.arrays), "facts": dict(outcome.facts), "how": how}
                )
            except Exception as error:
                named = f"{type(error).__name__}: {error}"
                results.append({"error": named, "trace": traceback.format_exc()})
    return results
