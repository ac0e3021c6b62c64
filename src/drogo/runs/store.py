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
import fcntl
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import ArgumentError, DamagedFile, FileError
from drogo.requests import differences
from drogo.runs.job import Job, Outcome

REQUEST, ARRAYS, STATUS = "request.json", "arrays.npz", "status.json"


@dataclass(frozen=True)
class Record:
    """A finished run.

    Args:
        arrays: The arrays of its outcome.
        facts: The facts of its outcome.
        status: Label, duration, machine and versions.
        path: Its directory.
    """

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    status: Mapping[str, Any]
    path: Path


class Store:
    """Finished runs in a directory, which is made if it does not exist.

    Several processes may use the same store at the same time.

    Args:
        path: The directory.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
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
        except DamagedFile as error:
            aside = _move_aside(place)
            print(f"drogo: {error} It was moved to {aside.name} and will be run again.",
                  file=sys.stderr)  # fmt: skip
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
        files = _files(job, outcome, how)
        part = None
        try:
            part = Path(tempfile.mkdtemp(prefix=f".{job.id}.", suffix=".part", dir=self.path))
            part.chmod(0o755)
            for name, content in files.items():
                with (part / name).open("wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
            part.rename(self.place(job))
        except OSError as error:
            if not self.place(job).is_dir():  # otherwise another process was first
                raise FileError(
                    f"The run of {job.label!r} could not be kept in {self.path}: {error.strerror}. "
                    "Earlier runs are unharmed. Solve this and start the same command again."
                ) from error
        finally:
            if part is not None:
                shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(self.scratch(job), ignore_errors=True)

    @contextlib.contextmanager
    def claim(self, job: Job) -> Iterator[bool]:
        """Locks a job; yields False if another process has locked it.

        Args:
            job: The job.
        """
        with self._lock_file(job.id) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError as error:
                raise FileError(
                    f"{self.path} is on a file system without locks ({error.strerror}). Choose "
                    "another directory."
                ) from error
            yield True

    def clean(self) -> int:
        """Removes what killed processes left half written, and returns how many runs that were."""
        removed = 0
        for part in self.path.glob(".*.part"):
            with self._lock_file(part.name.split(".")[1]) as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue  # it is being written
                shutil.rmtree(part, ignore_errors=True)
                removed += 1
        return removed

    def _lock_file(self, job_id: str) -> Any:
        lock = self.path / ".locks" / job_id
        lock.parent.mkdir(exist_ok=True)
        return lock.open("w")


def _files(job: Job, outcome: Outcome, how: Mapping[str, Any]) -> dict[str, bytes]:
    """The content of a run's files. The status has digests of the others and of itself."""
    for name, array in outcome.arrays.items():
        if array.dtype.hasobject:
            raise ArgumentError(f"The array {name!r} holds objects; only numbers can be kept.")
    arrays = io.BytesIO()
    np.savez_compressed(arrays, **outcome.arrays)  # pyright: ignore[reportArgumentType]
    request = json.dumps(job.request, indent=1, allow_nan=False).encode()
    files = {REQUEST: request, ARRAYS: arrays.getvalue()}
    status = {
        "label": job.label,
        **how,
        "facts": dict(outcome.facts),
        "sha256": {name: _sha256(content) for name, content in files.items()},
    }
    text = json.dumps(status, sort_keys=True, allow_nan=False)
    signed = {**json.loads(text), "self": _sha256(text.encode())}
    return {**files, STATUS: json.dumps(signed, indent=1).encode()}


def _read(place: Path, job: Job) -> Record:
    try:
        status = json.loads((place / STATUS).read_bytes())
        signature = status.pop("self")
        if signature != _sha256(json.dumps(status, sort_keys=True).encode()):
            raise ValueError("its digest is another one")
        contents = {name: (place / name).read_bytes() for name in (REQUEST, ARRAYS)}
        changed = [name for name in contents if status["sha256"][name] != _sha256(contents[name])]
    except OSError as error:
        raise DamagedFile(f"{error.filename} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{place / STATUS} is damaged: {error}.") from error
    if changed:
        raise DamagedFile(f"{place / changed[0]} is damaged: it is not what was written.")
    differing = differences(json.loads(contents[REQUEST]), job.request)
    if differing:
        raise DamagedFile(
            f"{place} holds the run of another job, which differs in {', '.join(differing)}."
        )
    with np.load(io.BytesIO(contents[ARRAYS]), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return Record(arrays, status["facts"], status, place)


def _move_aside(place: Path) -> Path:
    for number in range(1000):
        aside = place.with_name(f"{place.name}.damaged-{number}")
        if not aside.exists():
            with contextlib.suppress(FileNotFoundError):  # another process was first
                place.rename(aside)
            return aside
    raise FileError(f"{place} is damaged, and so were a thousand before it.")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
