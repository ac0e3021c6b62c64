"""`drogo options`."""

import json

import numpy as np
import pytest

from drogo import GridWorld
from drogo.agents import LearnedDefault, discover
from drogo.cli.options import FORMAT
from drogo.files import read_array_file

MAP = "######\n#S...#\n#.x.G#\n######"
SHORT = ("--iterations", 3, "--steps", 8, "--seeds", 2)


@pytest.fixture
def world(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(MAP)
    return path


def arrays_in(directory):
    (made,) = directory.glob("*/options.npz")
    return read_array_file(made, FORMAT, print)[0]


def test_options_are_discovered_drawn_and_found_again(command, tmp_path, world):
    arguments = ("options", world, *SHORT, "--out", tmp_path / "out")
    answer = command(*arguments)
    assert (answer.status, answer.err) == (0, "")
    known = discover(
        GridWorld.parse(MAP).without_goals(), LearnedDefault(0.03, 1, lam=1.3), seeds=range(2),
        iterations=3, steps=8, may_end=False,
    )  # fmt: skip
    found = arrays_in(tmp_path / "out")
    np.testing.assert_array_equal(found["visited"], known.visited)
    np.testing.assert_array_equal(found["reward"], known.reward)
    np.testing.assert_array_equal(found["action"][-1], known.options[0].action[0])
    np.testing.assert_array_equal(found["ends"][-1], known.options[0].ends[0])
    # A walk visits the start and where each step leads, and all walks are counted.
    assert found["visits"].sum(axis=1).tolist() == [9, 18, 27]
    assert (found["visits"][-1] > 0).mean() == found["visited"][0, -1]
    (directory,) = (tmp_path / "out").iterdir()
    for name in ("picture.png", "curves.png"):
        assert (directory / name).read_bytes()[:4] == b"\x89PNG"
    assert (directory / "visits.gif").read_bytes()[:4] == b"GIF8"
    again = command(*arguments)
    assert again.out.strip() == answer.out.replace("Written", "Already there").strip()


@pytest.mark.parametrize("method", ["ceo", "untried", "race-exact", "ceo-exact"])
def test_each_method(command, tmp_path, world, monkeypatch, method):
    import drogo
    from drogo.plot import animation

    monkeypatch.setattr(drogo.plot, "as_png", lambda figure: b"")
    monkeypatch.setattr(animation, "as_gif", lambda figures: b"")
    arguments = ("options", world, "--method", method, *SHORT, "--json", "--out", tmp_path / "out")
    report = json.loads(command(*arguments).out)
    assert (report["method"], report["inaccurate"]) == (method, 0)
    assert len(report["visited"]) == len(report["reward"]) == 3
    assert 0 < report["visited"][0] <= report["visited"][-1] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("four-roms",), "Did you mean four-rooms"),
     (("CartPole-v1",), "draws options over maps, and CartPole-v1 is none"),
     (("four-rooms-multigoal",), "walks begin in one cell"),
     (("four-rooms", "--iterations", "0"), "iterations is 0"),
     (("four-rooms", "--p-option", "2"), "p_option is 2"),
     (("four-rooms", "--lam", "0"), "lam is 0"),
     (("four-rooms", "--step-size", "0"), "step_size is 0"),
     (("four-rooms", "--discount", "1"), "discount is 1")],
)  # fmt: skip
def test_what_cannot_be_is_a_clear_error(command, tmp_path, arguments, message):
    answer = command("options", *arguments, "--out", tmp_path / "out")
    assert (answer.status, message in answer.err) == (2, True), answer.err
    assert not list((tmp_path / "out").glob("*/report.json"))


def test_a_typo_in_a_method_names_the_methods(command, world):
    answer = command("options", world, "--method", "rase")
    assert answer.status == 2
    assert "untried" in answer.err


def test_an_interrupted_run_leaves_nothing(command, tmp_path, world, monkeypatch):
    from drogo.plot import options

    def stop(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(options, "option_maps", stop)
    answer = command("options", world, *SHORT, "--out", tmp_path / "out")
    assert answer.status == 130
    assert not list(tmp_path.glob("out/*/*"))
