"""Requests: plain JSON dictionaries of everything that decides a result; and result directories:

NAME-1f2e3d4c/request.json   the whole request, written first; the digest is that of it
NAME-1f2e3d4c/...            the result
NAME-1f2e3d4c/report.json    the printed part of the result, written last
"""

import contextlib
import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drogo.errors import AlreadyExists
from drogo.files import PART, lock, read_json, write_file

Request = Mapping[str, Any]
REQUEST, REPORT = "request.json", "report.json"
DIGEST = "digest"  # The entry of a report with which a change of the file is noticed.


@dataclass(frozen=True)
class ResultDirectory:
    """The directory that holds the result of one request."""

    out: Path
    label: str  # The readable part of the directory's name.
    request: Request

    @property
    def path(self) -> Path:
        return self.out / f"{self.label}-{digest(self.request)[:8]}"

    def report(self) -> dict[str, Any] | None:
        """Returns the report of a finished result, or None; `AlreadyExists` for anything else."""
        names = os.listdir(self.path) if self.path.is_dir() else []
        if REQUEST not in names:
            # Parts belong to another process, or to one that was killed.
            if any(not name.endswith(PART) for name in names):
                raise self._taken(f"has no {REQUEST}, so its content is unknown")
            return None
        differing = differences(read_json(self.path / REQUEST), self.request)
        if differing:
            raise self._taken(f"holds another result, which differs in {', '.join(differing)}")
        if not (self.path / REPORT).exists():
            return None
        report = read_json(self.path / REPORT)
        if report.pop(DIGEST, None) != digest(report):
            raise self._taken(f"is damaged: {REPORT} is not what was written")
        for name in report.get("files", {}).values():
            if not (self.path / name).exists():
                raise self._taken(f"is incomplete: {name} is missing")
        return report

    @contextlib.contextmanager
    def begin(self, *, overwrite: bool) -> Iterator[None]:
        """Claims the directory, which is unfinished until `finish`. One that is finished, holds
        something else, or is claimed by another process is an `AlreadyExists`. With `overwrite`,
        its content is discarded, whoever it belongs to."""
        if not overwrite:
            self.report()  # raises an error if the directory holds something else
        write_file(self.path / REQUEST, as_bytes(self.request), overwrite=True)
        with lock(self.path) as is_ours:
            if not is_ours:
                raise AlreadyExists(f"Another process works on {self.path}. Wait until it is done.")
            if overwrite:
                (self.path / REPORT).unlink(missing_ok=True)
            elif self.report() is not None:
                raise self._taken("holds a finished result")
            yield

    def finish(self, report: Mapping[str, Any], **contents: bytes) -> dict[str, Any]:
        """Writes files by their keys in `report["files"]`, then the report, and returns it."""
        for kind, content in contents.items():
            write_file(self.path / report["files"][kind], content, overwrite=True)
        kept = json.loads(as_bytes(report))
        write_file(self.path / REPORT, as_bytes({**kept, DIGEST: digest(kept)}), overwrite=True)
        return kept

    def _taken(self, problem: str) -> AlreadyExists:
        remedy = "Choose another directory, or replace it with overwrite=True."
        command = "Choose another --out, or replace it with --overwrite."
        text = f"{self.path} {problem}. It was left as it is."
        return AlreadyExists(text, remedy=remedy, command_remedy=command)


def digest(request: Request) -> str:
    """Returns the SHA-256 of a request, which does not depend on the order of its keys."""
    text = json.dumps(plain(request), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(stored: Any, asked: Any, name: str = "") -> list[str]:
    """Returns the dotted names of the entries in which two requests differ."""
    if isinstance(stored, list) and isinstance(asked, list) and len(stored) == len(asked):
        stored, asked = ({str(k): part for k, part in enumerate(x)} for x in (stored, asked))
    if isinstance(stored, Mapping) and isinstance(asked, Mapping):
        return [
            entry
            for key in sorted({*stored, *asked})
            for entry in differences(stored.get(key), asked.get(key), f"{name}.{key}".lstrip("."))
        ]
    return [] if plain(stored) == plain(asked) else [name]


def check_same(stored: Any, expected: Any, kind: str) -> None:
    """Raises a `ValueError`, as the checks of `read_arrays` do, if two requests differ."""
    if differing := differences(stored, expected):
        raise ValueError(f"it is of another {kind}, which differs in {', '.join(differing)}")


def as_bytes(value: Mapping[str, Any]) -> bytes:
    """Returns a dictionary as the content of a JSON file."""
    return json.dumps(plain(value), indent=1, allow_nan=False).encode()


def plain(value: Any) -> Any:
    """Returns a value as plain JSON, which has no infinity and no NaN: they become strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that decide numbers."""
    packages = ("drogo", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
