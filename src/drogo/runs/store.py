"""`Store`: finished runs on disk, one directory each, whole or absent.

    STORE/<id>/settings.json   what was asked
    STORE/<id>/arrays.npz      what came out
    STORE/<id>/status.json     facts, versions, duration, and digests of the other two
    STORE/.locks/<id>          held while a run is under way, by whoever is at it
    STORE/.scratch/<id>/       checkpoints of a run under way

A run is written beside its place and renamed into it, so what is in place is complete. Locks are
the operating system's: a killed process holds none.
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
from drogo.runs.job import Job, Outcome


class Corrupt(DamagedFile):
    """A stored run that is not what was written."""


@dataclass(frozen=True)
class Record:
    """A finished run."""

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    status: Mapping[str, Any]
    """Duration, machine, versions, code."""
    path: Path


class Store:
    """Make one with the directory to keep it in."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise FileError(
                f"cannot keep runs in {self.path}: {error.strerror}. Choose another directory."
            ) from error
        self._checked: set[str] = set()

    def place(self, job: Job) -> Path:
        return self.path / job.id

    def has(self, job: Job) -> bool:
        """Whether a whole run is there. One that is damaged is named, put aside and forgotten."""
        return self.get(job) is not None

    def get(self, job: Job) -> Record | None:
        """The run, if it is there and undamaged."""
        place = self.place(job)
        if not place.is_dir():
            return None
        try:
            return self._read(place, job)
        except Corrupt as error:
            aside = self._aside(place)
            told = f"drogo: {error} It was put aside as {aside.name} and will be run again."
            print(told, file=sys.stderr)
            return None

    def put(self, job: Job, outcome: Outcome, how: Mapping[str, Any]) -> None:
        """Keep a run. If one is there already, it stays as it is."""
        if self.place(job).is_dir():
            return
        arrays = io.BytesIO()
        np.savez_compressed(arrays, **{k: _plain(k, a) for k, a in outcome.arrays.items()})  # pyright: ignore[reportArgumentType]
        settings = json.dumps(job.as_json(), indent=1, allow_nan=False).encode()
        files = {"settings.json": settings, "arrays.npz": arrays.getvalue()}
        status = {
            **how,
            "facts": dict(outcome.facts),
            "sha256": {name: _digest(content) for name, content in files.items()},
        }
        files["status.json"] = _signed(status)
        part = None
        try:
            part = Path(tempfile.mkdtemp(prefix=f".{job.id}.", suffix=".part", dir=self.path))
            part.chmod(0o755)
            for name, content in files.items():
                with (part / name).open("wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
            with contextlib.suppress(FileExistsError):
                part.rename(self.place(job))
        except OSError as error:
            if self.place(job).is_dir():  # somebody else was first
                return
            raise FileError(
                f"could not keep the run {job.label!r} in {self.path}: {error.strerror}. Nothing "
                "that was there is lost: mend it and start the same command again."
            ) from error
        finally:
            if part is not None:
                shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(self.scratch(job), ignore_errors=True)

    def scratch(self, job: Job) -> Path:
        """For checkpoints of a run under way: the next try finds them."""
        return self.path / ".scratch" / job.id

    @contextlib.contextmanager
    def claim(self, job: Job) -> Iterator[bool]:
        """True if the run is ours to do; False if another process is at it."""
        lock = self.path / ".locks" / job.id
        lock.parent.mkdir(exist_ok=True)
        with lock.open("w") as stream:
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
        """Remove what killed processes left half written; how many there were."""
        found = 0
        for part in self.path.glob(".*.part"):
            job_id = part.name.split(".")[1]
            lock = self.path / ".locks" / job_id
            lock.parent.mkdir(exist_ok=True)
            with lock.open("w") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue  # being written
                shutil.rmtree(part, ignore_errors=True)
                found += 1
        return found

    def _read(self, place: Path, job: Job) -> Record:
        try:
            status = _checked((place / "status.json").read_bytes())
            digests = status["sha256"]
            if not {"settings.json", "arrays.npz"} <= digests.keys():
                raise ArgumentError("digests are missing")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{place / 'status.json'} cannot be read ({error}).") from error
        contents = {}
        for name, digest in digests.items():
            try:
                contents[name] = (place / name).read_bytes()
            except OSError as error:
                raise Corrupt(f"{place / name} cannot be read ({error.strerror}).") from error
            if _digest(contents[name]) != digest:
                raise Corrupt(f"{place / name} is damaged: it is not what was written.")
        with np.load(io.BytesIO(contents["arrays.npz"]), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return Record(arrays, status["facts"], status, place)

    def _aside(self, place: Path) -> Path:
        for number in range(1000):
            aside = place.with_name(f"{place.name}.damaged-{number}")
            if not aside.exists():
                with contextlib.suppress(FileNotFoundError):  # another process was first
                    place.rename(aside)
                return aside
        raise FileError(f"{place} is damaged, and so were a thousand before it.")


def _signed(status: dict[str, Any]) -> bytes:
    """With a digest of itself, so that a single changed digit shows."""
    text = json.dumps(status, sort_keys=True, allow_nan=False)
    told = {**json.loads(text), "self": _digest(text.encode())}
    return json.dumps(told, indent=1, allow_nan=False).encode()


def _checked(content: bytes) -> dict[str, Any]:
    status = json.loads(content)
    told = status.pop("self")
    if told != _digest(json.dumps(status, sort_keys=True, allow_nan=False).encode()):
        raise ArgumentError("it is not what was written")
    return status


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.hasobject:
        raise ArgumentError(f"array {name!r} holds objects; only numbers can be kept.")
    return array


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
