"""`drogo train`."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import needs
from drogo.cli.output import NEW, OLD
from drogo.engines.store import Record
from drogo.worlds.resolve import resolve
from drogo_paper.cli import train as verb, train_report, train_runs
from drogo_paper.cli.train import Train

MAP = "step-limit: 40\n\n#######\n#S.x.G#\n#..x..#\n#.....#\n#######\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("train")
    (directory / "mine.txt").write_text(MAP)
    return directory


@pytest.fixture(autouse=True)
def few_frames(monkeypatch):
    monkeypatch.setattr(train_report, "FRAMES", 3)


def train(command, place, agent, *options):
    arguments = ("--agent", agent, "--seeds", 1, "--workers", 1, "--out", place / "out", *options)
    return command("train", place / "mine.txt", *arguments)


def run(function, options, steps, tmp_path, **settings):
    """Runs a job of `drogo train` in this process."""
    settings = {**train_runs.settings_of(options), "steps": steps, "method": "map", **settings}
    done = function(settings, tmp_path / "scratch", lambda share: None)
    return Record(done.arrays, done.facts, status={}, path=Path())


def both(function, options, steps, tmp_path, **settings):
    return {(method, 0): run(function, options, steps, tmp_path, method=method, **settings)
            for method in ("map", "plain")}  # fmt: skip


@pytest.mark.slow
def test_a_table_learns_the_map_while_it_trains(command, place):
    answer = train(command, place, "q-learning", "--steps", 2000)
    assert (answer.status, answer.err) == (0, "")
    assert "with the map" in answer.out
    assert "1 seed," in answer.out
    (directory,) = (place / "out").glob("mine-q-learning-*")
    report = json.loads((directory / "report.json").read_text())
    row = report["methods"]["with the map"]
    assert row["solved"] == 1
    assert row["steps_to_solve"][0] == row["median_steps_to_solve"] <= 1500
    assert row["mean_low_reward_visits"] > 0
    assert "low-reward visits: visits to low-reward cells" in report["table"]["caption"]
    with Image.open(directory / "map.gif") as moving:
        assert moving.n_frames == 3
    again = train(command, place, "q-learning", "--steps", 2000)
    assert again.out.strip() == answer.out.replace(NEW, OLD).strip()


@pytest.mark.slow
def test_an_agent_of_stable_baselines3(command, place):
    needs.module("stable_baselines3")
    answer = train(command, place, "dqn", "--steps", 120, "--map", "network", "--json")
    report = json.loads(answer.out)
    assert (report["agent"], report["steps"]) == ("dqn", 120)
    assert np.isfinite(report["methods"]["with the map"]["mean_final_return"])
    assert any("give --steps 1500 or more" in warning for warning in report["warnings"])


def test_unvisited_states_are_nan_and_unreached_goals_are_reported(place, tmp_path):
    options = Train(str(place / "mine.txt"), agent="q-learning", seeds=2)
    world = resolve(options.env)
    records = both(train_runs.run_table, options, 2, tmp_path, seeds=2)
    maps = records["map", 0].arrays["maps"]
    assert 1 <= np.isfinite(maps[0]).sum() <= 2
    assert np.isfinite(maps[1]).sum() <= 3
    (first, second) = train_report.warnings_of(options, world, 2, records)
    assert "seeds 0, 1 with the map" in first
    assert "seeds 0, 1 without the map" in second
    title = train_report.frames(world, records["map", 0])[0].axes[0].get_title()
    assert train_report.UNSEEN in title


def test_a_damaged_checkpoint_is_dropped_with_a_note(place, tmp_path):
    needs.module("stable_baselines3")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "checkpoint.npz").write_bytes(b"half a file")
    options = Train(str(place / "mine.txt"))
    records = both(train_runs.run_deep, options, 8, tmp_path, seed=0)
    assert len(records["map", 0].facts["notes"]) == 1
    assert records["map", 0].arrays["steps"].tolist() == [8]
    warnings = train_report.warnings_of(options, resolve(options.env), 8, records)
    assert "started again" in warnings[0]


def deep_records(**changes):
    arrays = {"steps": np.array([500.0, 1000, 1500, 2000]), "returns": np.full((1, 4), -9.0),
              "maps": np.zeros((4, 0)), "solved_at": np.array([500.0]), "bad_ends": np.array([2.0]),
              "failed_later": np.array([[1.0, 1.0]]), "arrived": np.array([True]),
              "places": np.zeros((0, 2))}  # fmt: skip
    facts = {"diverged": False, "names": ["", ""], "notes": [], **changes}
    record = Record(arrays, facts, status={}, path=Path())
    return {("map", 0): record, ("plain", 0): record}


def test_later_failures_bad_ends_and_a_map_that_diverged_are_reported():
    options = Train("MountainCar-v0", seeds=1)
    report = train_report.report(options, resolve(options.env), deep_records(diverged=True))
    row = dict(zip(report["table"]["columns"], report["table"]["rows"][0], strict=True))
    assert (row["later failed"], row["bad ends"], row["solved"]) == ("1 of 1", "2", "1 of 1")
    assert report["methods"]["with the map"]["failed_after_solved"] == 1
    assert report["methods"]["with the map"]["mean_bad_ends"] == 2
    assert "ended in a bad terminal state" in report["table"]["caption"]
    assert "reached the goal" in report["table"]["caption"]
    assert any("diverged" in warning for warning in report["warnings"])


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("MountainCar-v0", "--agent", "q-learning"), "--agent"),
        (("four-rooms", "--seeds", 0), "--seeds"),
        (("four-rooms", "--weight", 1.5, "--agent", "q-learning"), "--weight"),
        (("four-rooms", "--lam", 0), "--lam"),
        (("four-rooms", "--optimism", "inf"), "--optimism"),
        (("MountainCar-v0", "--reward", 1), "--reward"),
        (("four-rooms", "--agent", "q-learning", "--map", "network"), "--map"),
        (("four-rooms", "--agent", "q-learning", "--observation", "pixels"), "--observation"),
        (("four-rooms", "--agent", "q-learning", "--reward", -1), "--reward"),
        (("four-rooms", "--agent", "q-learning", "--no-explore"), "--no-explore"),
        (("CartPole-v1", "--reward", -1), "env"),
        (("FrozenLake-v1",), "--reward"),
    ],
)
def test_errors_before_any_agent_is_trained(command, arguments, argument, tmp_path, monkeypatch):
    def start(*arguments):
        raise AssertionError("a worker was started")

    monkeypatch.setattr("drogo.engines.LocalEngine.run", start)
    monkeypatch.setattr(verb, "import_extra", lambda *arguments, **options: None)
    answer = command("train", *arguments, "--out", tmp_path, "--json")
    assert answer.status == 2
    assert json.loads(answer.out)["argument"] == argument
    assert not list(tmp_path.iterdir())
