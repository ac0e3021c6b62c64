"""Files that are whole or absent, and are never replaced unasked."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import AlreadyExists, ArgumentError, FileError


def write_file(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write all of `content` or nothing; `FileExistsError` if the file is there already."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise FileError(
            f"cannot write into the directory {path.parent}: {error.strerror}. Choose another one."
        ) from error
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.chmod(0o644)
        if overwrite:
            part.replace(path)
        else:
            _claim(part, path)
    finally:
        part.unlink(missing_ok=True)


def _claim(part: Path, path: Path) -> None:
    """Give a finished file its name; unlike a rename, fail if another process was first."""
    taken = f"{path} exists and was left as it is (overwrite=True replaces it)."
    try:
        os.link(part, path)
    except FileExistsError:
        raise AlreadyExists(taken) from None
    except OSError:  # a file system without hard links: the next best thing
        if path.exists():
            raise AlreadyExists(taken) from None
        part.replace(path)


def write_array_file(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """An `.npz` without objects; `settings` goes in as JSON, so that the file explains itself."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ArgumentError(f"Object arrays cannot be saved: {name}.")
    stream = io.BytesIO()
    text = json.dumps(settings, sort_keys=True, allow_nan=False)
    np.savez_compressed(stream, **{**arrays, "settings": np.array(text)})  # pyright: ignore[reportArgumentType]
    write_file(path, stream.getvalue(), overwrite=overwrite)


def read_array_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and settings; `ValueError` that names the file if it is not what was written."""
    content = io.BytesIO(path.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        settings = json.loads(str(arrays.pop("settings")))
    except Exception as error:
        # NumPy takes any other file for a pickle, and says how to load it "unsafely".
        why = "no array file" if "pickle" in str(error) else str(error)
        raise ArgumentError(f"{path} is not a drogo result, or is damaged: {why}") from error
    return arrays, settings
