"""Files are written completely or not at all, and an existing file is replaced only on request."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import AlreadyExists, ArgumentError, DamagedFile, FileError, MissingFile


def write_file(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Writes a file, and its directories, so that readers see all of its content or none of it."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new_file(part, content)
        if overwrite or not _link(part, path):
            part.replace(path)
    except OSError as error:
        if not overwrite and os.path.lexists(path):
            raise AlreadyExists(
                f"{path} exists and was left as it is.",
                remedy="Give overwrite=True to replace it.",
                command_remedy="Give --overwrite to replace it.",
            ) from None
        raise FileError(f"{path} cannot be written: {error}. Choose another place.") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def write_new_file(path: Path, content: bytes) -> None:
    """Writes a file that is not there yet, and returns when it is on the disk."""
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _link(part: Path, path: Path) -> bool:
    """Names a finished file. Unlike a rename, this fails if another process was first."""
    try:
        os.link(part, path)
    except OSError:
        if os.path.lexists(path):
            raise
        return False  # The file system has no hard links.
    return True


def write_array_file(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Writes arrays as `.npz` without Python objects, and the settings with them as JSON."""
    try:
        text = np.array(json.dumps(settings, sort_keys=True, allow_nan=False))
    except ValueError as error:
        raise ArgumentError(f"the settings of {path} cannot be saved: {error}.") from error
    write_file(path, bytes_of_arrays({**arrays, "settings": text}), overwrite=overwrite)


def bytes_of_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns the content of an `.npz` file."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ArgumentError(f"array {name!r} holds Python objects, which cannot be saved.")
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # pyright: ignore[reportArgumentType]
    return stream.getvalue()


def read_array_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads the arrays and the settings that `write_array_file` wrote."""
    content = read_file(path)
    try:
        arrays = arrays_of_bytes(content)
        settings = json.loads(str(arrays.pop("settings")))
    except Exception as error:
        # NumPy takes every unknown file for a pickle and advises to load it unsafely.
        reason = "it is not an .npz file" if "pickle" in str(error) else str(error)
        raise DamagedFile(f"{path} is not a drogo result, or is damaged: {reason}.") from error
    return arrays, settings


def arrays_of_bytes(content: bytes) -> dict[str, np.ndarray]:
    """Returns the arrays of an `.npz` file."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def read_json(path: Path) -> dict[str, Any]:
    """Returns the dictionary that a JSON file holds; `DamagedFile` if it holds none."""
    try:
        content = json.loads(read_file(path))
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: it is not JSON ({error}).") from error
    if not isinstance(content, dict):
        raise DamagedFile(f"{path} is damaged: it does not hold a JSON object.")
    return content


def read_file(path: Path) -> bytes:
    """Returns the content of a file, or raises a `FileError` that names it."""
    try:
        return path.read_bytes()
    except OSError as error:
        kind = MissingFile if isinstance(error, FileNotFoundError) else FileError
        raise kind(f"{path} cannot be read: {error.strerror}.") from error
