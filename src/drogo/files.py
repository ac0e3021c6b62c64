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
        with part.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
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


def _link(part: Path, path: Path) -> bool:
    """Name a finished file. Unlike a rename, this fails if another process was first."""
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
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ArgumentError(f"array {name!r} holds Python objects, which cannot be saved.")
    try:
        text = np.array(json.dumps(settings, sort_keys=True, allow_nan=False))
    except ValueError as error:
        raise ArgumentError(f"the settings of {path} cannot be saved: {error}.") from error
    stream = io.BytesIO()
    np.savez_compressed(stream, **{**arrays, "settings": text})  # pyright: ignore[reportArgumentType]
    write_file(path, stream.getvalue(), overwrite=overwrite)


def read_array_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads the arrays and the settings that `write_array_file` wrote."""
    try:
        content = io.BytesIO(path.read_bytes())
    except OSError as error:
        kind = MissingFile if isinstance(error, FileNotFoundError) else FileError
        raise kind(f"{path} cannot be read: {error.strerror}.") from error
    try:
        with np.load(content, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        settings = json.loads(str(arrays.pop("settings")))
    except Exception as error:
        # NumPy takes every unknown file for a pickle and advises to load it unsafely.
        reason = "it is not an .npz file" if "pickle" in str(error) else str(error)
        raise DamagedFile(f"{path} is not a drogo result, or is damaged: {reason}.") from error
    return arrays, settings
