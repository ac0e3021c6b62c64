"""Files are written completely or not at all, and are replaced only on request."""

import io
import os
import tracemalloc
import zipfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from drogo.errors import AlreadyExists, ArgumentError, DamagedFile, FileError, MissingFile
from drogo.files import Header, read_arrays, write_arrays, write_file
from raising import refused


def anything(settings, headers):
    """Checks nothing."""


@pytest.mark.parametrize("overwrite", [False, True])
def test_round_trip(tmp_path, overwrite):
    """With permissions that follow the umask."""
    before, path = os.umask(0o027), tmp_path / "deep" / "a.npz"
    write_arrays(path, "test", {"x": np.arange(3)}, {"lam": 2.0}, overwrite=overwrite)
    os.umask(before)
    arrays, settings = read_arrays(path, "test", anything)
    assert (arrays["x"].tolist(), settings) == ([0, 1, 2], {"lam": 2.0})
    assert (os.listdir(path.parent), path.stat().st_mode & 0o777) == (["a.npz"], 0o640)


def test_an_existing_file_is_replaced_only_on_request(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_file(path, b"one")
    error = refused(AlreadyExists, None, write_file, path, b"two")
    assert ("overwrite=True" in str(error), "--overwrite" in error.for_command_line) == (True, True)
    assert path.read_bytes() == b"one"
    write_file(path, b"two", overwrite=True)
    assert path.read_bytes() == b"two"
    monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError))  # there are no hard links
    assert issubclass(AlreadyExists, FileExistsError)
    refused(AlreadyExists, None, write_file, path, b"three")
    path.unlink()
    write_file(path, b"three")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"three", ["a"])


def test_failed_writes_leave_nothing_and_what_cannot_be_read_is_named(tmp_path):
    for array, settings in ((np.array([{}]), {}), (np.zeros(1), {"lam": float("nan")})):
        path = tmp_path / "a.npz"
        refused(ArgumentError, None, write_arrays, path, "test", {"x": array}, settings)
    (tmp_path / "directory").mkdir()
    for path in (Path(__file__, "a"), tmp_path / "directory"):
        refused(FileError, None, write_file, path, b"", overwrite=True)
    assert os.listdir(tmp_path) == ["directory"]
    path = tmp_path / "a.npz"
    for kind, place in ((MissingFile, path), (FileError, tmp_path), (FileError, tmp_path / "a\0")):
        refused(kind, None, read_arrays, place, "test", anything)
    write_arrays(path, "test", {"x": np.arange(3000)}, {})
    content = path.read_bytes()
    for damaged in (content[:-200], b"", b"text"):
        path.write_bytes(damaged)
        refused(DamagedFile, None, read_arrays, path, "test", anything)
    path.write_bytes(content)
    refused(DamagedFile, None, read_arrays, path, "other", anything)


def stored(path, content):
    """Writes a zip file of settings and the bytes of an array."""
    settings = np.frombuffer(b'{"format": "drogo 1", "kind": "test"}', dtype=np.uint8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("settings.npy", as_npy(settings))
        archive.writestr("x.npy", content)
    return path


def as_npy(array, descr="<f8", shape=None):
    """Returns an array in NumPy's format, if asked for with another header."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    content = stream.getvalue()
    if shape is None:
        return content
    size = int.from_bytes(content[8:10], "little")
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    text = repr(header).ljust(size - 1)[: size - 1] + "\n"
    return content[:10] + text.encode() + content[10 + size :]


PARTS = ([{}], ["a"], [1j], np.zeros(1, dtype="i4,f4"))
HOSTILE = {
    **{str(part): as_npy(np.array(part)) for part in PARTS},
    "object header": as_npy(np.arange(3.0), "|O", (3,)),
    "too long": as_npy(np.arange(3.0), shape=(10**9,)),
    "too short": as_npy(np.arange(3.0), shape=(2,)),
    "negative": as_npy(np.arange(3.0), shape=(-3,)),
    "no header": b"nothing",
    "empty": b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_header_is_not_believed(kind, tmp_path):
    path = stored(tmp_path / "a.npz", HOSTILE[kind])
    refused(DamagedFile, None, read_arrays, path, "test", anything)


def test_shapes_are_checked_before_arrays_are_read(tmp_path):
    """A small file of zeros holds an array of 80 MB, which is not allocated."""
    zeros = as_npy(np.zeros(0), shape=(10**7,)) + bytes(8 * 10**7)
    path = stored(tmp_path / "a.npz", zeros)
    del zeros

    def check(settings, headers):
        assert headers == {"x": Header((10**7,), np.dtype(np.float64))}
        raise ValueError("one number was expected")

    tracemalloc.start()
    refused(DamagedFile, None, read_arrays, path, "test", check)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_every_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, "test", {"x": np.arange(20.0)}, {})
    content, rng, same = path.read_bytes(), np.random.default_rng(0), 0
    for at in rng.permutation(len(content))[:300]:
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            again, settings = read_arrays(path, "test", anything)
        except DamagedFile:
            continue
        assert (again["x"].tolist(), settings) == (list(range(20)), {})
        same += 1  # a date, or another field that says nothing of the arrays
    assert same < 150
