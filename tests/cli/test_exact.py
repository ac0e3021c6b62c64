"""`drogo exact`."""

import json

import numpy as np
import pytest

from drogo.cli.exact import KIND
from drogo.cli.output import NEW, OLD
from drogo.files import read_arrays


def test_a_picture_and_a_vector(command, tmp_path):
    answer = command("exact", "grid-maze", "--out", tmp_path)
    assert (answer.status, answer.err) == (0, "")
    assert "-39.2058 to 0" in answer.out
    (directory,) = tmp_path.iterdir()
    assert directory.name.startswith("grid-maze-column-lam20-")
    arrays, settings = read_arrays(directory / "vector.npz", KIND, print)
    assert arrays["log_e"].min() == pytest.approx(-39.2058, abs=1e-4)
    assert arrays["cells"].shape == (162, 2)
    assert settings["lam"] == 20.0
    assert (directory / "picture.png").read_bytes()[:4] == b"\x89PNG"
    before = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    again = command("exact", "grid-maze", "--out", tmp_path)
    assert again.out == answer.out.replace(NEW, OLD)
    assert {path: path.stat().st_mtime_ns for path in directory.iterdir()} == before
    command("exact", "grid-maze", "--out", tmp_path, "--overwrite")
    assert (directory / "vector.npz").stat().st_mtime_ns != before[directory / "vector.npz"]


@pytest.mark.usefixtures("no_pictures")
def test_a_map_that_was_edited_is_another_request(command, tmp_path):
    reports = []
    for text in ("#####\n#S.G#\n#####", "######\n#S..G#\n######", "#####\n#S.G#\n#####"):
        (tmp_path / "mine.txt").write_text(text)
        answer = command("exact", tmp_path / "mine.txt", "--out", tmp_path / "out", "--json")
        reports.append(json.loads(answer.out))
    assert reports[0] == reports[2] != reports[1]
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("definition", ["transition", "representation", "right"])
def test_json(command, tmp_path, definition):
    arguments = ("exact", "grid-task", "--definition", definition, "--out", tmp_path)
    report = json.loads(command(*arguments, "--json").out)
    assert report["status"] == "converged"
    assert report["bracket"][0] <= report["eigenvalue"] <= report["bracket"][1]
    assert np.isfinite(report["log_e_min"])
    assert "terminal states" in command(*arguments).out


def test_gymnasium_ids(command, tmp_path):
    answer = command("exact", "CliffWalking-v1", "--out", tmp_path, "--json")
    assert (answer.status, json.loads(answer.out)["kind"]) == (2, "MDPError")
    answer = command("exact", "CliffWalking-v1", "--reward", "-1", "--out", tmp_path, "--json")
    files = json.loads(answer.out)["files"]
    assert "CliffWalking-v1-column-lam20" in files["picture"]
    _, settings = read_arrays(next(tmp_path.glob("*/vector.npz")), KIND, print)
    assert json.loads(settings["states"][0]) == 36
