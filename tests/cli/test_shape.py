"""`drogo shape`."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from drogo import GridWorld, config
from drogo.cli import output, shape
from drogo.use import successor_potential

MAP = "step-limit: 40\n\n#######\n#S.x.G#\n#..x..#\n#.....#\n#######\n"


@pytest.fixture(scope="module")
def place(command, tmp_path_factory):
    """A directory with a map, a fit of it, and what `drogo shape` printed about both."""
    directory = tmp_path_factory.mktemp("shape")
    (directory / "mine.txt").write_text(MAP)
    few = ("--seeds", 2, "--updates", 300, "--transitions", 20_000, "--observation", "state")
    command("learn", directory / "mine.txt", *few, "--out", directory / "fits")
    (fit,) = (directory / "fits").glob("*/fit.npz")
    (directory / "fit.npz").write_bytes(fit.read_bytes())
    return directory


@pytest.fixture(scope="module")
def arguments(place):
    short = ("shape", place / "mine.txt", "--seeds", 2, "--steps", 3000)
    return (*short, "--potential", place / "fit.npz", "--out", place / "out")


@pytest.fixture(scope="module")
def answer(command, arguments):
    return command(*arguments)


@pytest.mark.slow
def test_a_map_of_ones_own_with_a_saved_fit(answer, place):
    assert (answer.status, answer.err) == (0, "")
    assert "DR fit" in answer.out
    assert "SR distance" in answer.out
    assert "Raise --discount" not in answer.out
    (directory,) = (place / "out").glob("mine-fit-lam20-2seeds-*")
    names = {path.name for path in directory.iterdir()}
    assert names == {"runs.npz", "curves.png", "paths.png", "report.json", "request.json"}
    assert (directory / "paths.png").read_bytes()[:4] == b"\x89PNG"


def test_it_is_there_the_second_time(command, answer, arguments, place):
    files = {path: path.stat().st_mtime_ns for path in place.glob("out/*/*")}
    again = command(*arguments)
    assert again.out.strip() == answer.out.replace("Written", "Already there").strip()
    assert files == {path: path.stat().st_mtime_ns for path in place.glob("out/*/*")}
    report = json.loads(command(*arguments, "--json").out)
    assert set(report["methods"]) == {"none", "SR", "SR distance", "DR exact", "DR fit"}
    assert report["methods"]["DR exact"]["steps_to_optimal"]["mean"] > 0


def test_another_potential_of_the_same_name_is_another_request(
    command, answer, arguments, place, monkeypatch
):
    """The content of the file counts, and so does every option."""
    asked = []
    monkeypatch.setattr(shape.Shape, "_compare", lambda self, world, result, console: asked.append(result.path) or json.loads((next(place.glob("out/*/report.json"))).read_text()))  # fmt: skip
    command(*arguments, "--epsilon", 0.1)
    content = (place / "fit.npz").read_bytes()
    (place / "fit.npz").write_bytes(content + b" ")
    command(*arguments)
    (place / "fit.npz").write_bytes(content)
    assert "Already there" in command(*arguments).out
    assert len(set(asked)) == 2


@pytest.mark.slow
def test_learns_its_potentials_and_finds_them_again(command, place, monkeypatch):
    short = replace(config.PRESETS["fast"], updates=100)
    monkeypatch.setitem(config.PRESETS, "fast", short)
    asked = []
    monkeypatch.setattr(shape.Shape, "_compare", lambda self, world, result, console: asked.append(self._learned(world, console)) or {"files": {"a": "a", "b": "b"}, "warnings": [], "table": output.table("", "", [{"a": ""}], left=())})  # fmt: skip
    arguments = (
        "shape",
        place / "mine.txt",
        "--inputs",
        "coordinates",
        "--seeds",
        2,
        "--successor",
    )
    arguments = (*arguments, "--fits", place / "learned", "--out", place / "out")
    assert command(*arguments).status == 0
    (fit,) = (place / "learned").glob("mine-coordinates-fast-drogo-lam20-2seeds-*/fit.npz")
    written = fit.stat().st_mtime_ns
    assert command(*arguments, "--overwrite").status == 0
    assert fit.stat().st_mtime_ns == written
    assert asked[0]["DR coordinates"].shape == (2, 15)
    assert (asked[0]["DR coordinates"] == asked[1]["DR coordinates"]).all()
    closed = successor_potential(GridWorld.parse(MAP).mdp, 0.99)
    for learned in asked[0]["SR coordinates"]:
        assert np.corrcoef(learned, closed)[0, 1] > 0.98


def test_wrong_use(command, place):
    for arguments, message in (
        (("mine.txt", "--steps", 150), "multiple of 100"),
        (("mine.txt", "--seeds", 0), "--seeds is 0"),
        (("mine.txt", "--potential", "absent.npz"), "absent.npz cannot be read"),
        (("CartPole-v1",), "is not a grid world"),
        (("mine.txt", "--successor", "--potential", "fit.npz"), "Leave one of them out"),
        (("four-room",), "Did you mean four-rooms"),
        (("four-rooms", "--potential", place / "fit.npz"), "was not learned in four-rooms"),
    ):
        env, *options = arguments
        env = place / env if env.endswith(".txt") else env
        answer = command("shape", env, *options, "--out", place / "out")
        assert answer.status == 2
        assert message in answer.err


def test_says_when_discounting_hides_the_best_return():
    """At discount 1/2, waiting forever costs 2, and the only way to the goal costs 20."""
    world = GridWorld.parse("#####\n#SxG#\n#####")
    assert "never reaches a terminal state, but the best return is -21" in shape._discount_warning(world, 0.5)  # fmt: skip
    assert shape._discount_warning(world, 0.99) == ""


def test_warnings_are_printed(tmp_path):
    report = {"files": {"a": "a", "b": "b"}, "warnings": ["Raise --discount."]}
    report["table"] = output.table("title", "caption", [{"name": "cell"}], left=("name",))
    stream = io.StringIO()
    output.print_report(Console(file=stream), report, tmp_path, "Written", as_json=False)
    assert "Raise --discount." in stream.getvalue()
    assert "cell" in stream.getvalue()
