"""`Store`: finished runs on disk, one file each.

    STORE/<id>.npz             the outcome, the request and the provenance
    STORE/.locks/<id>          locked by the process that is running the job
    STORE/.scratch/<id>/       checkpoints of a run that is under way

A file is complete or absent. Locks are those of the operating system: a killed process holds none.
"""

import contextlib
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drogo import files
from drogo.errors import AlreadyExists, DamagedFile, FileError
from drogo.requests import check_same, plain
from drogo_paper.engines.job import Job, Outcome

KIND = "run"
LOCKS = ".locks"


@dataclass(frozen=True, kw_only=True)
class Record(Outcome):
    """A finished run: its outcome, its provenance (label, duration, versions) and its file."""

    status: Mapping[str, Any]
    path: Path


class Store:
    """Finished runs in a directory, which several processes may use at the same time.

    Args:
        path: The directory, which is created if it does not exist.

    Attributes:
        damage: A sentence for each damaged file that `get` met.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.damage: list[str] = []
        try:
            (self.path / LOCKS).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            problem = f"{self.path} cannot keep runs: {error.strerror}. Choose another directory."
            raise FileError(problem, argument="path") from error

    def place(self, job: Job) -> Path:
        """Returns the file of a job's run, whether it exists or not."""
        return self.path / f"{job.id}.npz"

    def scratch(self, job: Job) -> Path:
        """Returns the directory for the checkpoints of a job, which its next attempt finds."""
        return self.path / ".scratch" / job.id

    def has(self, job: Job) -> bool:
        """Returns whether there is a finished and undamaged run of a job."""
        return self.get(job) is not None

    def get(self, job: Job) -> Record | None:
        """Returns the finished run of a job, or None. One that is damaged, or of another job, is
        moved out of the way with a message."""

        def check(settings: dict[str, Any], headers: object) -> None:
            check_same(settings["request"], job.request, "job")
            if not isinstance(settings["facts"], dict) or not isinstance(settings["how"], dict):
                raise ValueError("its facts are not a JSON object")

        place = self.place(job)
        if not place.exists():
            return None
        try:
            arrays, settings = files.read_arrays(place, KIND, check)
            return Record(arrays, settings["facts"], status=settings["how"], path=place)
        except (DamagedFile, FileError) as error:
            aside = place.with_name(f"{place.name}.damaged-{secrets.token_hex(4)}")
            with contextlib.suppress(FileNotFoundError):  # another process was first
                place.rename(aside)
            self.damage.append(f"{error} It was moved to {aside.name}.")
            print(f"drogo: {self.damage[-1]}", file=sys.stderr)
            return None

    def put(self, job: Job, outcome: Outcome, how: Mapping[str, Any]) -> None:
        """Keeps what `perform` returned for a job. A run that is already there stays as it is."""
        how = {"label": job.label, **how}
        settings = plain({"request": job.request, "facts": outcome.facts, "how": how})
        try:
            with contextlib.suppress(AlreadyExists):
                files.write_arrays(self.place(job), KIND, outcome.arrays, settings)
        except FileError as error:
            remedy = "Earlier runs are unharmed. Solve this and start the same command again."
            raise FileError(f"The run of {job.label!r} is lost: {error} {remedy}") from error
        shutil.rmtree(self.scratch(job), ignore_errors=True)

    def claim(self, job: Job) -> contextlib.AbstractContextManager[bool]:
        """Locks a job; the context is False if another process has locked it."""
        return files.lock(self.path / LOCKS / job.id)

    def clean(self) -> None:
        """Removes the incomplete files of killed processes."""
        for part in self.path.glob(f".*{files.PART}"):
            with files.lock(self.path / LOCKS / part.name.split(".")[1]) as is_ours:
                if is_ours:  # otherwise it is being written
                    part.unlink(missing_ok=True)
