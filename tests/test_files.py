"""Files are written completely or not at all, and are replaced only on request."""

import os

import numpy as np
import pytest

from drogo.errors import AlreadyExists, ArgumentError, DamagedFile, FileError, MissingFile
from drogo.files import read_array_file, write_array_file, write_file


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "a.npz"
    write_array_file(path, {"x": np.arange(3)}, {"lam": 2.0})
    arrays, settings = read_array_file(path)
    assert arrays["x"].tolist() == [0, 1, 2]
    assert settings == {"lam": 2.0}
    assert [p.name for p in path.parent.iterdir()] == ["a.npz"]


def test_an_existing_file_is_replaced_only_on_request(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_file(path, b"one")
    with pytest.raises(AlreadyExists, match="left as it is. Give overwrite=True") as error:
        write_file(path, b"two")
    assert "--overwrite" in error.value.for_command_line
    assert path.read_bytes() == b"one"
    write_file(path, b"two", overwrite=True)
    assert path.read_bytes() == b"two"

    def no_hard_links(part, path):
        raise PermissionError

    monkeypatch.setattr(os, "link", no_hard_links)
    with pytest.raises(FileExistsError):
        write_file(path, b"three")
    path.unlink()
    write_file(path, b"three")
    assert path.read_bytes() == b"three"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_permissions_follow_the_umask(tmp_path, overwrite):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "a", b"", overwrite=overwrite)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(ArgumentError, match="'x' holds Python objects"):
        write_array_file(tmp_path / "a.npz", {"x": np.array([{}])}, {})
    with pytest.raises(ArgumentError, match="settings of .*a.npz cannot be saved: .*not JSON"):
        write_array_file(tmp_path / "a.npz", {"x": np.zeros(1)}, {"lam": float("nan")})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "directory").mkdir()
    for path in (tmp_path / "file" / "a", tmp_path / "directory"):
        with pytest.raises(FileError, match="cannot be written"):
            write_file(path, b"", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["directory", "file"]


def test_what_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "a.npz"
    with pytest.raises(MissingFile, match="a.npz cannot be read: No such file"):
        read_array_file(path)
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        read_array_file(tmp_path)
    write_array_file(path, {"x": np.arange(3000)}, {})
    content = path.read_bytes()
    for damaged in (content[:-200], b"", b"text"):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFile, match="a.npz is not a drogo result, or is damaged"):
            read_array_file(path)
