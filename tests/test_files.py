"""Files are whole or absent, and never replaced unasked."""

import numpy as np
import pytest

from drogo.files import read_array_file, write_array_file, write_file


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "a.npz"
    write_array_file(path, {"x": np.arange(3)}, {"lam": 2.0})
    arrays, settings = read_array_file(path)
    assert arrays["x"].tolist() == [0, 1, 2]
    assert settings == {"lam": 2.0}
    assert [p.name for p in path.parent.iterdir()] == ["a.npz"]


def test_never_overwritten_unasked(tmp_path):
    path = tmp_path / "a"
    write_file(path, b"one")
    with pytest.raises(FileExistsError, match="exists and was left as it is"):
        write_file(path, b"two")
    assert path.read_bytes() == b"one"
    write_file(path, b"two", overwrite=True)
    assert path.read_bytes() == b"two"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_array_file(tmp_path / "a.npz", {"x": np.array([{}])}, {})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_array_file(tmp_path / "a.npz", {"x": np.zeros(1)}, {"lam": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "a.npz"
    write_array_file(path, {"x": np.arange(3000)}, {})
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="a.npz is not a drogo result, or is damaged"):
        read_array_file(path)
