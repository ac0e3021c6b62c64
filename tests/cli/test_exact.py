"""`drogo exact` and `drogo goals`."""

import json

import numpy as np
import pytest

import drogo
import needs
from drogo.cli import exact, goals
from drogo.cli.output import NEW, OLD
from drogo.files import read_arrays

MAP = "######\n#S..G#\n#.x.G#\n######"
COLUMNS = drogo.exact.log_columns(drogo.GridWorld.parse(MAP).mdp, 20.0)


def test_a_picture_and_a_vector(command, tmp_path):
    answer = command("exact", "grid-maze", "--out", tmp_path)
    assert (answer.status, answer.err) == (0, "")
    assert "-39.2058 to 0" in answer.out
    (directory,) = tmp_path.iterdir()
    assert directory.name.startswith("grid-maze-column-lam20-")
    arrays, settings = read_arrays(directory / "vector.npz", exact.KIND, print)
    assert arrays["log_e"].min() == pytest.approx(-39.2058, abs=1e-4)
    assert (arrays["cells"].shape, settings["lam"]) == ((162, 2), 20.0)
    assert (directory / "picture.png").read_bytes()[:4] == b"\x89PNG"
    before = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert command("exact", "grid-maze", "--out", tmp_path).out == answer.out.replace(NEW, OLD)
    assert {path: path.stat().st_mtime_ns for path in directory.iterdir()} == before
    command("exact", "grid-maze", "--out", tmp_path, "--overwrite")
    assert (directory / "vector.npz").stat().st_mtime_ns != before[directory / "vector.npz"]


def test_a_map_that_was_edited_is_another_request(command, tmp_path, no_pictures):
    reports, arguments = [], ("exact", tmp_path / "mine.txt", "--out", tmp_path / "out", "--json")
    for text in ("#####\n#S.G#\n#####", "######\n#S..G#\n######", "#####\n#S.G#\n#####"):
        (tmp_path / "mine.txt").write_text(text)
        reports.append(json.loads(command(*arguments).out))
    assert reports[0] == reports[2] != reports[1]
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize("definition", ["transition", "representation", "right"])
def test_json(command, tmp_path, definition, no_pictures):
    arguments = ("exact", "grid-task", "--definition", definition, "--out", tmp_path)
    report = json.loads(command(*arguments, "--json").out)
    assert report["status"] == "converged"
    assert report["bracket"][0] <= report["eigenvalue"] <= report["bracket"][1]
    assert np.isfinite(report["log_e_min"])
    assert "terminal states" in command(*arguments).out


def test_gymnasium_ids(command, tmp_path):
    arguments = ("exact", "CliffWalking-v1", "--out", tmp_path, "--json")
    assert json.loads(command(*arguments).out)["kind"] == "MDPError"
    files = json.loads(command(*arguments, "--reward", "-1").out)["files"]
    to_goal = ("goals", "CliffWalking-v1", "--reward", "-1", "--out", tmp_path / "goals", "--json")
    for which in ((), ("--goal", "47")):  # as the environment numbers them
        assert json.loads(command(*to_goal, *which).out)["names"] == ["state 47"]
    assert json.loads(command(*to_goal, "--goal", "37").out)["kind"] == "ArgumentError"
    assert "CliffWalking-v1-column-lam20" in files["picture"]
    _, settings = read_arrays(next(tmp_path.glob("*/vector.npz")), exact.KIND, print)
    assert json.loads(settings["states"][0]) == 36


@pytest.fixture
def world(tmp_path):
    (path := tmp_path / "mine.txt").write_text(MAP)
    return path


def test_pictures_and_a_page(command, tmp_path, world):
    arguments = ("goals", world, "--goal", "1,1", "5", "--terminal-rewards", "0", "-inf", "--out")
    answer = command(*arguments, tmp_path / "out")
    assert (answer.status, answer.err) == (0, "")
    (directory,) = (tmp_path / "out").iterdir()
    arrays, _ = read_arrays(directory / "columns.npz", goals.KIND, print)
    assert arrays["goals"].tolist() == [0, 5]
    np.testing.assert_array_equal(arrays["log_columns"], COLUMNS)
    np.testing.assert_array_equal(arrays["log_e"], COLUMNS[[0, 5]])
    np.testing.assert_allclose(arrays["transfer"], COLUMNS[3])
    assert {path.read_bytes()[:4] for path in directory.glob("*.png")} == {b"\x89PNG"}
    assert command(*arguments, tmp_path / "out").out == answer.out.replace(NEW, OLD)


def test_by_default_the_goals_are_the_terminal_states(command, tmp_path, world, no_pictures):
    report = json.loads(command("goals", world, "--out", tmp_path / "out", "--json").out)
    assert report["goals"] == [3, 7]
    assert report["lowest"] == [row[np.isfinite(row)].min() for row in COLUMNS[[3, 7]]]
    assert (report["status"], report["error"] < 1e-9) == ("converged", True)
    for goal in ("9,9", "99", "here"):
        answer = command("goals", world, "--goal", goal, "--out", tmp_path / "none", "--json")
        assert (answer.status, json.loads(answer.out)["argument"]) == (2, "goal")
    assert not list((tmp_path / "none").glob("*/report.json"))


@pytest.mark.slow
def test_a_click_in_the_page_chooses_the_goal(command, tmp_path, world):
    program = needs.program("chromium", "google-chrome")
    playwright, wrong = needs.module("playwright.sync_api"), []
    command("goals", world, "--out", tmp_path / "out")
    (page_file,) = (tmp_path / "out").glob("*/page.html")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(page_file.as_uri())
        assert "row 1, column 4" in page.inner_text("#status")
        side = page.evaluate("data.side")
        page.click("#map", position={"x": 1.5 * side, "y": 2.5 * side})
        page.mouse.move(0, 0)
        page.hover("#map", position={"x": 1.5 * side, "y": 1.5 * side})
        expected = f"From row 1, column 1 to row 2, column 1: {COLUMNS[4, 0]:.2f}."
        assert page.inner_text("#status") == expected
        browser.close()
    assert wrong == []
