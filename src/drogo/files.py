"""Files are written completely or not at all, and an existing file is replaced only on request."""

import contextlib
import fcntl
import io
import json
import math
import os
import secrets
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drogo import errors
from drogo.errors import AlreadyExists, ArgumentError, DamagedFile, FileError, MissingFile

KINDS = "biuf"
"""The kinds of arrays that files hold: booleans, whole numbers and floating-point numbers."""
SETTINGS = "settings"
FORMAT = "drogo 1"
RESERVED = (SETTINGS, "file", "allow_pickle")
"""Names that an array cannot have: the last two are arguments of NumPy's function."""
PART = ".part"  # The end of the name of a file that is still being written.
MOST_BYTES_OF_SETTINGS = 2**24
READING_FAILED = (
    zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, AttributeError, EOFError,
    NotImplementedError, RuntimeError, OSError, SyntaxError, RecursionError,
    tokenize.TokenError,
)  # fmt: skip
"""The errors that reading a damaged file may raise."""


class Header(NamedTuple):
    """The shape and type of an array, which are checked before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype


Arrays = Mapping[str, np.ndarray]
Settings = dict[str, Any]
Check = Callable[[Settings, dict[str, Header]], None]


def as_path(name: str, value: Any) -> Path:
    """Returns an argument that names a file or a directory."""
    path = Path(errors.check_type(name, value, str | Path, "the name of a file"))
    if not path.name or "\0" in path.name:
        raise ArgumentError(f"{name} is {value!r}; give the name of a file.", argument=name)
    return path


def write_file(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Writes a file, and its directories, so that readers see all of its content or none of it."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
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
            remedies = {"remedy": "Give overwrite=True.", "command_remedy": "Give --overwrite."}
            raise AlreadyExists(f"{path} exists and was left as it is.", **remedies) from None
        raise FileError(f"{path} cannot be written: {error}. Choose another place.") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _link(part: Path, path: Path) -> bool:
    """Names a finished file. Unlike a rename, this fails if another process was first."""
    try:
        os.link(part, path)
    except OSError:
        if os.path.lexists(path):
            raise
        return False  # The file system has no hard links.
    return True


@contextlib.contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Locks a directory, or a file, which is created if need be; yields False if this or another
    process has locked it. Locks are the operating system's: a killed process holds none."""
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor, is_ours = os.open(path, flags, 0o666), True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_ours = False
        except OSError as error:
            remedy = "Choose another directory, on a file system with locks."
            raise FileError(f"{path} cannot be locked: {error.strerror}. {remedy}") from error
        yield is_ours
    finally:
        os.close(descriptor)


def write_arrays(
    path: Path, kind: str, arrays: Arrays, settings: Mapping[str, Any], *, overwrite: bool = False
) -> None:
    """Writes arrays as `.npz` without Python objects, with settings that are plain JSON."""
    settings = {**settings, "format": FORMAT, "kind": kind}
    try:
        text = json.dumps(settings, sort_keys=True, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"the settings of {path} cannot be saved: {error}.") from error
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            problem = f"array {name!r} has the type {array.dtype}, which cannot be saved."
            raise ArgumentError(problem, remedy="Give booleans, whole or floating-point numbers.")
        if name in RESERVED:
            raise ArgumentError(f"an array of {path} is named {name!r}. Give it another name.")
    stored = {**arrays, SETTINGS: np.frombuffer(text.encode(), dtype=np.uint8)}
    stream = io.BytesIO()
    np.savez_compressed(stream, **stored)  # pyright: ignore
    write_file(path, stream.getvalue(), overwrite=overwrite)


def read_arrays(path: Path, kind: str, check: Check) -> tuple[dict[str, np.ndarray], Settings]:
    """Reads what `write_arrays` wrote, unless `check` refuses the settings and headers first."""
    content = read_file(path)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            headers = _headers(archive)
            if headers.pop(SETTINGS).shape > (MOST_BYTES_OF_SETTINGS,):
                raise ValueError("its settings are too long")
            settings = json.loads(_array(archive, SETTINGS).tobytes())
            version, content_kind = settings.pop("format", None), settings.pop("kind", None)
            if (version, content_kind) != (FORMAT, kind):
                stored = f"{content_kind!r} ({version!r})"
                raise ValueError(f"it holds {stored}, not {kind!r} ({FORMAT!r})")
            check(settings, headers)
            return {name: _array(archive, name) for name in headers}, settings
    except READING_FAILED as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DamagedFile(f"{path} is damaged, or not what was expected: {reason}.") from error


def _headers(archive: zipfile.ZipFile) -> dict[str, Header]:
    """Returns the shape and type of every array, which must be of a plain type and as large as the
    bytes that follow: objects would be unpickled, and wrong sizes allocated."""
    headers: dict[str, Header] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        with archive.open(entry) as stream:
            if np.lib.format.read_magic(stream) != (1, 0) or name in headers:
                raise ValueError(f"array {name!r} has a header of another version, or comes twice")
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            size = stream.tell() + math.prod(shape) * dtype.itemsize
        if dtype.kind not in KINDS or min(shape, default=0) < 0:
            raise ValueError(f"array {name!r} has the type {dtype} and the shape {shape}")
        if size != entry.file_size:
            raise ValueError(f"array {name!r} has {entry.file_size} bytes, not {size}")
        headers[name] = Header(shape, dtype)
    check_memory("its arrays", sum(entry.file_size for entry in archive.infolist()))
    return headers


def check_memory(name: str, size: int, remedy: str = "") -> None:
    """Raises an `ArgumentError` if a number of bytes is more than the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory:
        needed, there = (f"{number / 2**30:.3g} GiB" for number in (size, memory))
        raise ArgumentError(f"{name} would take {needed} of {there} of memory.", remedy=remedy)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read()  # to the end, where the checksum is compared
        return array


def section(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Returns the arrays of a file whose names have a prefix, without it."""
    return {k.removeprefix(prefix): part for k, part in arrays.items() if k.startswith(prefix)}


def as_section(prefix: str, parts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns named parts as arrays for a file; those that are None are left out."""
    return {prefix + name: np.asarray(part) for name, part in parts.items() if part is not None}


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
    except ValueError as error:  # a name that no file can have
        raise FileError(f"{str(path)!r} cannot be read: {error}.") from error
