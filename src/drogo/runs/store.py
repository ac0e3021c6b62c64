"""`Store`: finished runs on disk, one directory each.

    STORE/<id>/request.json    what was asked for
    STORE/<id>/arrays.npz      the arrays of the outcome
    STORE/<id>/status.json     its facts, duration, versions, and digests of the other two files
    STORE/.locks/<id>          locked by the process that is running the job
    STORE/.scratch/<id>/       checkpoints of a run that is under way

A run is written beside its place and renamed into it, so a run that is in place is complete. Locks
are those of the operating system: a killed process holds none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drogo import files
from drogo.errors import DamagedFile, DrogoError, FileError
from drogo.requests import as_bytes, differences, digest
from drogo.runs.job import Job, Outcome

REQUEST, ARRAYS, STATUS = "request.json", "arrays.npz", "status.json"
LOCKS = ".locks"


@dataclass(frozen=True, kw_only=True)
class Record(Outcome):
    """A finished run: its outcome, and how it came about.

    Args:
        status: Label, duration, machine and versions.
        path: Its directory.
    """

    status: Mapping[str, Any]
    path: Path


class Store:
    """Finished runs in a directory, which is made if it does not exist.

    Several processes may use the same store at the same time.

    Args:
        path: The directory.

    Attributes:
        damage: What `get` found to be damaged, a sentence each.
    """

    damage: list[str]

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.damage = []
        try:
            (self.path / LOCKS).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise FileError(
                f"Runs cannot be kept in {self.path}: {error.strerror}. Choose another directory."
            ) from error

    def place(self, job: Job) -> Path:
        """Returns the directory of a job's run, whether it exists or not."""
        return self.path / job.id

    def scratch(self, job: Job) -> Path:
        """Returns the directory for the checkpoints of a job, which its next attempt finds."""
        return self.path / ".scratch" / job.id

    def has(self, job: Job) -> bool:
        """Says whether there is a finished and undamaged run of a job."""
        return self.get(job) is not None

    def get(self, job: Job) -> Record | None:
        """Returns the finished run of a job, or None.

        A run that is damaged, or belongs to another job, is moved out of the way with a message.
        """
        place = self.place(job)
        if not place.is_dir():
            return None
        try:
            return _read(place, job)
        except files.READING_FAILED as error:
            problem = f"{place} is damaged: {type(error).__name__} {error}."
            if isinstance(error, DrogoError):  # which names the file
                problem = str(error)
        aside = place.with_name(f"{place.name}.damaged-{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):  # another process was first
            place.rename(aside)
        self.damage.append(f"{problem} It was moved to {aside.name}.")
        print(f"drogo: {self.damage[-1]}", file=sys.stderr)
        return None

    def put(self, job: Job, outcome: Outcome, how: Mapping[str, Any]) -> None:
        """Keeps the outcome of a job. A run that is already there stays as it is.

        Args:
            job: The job.
            outcome: What it returned.
            how: Duration, machine and versions, from `perform`.
        """
        if self.place(job).is_dir():
            return
        contents = _contents(job, outcome, how)
        part = self.path / f".{job.id}.{secrets.token_hex(4)}.part"
        try:
            part.mkdir()
            for name, content in contents.items():
                files.write_new_file(part / name, content)
            part.rename(self.place(job))
        except OSError as error:
            if not self.place(job).is_dir():  # otherwise another process was first
                raise FileError(
                    f"The run of {job.label!r} could not be kept in {self.path}: {error.strerror}. "
                    "Earlier runs are unharmed. Solve this and start the same command again."
                ) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(self.scratch(job), ignore_errors=True)

    def claim(self, job: Job) -> contextlib.AbstractContextManager[bool]:
        """Locks a job; the context is False if another process has locked it.

        Args:
            job: The job.
        """
        return files.lock(self.path / LOCKS / job.id)

    def clean(self) -> int:
        """Removes what killed processes left half written, and returns how many runs that were."""
        removed = 0
        for part in self.path.glob(".*.part"):
            with files.lock(self.path / LOCKS / part.name.split(".")[1]) as is_ours:
                if is_ours:  # otherwise it is being written
                    shutil.rmtree(part, ignore_errors=True)
                    removed += 1
        return removed


def _contents(job: Job, outcome: Outcome, how: Mapping[str, Any]) -> dict[str, bytes]:
    """The content of a run's files. The status has digests of the others and of itself."""
    others = {REQUEST: as_bytes(job.request), ARRAYS: files.bytes_of_arrays(outcome.arrays)}
    status = {
        "label": job.label,
        **how,
        "facts": dict(outcome.facts),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in others.items()},
    }
    return {**others, STATUS: as_bytes({**status, "self": digest(status)})}


def _read(place: Path, job: Job) -> Record:
    status = files.read_json(place / STATUS)
    if status.pop("self", None) != digest(status):
        raise DamagedFile(f"{place / STATUS} is damaged: its digest is another one.")
    contents = {name: files.read_file(place / name) for name in (REQUEST, ARRAYS)}
    for name, content in contents.items():
        if status["sha256"][name] != hashlib.sha256(content).hexdigest():
            raise DamagedFile(f"{place / name} is damaged: it is not what was written.")
    differing = differences(json.loads(contents[REQUEST]), job.request)
    if differing:
        raise DamagedFile(
            f"{place} holds the run of another job, which differs in {', '.join(differing)}."
        )
    arrays = files.arrays_of_bytes(contents[ARRAYS])
    return Record(arrays, status["facts"], status=status, path=place)
