"""`drogo options`."""

import json

import numpy as np
import pytest

from drogo import GridWorld
from drogo.cli.output import NEW, OLD
from drogo.files import read_arrays
from drogo_paper.agents import Cycle, LearnedDefault, discover
from drogo_paper.cli.options import KIND

MAP = "######\n#S...#\n#.x.G#\n######"
SHORT = ("--iterations", 3, "--steps", 8, "--seeds", 2)


@pytest.fixture
def world(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(MAP)
    return path


def test_options_are_discovered_drawn_and_found_again(command, tmp_path, world):
    arguments = ("options", world, *SHORT, "--out", tmp_path / "out")
    answer = command(*arguments)
    assert (answer.status, answer.err) == (0, "")
    expected = discover(
        GridWorld.parse(MAP).without_goals(), LearnedDefault(0.03, 1, lam=1.3), Cycle(3, steps=8),
        seeds=range(2), may_end=False,
    )  # fmt: skip
    (path,) = (tmp_path / "out").glob("*/options.npz")
    arrays = read_arrays(path, KIND, print)[0]
    np.testing.assert_array_equal(arrays["visited"], expected.visited)
    np.testing.assert_array_equal(arrays["reward"], expected.reward)
    np.testing.assert_array_equal(arrays["action"][-1], expected.options[0].action[0])
    np.testing.assert_array_equal(arrays["ends"][-1], expected.options[0].ends[0])
    # A walk visits the start and where each step leads, and all walks are counted.
    assert arrays["visits"].sum(axis=1).tolist() == [9, 18, 27]
    assert (arrays["visits"][-1] > 0).mean() == arrays["visited"][0, -1]
    for name in ("picture.png", "curves.png"):
        assert path.with_name(name).read_bytes()[:4] == b"\x89PNG"
    assert path.with_name("visits.gif").read_bytes()[:4] == b"GIF8"
    again = command(*arguments)
    assert again.out.strip() == answer.out.replace(NEW, OLD).strip()


@pytest.mark.parametrize("method", ["ceo", "untried", "race-exact", "ceo-exact"])
def test_each_method(command, tmp_path, world, monkeypatch, method):
    import drogo
    from drogo_paper.plot import figures

    monkeypatch.setattr(drogo.plot, "as_png", lambda figure: b"")
    monkeypatch.setattr(figures, "as_gif", lambda figures: b"")
    arguments = ("options", world, "--method", method, *SHORT, "--json", "--out", tmp_path / "out")
    report = json.loads(command(*arguments).out)
    assert (report["method"], report["inaccurate"]) == (method, 0)
    assert len(report["visited"]) == len(report["reward"]) == 3
    assert 0 < report["visited"][0] <= report["visited"][-1] <= 1


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("CartPole-v1",), "env"),
        (("four-rooms-multigoal",), "env"),
        (("four-rooms", "--iterations", "0"), "iterations"),
        (("four-rooms", "--p-option", "2"), "p_option"),
        (("four-rooms", "--step-size", "0"), "step_size"),
        (("four-rooms", "--discount", "1"), "discount"),
    ],
)
def test_wrong_use(command, tmp_path, arguments, argument):
    answer = command("options", *arguments, "--out", tmp_path / "out", "--json")
    assert answer.status == 2
    assert json.loads(answer.out)["argument"] == argument
    assert not list((tmp_path / "out").glob("*/report.json"))
