"""`drogo shape`, `drogo train` and `drogo options` in one small world, and wrong use of all verbs."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import needs
from drogo import GridWorld
from drogo.cli.learn import Learn
from drogo.cli.output import NEW, OLD, table
from drogo.files import read_arrays
from drogo.worlds.resolve import resolve
from drogo_paper.agents import Cycle, LearnedDefault, discover
from drogo_paper.agents.shaping_experiment import successor_potential
from drogo_paper.cli import shape, train as verb, train_report, train_runs
from drogo_paper.cli.options import KIND
from drogo_paper.cli.train import Train
from drogo_paper.engines.store import Record

MAP = "step-limit: 40\n\n#######\n#S.x.G#\n#..x..#\n#.....#\n#######\n"
WORLD = GridWorld.parse(MAP)
SHORT = ("--iterations", 3, "--steps", 8, "--seeds", 2)
FLAGS = ("weight 1.5", "map network", "observation pixels", "reward -1", "no-explore")
WRONG = {
    "options CartPole-v1": "env",
    "options four-rooms-multigoal": "env",
    "options four-rooms --iterations 0": "iterations",
    "options four-rooms --step-size 0": "step_size",
    "options four-rooms --p-option 2": "p_option",
    "options four-rooms --discount 1": "discount",
    "shape mine.txt --steps 150": "steps",
    "shape mine.txt --seeds 0": "--seeds",
    "shape mine.txt --potential absent.npz": "MissingFile",
    "shape CartPole-v1": "env",
    "shape mine.txt --successor --potential fit.npz": "successor",
    "shape four-rooms --potential fit.npz": "potential",
    "train MountainCar-v0 --agent q-learning": "--agent",
    "train four-rooms --seeds 0": "--seeds",
    "train four-rooms --lam 0": "--lam",
    "train four-rooms --optimism inf": "--optimism",
    "train MountainCar-v0 --reward 1": "--reward",
    "train CartPole-v1 --reward -1": "env",
    "train FrozenLake-v1": "--reward",
    "reproduce cosines": "names",
    "reproduce --seeds 1": "seeds",
    "reproduce --address auto": "address",
    "report nowhere": "MissingFile",
    **{f"train four-rooms --agent q-learning --{flag}": f"--{flag.split()[0]}" for flag in FLAGS},
}


@pytest.fixture(scope="module")
def place(command, tmp_path_factory):
    directory = tmp_path_factory.mktemp("verbs")
    (directory / "mine.txt").write_text(MAP)
    few = ("--seeds", 2, "--updates", 300, "--transitions", 20_000, "--observation", "state")
    command("learn", directory / "mine.txt", *few, "--out", directory / "fits")
    (fit,) = (directory / "fits").glob("*/solution.npz")
    fit.rename(directory / "fit.npz")
    return directory


@pytest.fixture
def twice(command, place):
    """Runs a verb twice, the second time without computing anything, and returns its output."""

    def run(name, *options):
        results = []
        for _ in range(2):
            answer = command(name, place / "mine.txt", *options, "--out", place / name)
            assert (answer.status, answer.err) == (0, "")
            times = {path: path.stat().st_mtime_ns for path in (place / name).glob("*/*")}
            results.append((answer.out.replace(NEW, OLD).strip(), times))
        assert results[0] == results[1]
        return results[0][0]

    return run


def test_options_are_discovered_and_drawn(twice, place):
    twice("options", *SHORT)
    parts = (WORLD.without_goals(), LearnedDefault(0.03, 1, lam=1.3), Cycle(3, steps=8))
    expected = discover(*parts, seeds=range(2), may_end=False)
    (path,) = (place / "options").glob("*/options.npz")
    arrays = read_arrays(path, KIND, print)[0]
    for name in ("visited", "reward"):
        np.testing.assert_array_equal(arrays[name], getattr(expected, name))
    for name in ("action", "ends"):
        np.testing.assert_array_equal(arrays[name][-1], getattr(expected.options[0], name)[0])
    # A walk visits the start and where each step leads, and all walks are counted.
    assert arrays["visits"].sum(axis=1).tolist() == [9, 18, 27]
    assert (arrays["visits"][-1] > 0).mean() == arrays["visited"][0, -1]
    starts = {name: path.with_name(name).read_bytes()[:4] for name in ("curves.png", "visits.gif")}
    assert starts == {"curves.png": b"\x89PNG", "visits.gif": b"GIF8"}


@pytest.mark.parametrize("method", ["ceo", "untried", "race-exact", "ceo-exact"])
def test_options_of_each_method(command, place, tmp_path, monkeypatch, no_pictures, method):
    monkeypatch.setattr("drogo_paper.plot.figures.as_gif", lambda figures: b"")
    arguments = ("options", place / "mine.txt", "--method", method, *SHORT, "--out", tmp_path)
    report = json.loads(command(*arguments, "--json").out)
    assert (report["method"], report["inaccurate"], len(report["reward"])) == (method, 0, 3)
    assert 0 < report["visited"][0] <= report["visited"][-1] <= 1


def test_shaping_with_a_saved_fit(twice, place):
    """It warns if discounting hides the best return: at 1/2, waiting for ever costs 2, and here the
    only way to the goal costs 20."""
    world = GridWorld.parse("#####\n#SxG#\n#####")
    assert "the best return is -21" in shape.discount_warning(world, 0.5)
    assert shape.discount_warning(world, 0.99) == ""
    options = ("--seeds", 2, "--steps", 3000, "--potential", place / "fit.npz")
    assert "Raise --discount" not in twice("shape", *options)
    (directory,) = (place / "shape").glob("mine-fit-lam20-2seeds-*")
    names = {path.name for path in directory.iterdir()}
    assert names == {"runs.npz", "curves.png", "paths.png", "report.json", "request.json"}
    methods = json.loads((directory / "report.json").read_text())["methods"]
    assert set(methods) == {"none", "SR", "SR distance", "DR exact", "DR fit"}
    assert methods["DR exact"]["steps_to_optimal"]["mean"] > 0


def test_verbs_warn_of_worse_ends(command, tmp_path, monkeypatch):
    path = tmp_path / "lava.txt"
    path.write_text("step-limit: 40\ngoal L: -20\n\n########\n#G...SL#\n########\n")
    monkeypatch.setattr(shape.Shape, "learned", lambda *_: {})
    monkeypatch.setattr(shape, "_pictures", lambda *_: {})
    shaped = command("shape", path, "--seeds", 1, "--steps", 100, "--out", tmp_path)
    assert "leads into a worse end" in shaped.err
    discovered = command("options", path, "--method", "untried", *SHORT, "--out", tmp_path)
    assert "all ends are plain cells" in discovered.err


@pytest.mark.slow
def test_shaping_learns_its_potentials_and_finds_them_again(command, place, monkeypatch):
    asked, rows = [], table("", "", [{"a": ""}], left=())

    def compare(self, world, result, console):
        asked.append(self.learned(world, console))
        return {"files": {"a": "a"}, "warnings": [], "table": rows}

    monkeypatch.setattr(shape, "Learn", partial(Learn, updates=100))
    monkeypatch.setattr(shape.Shape, "compare", compare)
    arguments = ("shape", place / "mine.txt", "--inputs", "coordinates", "--seeds", 2)
    arguments += ("--successor", "--fits", place / "learned", "--out", place / "others")
    assert command(*arguments).status == 0
    (fit,) = (place / "learned").glob("mine-*/solution.npz")
    written = fit.stat().st_mtime_ns
    assert (command(*arguments, "--overwrite").status, fit.stat().st_mtime_ns) == (0, written)
    first, second = (maps["DR coordinates"] for maps in asked)
    assert first.shape == (2, 15)
    assert (first == second).all()
    closed = successor_potential(WORLD.mdp, 0.99)
    assert (np.corrcoef([closed, *asked[0]["SR coordinates"]])[0] > 0.98).all()


@pytest.fixture
def both(place, tmp_path, monkeypatch):
    """Runs jobs of `drogo train` in this process, with the map and without."""
    monkeypatch.setattr(train_report, "FRAMES", 3)

    def run(function, options, steps, **settings):
        records = {}
        for method in ("map", "plain"):
            asked = {**train_runs.settings_of(options), "steps": steps, "method": method}
            done = function({**asked, **settings}, tmp_path / "scratch", lambda share: None)
            records[method, 0] = Record(done.arrays, done.facts, status={}, path=Path())
        return records, train_report.warnings_of(options, resolve(options.env), steps, records)

    return run


@pytest.mark.slow
def test_a_table_learns_the_map_while_it_trains(twice, place, monkeypatch):
    monkeypatch.setattr(train_report, "FRAMES", 3)
    options = ("--agent", "q-learning", "--seeds", 1, "--workers", 1, "--steps", 2000)
    out = twice("train", *options)
    assert "with the map" in out
    assert "1 seed," in out
    (directory,) = (place / "train").glob("mine-q-learning-*")
    report = json.loads((directory / "report.json").read_text())
    row = report["methods"]["with the map"]
    assert row["solved"] == 1
    assert row["steps_to_solve"][0] == row["median_steps_to_solve"] <= 1500
    assert row["mean_low_reward_visits"] > 0
    assert "low-reward visits: visits to low-reward cells" in report["table"]["caption"]
    with Image.open(directory / "map.gif") as image:
        assert image.n_frames == 3


@pytest.mark.slow
def test_an_agent_of_stable_baselines3(command, place, tmp_path):
    needs.module("stable_baselines3")
    short = ("--steps", 120, "--map", "network", "--seeds", 1, "--workers", 1, "--json")
    report = json.loads(command("train", place / "mine.txt", *short, "--out", tmp_path).out)
    assert (report["agent"], report["steps"]) == ("dqn", 120)
    assert np.isfinite(report["methods"]["with the map"]["mean_final_return"])
    assert any("give --steps 1500 or more" in warning for warning in report["warnings"])


def test_unvisited_states_are_nan_and_unreached_goals_are_reported(place, both):
    options = Train(str(place / "mine.txt"), agent="q-learning", seeds=2)
    records, (first, second) = both(train_runs.run_table, options, 2, seeds=2)
    seen = np.isfinite(records["map", 0].arrays["maps"]).sum(axis=1)
    assert 1 <= seen[0] <= 2
    assert seen[1] <= 3
    assert "seeds 0, 1 with the map" in first
    assert "seeds 0, 1 without the map" in second
    frames = train_report.frames(resolve(options.env), records["map", 0])
    assert train_report.UNSEEN in frames[0].axes[0].get_title()


def test_a_damaged_checkpoint_is_dropped_with_a_note(place, both, tmp_path):
    needs.module("stable_baselines3")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "checkpoint.npz").write_bytes(b"half a file")
    records, warnings = both(train_runs.run_deep, Train(str(place / "mine.txt")), 8, seed=0)
    assert len(records["map", 0].facts["notes"]) == 1
    assert records["map", 0].arrays["steps"].tolist() == [8]
    assert "started again" in warnings[0]


def test_later_failures_bad_ends_and_a_map_that_diverged_are_reported():
    arrays = {"steps": np.array([500.0, 1000, 1500, 2000]), "returns": np.full((1, 4), -9.0),
              "maps": np.zeros((4, 0)), "solved_at": np.array([500.0]), "bad_ends": np.array([2.0]),
              "failed_later": np.array([[1.0, 1.0]]), "arrived": np.array([True]),
              "places": np.zeros((0, 2))}  # fmt: skip
    facts = {"diverged": True, "names": ["", ""], "notes": []}
    methods = (("map", 0), ("plain", 0))
    records = dict.fromkeys(methods, Record(arrays, facts, status={}, path=Path()))
    options = Train("MountainCar-v0", seeds=1)
    report = train_report.report(options, resolve(options.env), records)
    row = dict(zip(report["table"]["columns"], report["table"]["rows"][0], strict=True))
    assert (row["later failed"], row["bad ends"], row["solved"]) == ("1 of 1", "2", "1 of 1")
    method, caption = report["methods"]["with the map"], report["table"]["caption"]
    assert (method["failed_after_solved"], method["mean_bad_ends"]) == (1, 2)
    assert "ended in a bad terminal state" in caption
    assert "reached the goal" in caption
    assert any("diverged" in warning for warning in report["warnings"])


@pytest.mark.parametrize(("line", "wrong"), WRONG.items())
def test_errors_before_anything_is_trained(command, place, monkeypatch, line, wrong):
    monkeypatch.chdir(place)
    monkeypatch.setattr("drogo_paper.engines.LocalEngine.run", None)  # a worker is not started
    monkeypatch.setattr(verb, "import_extra", lambda *arguments, **options: None)
    answer = command(*line.split(), "--json")
    error = json.loads(answer.out)
    assert (answer.status, error["argument"] or error["kind"]) == (2, wrong)
    assert not list(Path("results").glob("*/*/report.json"))
