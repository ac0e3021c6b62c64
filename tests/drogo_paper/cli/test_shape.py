"""`drogo shape`."""

import json
from functools import partial

import numpy as np
import pytest

from drogo import GridWorld
from drogo.cli.learn import Learn
from drogo.cli.output import NEW, OLD, table
from drogo_paper.agents.shaping_experiment import successor_potential
from drogo_paper.cli import shape

MAP = "step-limit: 40\n\n#######\n#S.x.G#\n#..x..#\n#.....#\n#######\n"


@pytest.fixture(scope="module")
def place(command, tmp_path_factory):
    """A directory with a map, a fit of it, and what `drogo shape` printed about both."""
    directory = tmp_path_factory.mktemp("shape")
    (directory / "mine.txt").write_text(MAP)
    few = ("--seeds", 2, "--updates", 300, "--transitions", 20_000, "--observation", "state")
    command("learn", directory / "mine.txt", *few, "--out", directory / "fits")
    (fit,) = (directory / "fits").glob("*/solution.npz")
    (directory / "fit.npz").write_bytes(fit.read_bytes())
    return directory


@pytest.fixture(scope="module")
def arguments(place):
    short = ("shape", place / "mine.txt", "--seeds", 2, "--steps", 3000)
    return (*short, "--potential", place / "fit.npz", "--out", place / "out")


def test_a_map_of_ones_own_with_a_saved_fit_is_there_the_second_time(command, arguments, place):
    answer = command(*arguments)
    assert (answer.status, answer.err) == (0, "")
    assert "Raise --discount" not in answer.out
    (directory,) = (place / "out").glob("mine-fit-lam20-2seeds-*")
    files = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    names = {path.name for path in files}
    assert names == {"runs.npz", "curves.png", "paths.png", "report.json", "request.json"}
    again = command(*arguments)
    assert again.out.strip() == answer.out.replace(NEW, OLD).strip()
    assert files == {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    report = json.loads(command(*arguments, "--json").out)
    assert set(report["methods"]) == {"none", "SR", "SR distance", "DR exact", "DR fit"}
    assert report["methods"]["DR exact"]["steps_to_optimal"]["mean"] > 0


@pytest.mark.slow
def test_learns_its_potentials_and_finds_them_again(command, place, monkeypatch):
    monkeypatch.setattr(shape, "Learn", partial(Learn, updates=100))
    asked = []
    report = {"files": {"a": "a"}, "warnings": [], "table": table("", "", [{"a": ""}], left=())}

    def compare(self, world, result, console):
        asked.append(self.learned(world, console))
        return report

    monkeypatch.setattr(shape.Shape, "compare", compare)
    arguments = ("shape", place / "mine.txt", "--inputs", "coordinates", "--seeds", 2)
    arguments += ("--successor", "--fits", place / "learned", "--out", place / "out")
    assert command(*arguments).status == 0
    (fit,) = (place / "learned").glob("mine-*/solution.npz")
    written = fit.stat().st_mtime_ns
    assert command(*arguments, "--overwrite").status == 0
    assert fit.stat().st_mtime_ns == written
    assert asked[0]["DR coordinates"].shape == (2, 15)
    assert (asked[0]["DR coordinates"] == asked[1]["DR coordinates"]).all()
    closed = successor_potential(GridWorld.parse(MAP).mdp, 0.99)
    for learned in asked[0]["SR coordinates"]:
        assert np.corrcoef(learned, closed)[0, 1] > 0.98


@pytest.mark.parametrize(
    ("env", "options", "kind", "argument"),
    [
        ("mine.txt", ("--steps", 150), "ArgumentError", "steps"),
        ("mine.txt", ("--seeds", 0), "ArgumentError", "--seeds"),
        ("mine.txt", ("--potential", "absent.npz"), "MissingFile", None),
        ("CartPole-v1", (), "ArgumentError", "env"),
        ("mine.txt", ("--successor", "--potential", "fit.npz"), "ArgumentError", "successor"),
        ("four-rooms", ("--potential", "fit.npz"), "ArgumentError", "potential"),
    ],
)
def test_wrong_use(command, place, monkeypatch, env, options, kind, argument):
    monkeypatch.chdir(place)
    answer = command("shape", env, *options, "--out", place / "out", "--json")
    assert answer.status == 2
    error = json.loads(answer.out[answer.out.index("{") :])
    assert (error["kind"], error["argument"]) == (kind, argument)


def test_a_warning_when_discounting_hides_the_best_return():
    """At discount 1/2, waiting for ever costs 2, and the only way to the goal costs 20."""
    world = GridWorld.parse("#####\n#SxG#\n#####")
    assert "the best return is -21" in shape.discount_warning(world, 0.5)
    assert shape.discount_warning(world, 0.99) == ""
