"""`drogo goals`."""

import json

import numpy as np
import pytest

import needs
from drogo import GridWorld, exact
from drogo.cli.goals import KIND
from drogo.cli.output import NEW, OLD
from drogo.files import read_arrays

MAP = "######\n#S..G#\n#.x.G#\n######"


COLUMNS = exact.log_columns(GridWorld.parse(MAP).mdp, 20.0)


@pytest.fixture
def world(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(MAP)
    return path


def test_pictures_distances_and_a_page(command, tmp_path, world):
    arguments = ("goals", world, "--goal", "1,1", "5", "--terminal-rewards", "0", "-inf", "--out")
    answer = command(*arguments, tmp_path / "out")
    assert (answer.status, answer.err) == (0, "")
    (directory,) = (tmp_path / "out").iterdir()
    arrays, _ = read_arrays(directory / "columns.npz", KIND, print)
    assert arrays["goals"].tolist() == [0, 5]
    np.testing.assert_array_equal(arrays["log_columns"], COLUMNS)
    np.testing.assert_array_equal(arrays["log_e"], COLUMNS[[0, 5]])
    np.testing.assert_allclose(arrays["transfer"], COLUMNS[3])
    for name in ("picture.png", "distances.png"):
        assert (directory / name).read_bytes()[:4] == b"\x89PNG"
    again = command(*arguments, tmp_path / "out")
    assert again.out == answer.out.replace(NEW, OLD)


@pytest.mark.usefixtures("no_pictures")
def test_by_default_the_goals_are_the_terminal_states(command, tmp_path, world):
    report = json.loads(command("goals", world, "--out", tmp_path / "out", "--json").out)
    assert report["goals"] == [3, 7]
    assert report["lowest"] == [row[np.isfinite(row)].min() for row in COLUMNS[[3, 7]]]
    assert (report["status"], report["error"] < 1e-9) == ("converged", True)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("goal", ["9,9", "99", "here"])
def test_a_goal_that_is_no_state(command, tmp_path, world, goal):
    answer = command("goals", world, "--goal", goal, "--out", tmp_path / "out", "--json")
    assert (answer.status, json.loads(answer.out)["argument"]) == (2, "goal")
    assert not list((tmp_path / "out").glob("*/report.json"))


@pytest.mark.slow
def test_a_click_in_the_page_chooses_the_goal(command, tmp_path, world):
    program = needs.program("chromium", "google-chrome")
    playwright = needs.module("playwright.sync_api")
    command("goals", world, "--out", tmp_path / "out")
    (page_file,) = (tmp_path / "out").glob("*/page.html")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page, wrong = browser.new_page(), []
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
