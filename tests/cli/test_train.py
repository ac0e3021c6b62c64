"""`drogo train`."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import needs
from drogo.cli import train_checks, train_pictures, train_report, training
from drogo.cli.train import Train
from drogo.plot.training import growth
from drogo.runs.store import Record
from drogo.worlds.resolve import resolve

MAP = "step-limit: 40\n\n#######\n#S.x.G#\n#..x..#\n#.....#\n#######\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("train")
    (directory / "mine.txt").write_text(MAP)
    return directory


@pytest.fixture(autouse=True)
def few_frames(monkeypatch):
    monkeypatch.setattr(train_pictures, "FRAMES", 3)


def train(command, place, agent, *options):
    arguments = ("--agent", agent, "--seeds", 1, "--workers", 1, "--out", place / "out", *options)
    return command("train", place / "mine.txt", *arguments)


def run(function, options, steps, tmp_path, **settings):
    """Runs a job of `drogo train` in this process."""
    settings = {**training.settings_of(options), "steps": steps, "method": "map", **settings}
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
    assert again.out.strip() == answer.out.replace("Written", "Already there").strip()


@pytest.mark.slow
def test_an_agent_of_stable_baselines3(command, place):
    needs.module("stable_baselines3")
    answer = train(command, place, "dqn", "--steps", 120, "--map", "network", "--json")
    report = json.loads(answer.out)
    assert (report["agent"], report["steps"]) == ("dqn", 120)
    assert np.isfinite(report["methods"]["with the map"]["mean_final_return"])
    assert any("give --steps 1500 or more" in warning for warning in report["warnings"])
    (directory,) = (place / "out").glob("mine-dqn-*")
    assert "curves.png" in {path.name for path in directory.iterdir()}


def test_with_and_without_a_map_tables_replay_alike(place, tmp_path):
    """A map of weight 0 changes nothing, so nothing else may differ either."""
    options = Train(str(place / "mine.txt"), agent="q-learning", weight=0.0, seeds=2)
    records = both(training.run_table, options, 1000, tmp_path, seeds=2)
    for name in ("returns", "solved_at", "low_reward_visits"):
        assert np.array_equal(records["map", 0].arrays[name], records["plain", 0].arrays[name])


def test_what_a_table_has_not_seen_is_unknown_and_a_goal_that_was_not_seen_is_told(place, tmp_path):
    options = Train(str(place / "mine.txt"), agent="q-learning", seeds=2)
    world = resolve(options.env)
    records = both(training.run_table, options, 2, tmp_path, seeds=2)
    maps = records["map", 0].arrays["maps"]
    assert 1 <= np.isfinite(maps[0]).sum() <= 2
    assert np.isfinite(maps[1]).sum() <= 3
    (first, second) = train_report.warnings_of(options, world, 2, records)
    assert first.startswith("No goal was reached in training by seeds 0, 1 with the map")
    assert second.startswith("No goal was reached in training by seeds 0, 1 without the map")
    title = train_pictures.frames(world, records["map", 0])[0].axes[0].get_title()
    assert train_pictures.UNSEEN in title


def test_a_goal_that_is_too_far_and_a_bad_end_that_was_found_are_told(tmp_path):
    path = tmp_path / "far.txt"
    path.write_text(
        "step-limit: 8\ngoal L: -50\n\n##############\n#LS.........G#\n##############\n"
    )
    options = Train(str(path), agent="q-learning", seeds=2)
    records = both(training.run_table, options, 100, tmp_path, seeds=2)
    assert not np.isfinite(records["map", 0].arrays["solved_at"]).any()
    cut, *lost = train_report.warnings_of(options, resolve(options.env), 100, records)
    assert cut.startswith("The best policy takes 10 steps or more to the end, and episodes are cut")
    assert [text[:33] for text in lost] == ["No goal was reached in training b"] * 2


def test_a_time_limit_ends_episodes_of_a_control_problem(tmp_path):
    needs.module("stable_baselines3")
    record = run(training.run_deep, Train("MountainCar-v0"), 4, tmp_path, method="plain", seed=0)
    assert -200 <= record.arrays["returns"][0, -1] < 0
    options = training.settings_of(Train("Acrobot-v1"))
    world = resolve("Acrobot-v1")
    assert training.make_map(options, world, world.make(limited=True)).reward == -1
    assert training.episodes_of(world) >= 5


def test_a_damaged_checkpoint_is_dropped_with_a_note(place, tmp_path):
    needs.module("stable_baselines3")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "checkpoint.npz").write_bytes(b"half a file")
    options = Train(str(place / "mine.txt"))
    records = both(training.run_deep, options, 8, tmp_path, seed=0)
    assert len(records["map", 0].facts["notes"]) == 1
    assert records["map", 0].arrays["steps"].tolist() == [8]
    warnings = train_report.warnings_of(options, resolve(options.env), 8, records)
    assert "started afresh" in warnings[0]


def deep_records(**changes):
    arrays = {"steps": np.array([500.0, 1000, 1500, 2000]), "returns": np.full((1, 4), -9.0),
              "maps": np.zeros((4, 0)), "solved_at": np.array([500.0]), "bad_ends": np.array([2.0]),
              "failed_later": np.array([[1.0, 1.0]]), "found": np.array([True]),
              "places": np.zeros((0, 2))}  # fmt: skip
    facts = {"diverged": False, "names": ["", ""], "notes": [], **changes}
    record = Record(arrays, facts, status={}, path=Path())
    return {("map", 0): record, ("plain", 0): record}


def test_later_failures_bad_ends_and_a_map_that_diverged_are_told():
    options = Train("MountainCar-v0", seeds=1)
    report = train_report.report(options, resolve(options.env), deep_records(diverged=True))
    row = dict(zip(report["table"]["columns"], report["table"]["rows"][0], strict=True))
    assert (row["later failed"], row["bad ends"], row["solved"]) == ("1 of 1", "2", "1 of 1")
    assert report["methods"]["with the map"]["failed_after_solved"] == 1
    assert report["methods"]["with the map"]["mean_bad_ends"] == 2
    assert "ended in a bad terminal state" in report["table"]["caption"]
    assert "reached the goal" in report["table"]["caption"]
    assert any("diverged" in warning for warning in report["warnings"])


def test_ends_that_are_not_told_apart_are_not_called_goals():
    options = Train("FrozenLake-v1", seeds=1, reward=-1.0)
    table = train_report.report(options, resolve(options.env), deep_records())["table"]
    assert "goal" not in table["caption"]
    assert "olved" not in table["caption"] + " ".join(table["columns"])
    assert "Whether that is good is not known" in table["caption"]


def test_judgements_are_never_closer_than_a_policy_needs_to_change():
    assert training.judged_every("dqn", 320) == training.EVERY["dqn"]
    assert training.judged_every("ppo", 1_000_000) == 25_000


def test_worlds_of_chance_are_judged_by_several_episodes(tmp_path):
    (tmp_path / "anywhere.txt").write_text("####\n#.G#\n#..#\n####\n")
    assert training.episodes_of(resolve(str(tmp_path / "anywhere.txt"))) == 5
    assert training.episodes_of(resolve("four-rooms")) == 1


def test_returns_of_failed_and_of_good_episodes_can_both_be_read():
    steps = np.array([10.0, 20.0, 30.0])
    seeds = [(steps, np.array([-4000.0, -4000.0, last])) for last in (-17.0, -19.0, -18.0)]
    axes = growth({"with": seeds, "without": seeds}, title="", label="").axes[0]
    assert axes.get_yscale() == "symlog"
    thin, thick = axes.lines[0], axes.lines[3]
    assert thin.get_linewidth() < thick.get_linewidth()
    assert thick.get_ydata()[-1] == -18
    close = [(steps, np.array([-20.0, -18.0, -17.0]))]
    assert growth({"with": close}, title="", label="").axes[0].get_yscale() == "linear"


def test_a_map_over_observations_of_many_numbers_says_what_its_axes_are():
    observations = np.random.default_rng(0).normal(size=(30, 4))
    places, names = training.plane_of(observations)
    values = np.where(np.arange(30) < 10, np.nan, -1.0)
    figure = train_pictures._cloud(places, names, values, limits=(-2.0, 0.0), title="")
    assert figure.axes[0].get_xlabel() == "1st principal component of the observations"
    assert len(figure.axes[0].collections[0].get_offsets()) == 10  # grey


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("MountainCar-v0", "--agent", "q-learning"), "not a grid world"),
        (("four-rooms", "--seeds", 0), "--seeds"),
        (("four-rooms", "--workers", -1), "--workers"),
        (("four-roms",), "four-rooms"),
        (("four-rooms", "--weight", 1.5, "--agent", "q-learning"), "--weight is 1.5"),
        (("four-rooms", "--lam", 0), "--lam is 0"),
        (("four-rooms", "--optimism", "inf"), "--optimism is inf"),
        (("four-rooms", "--discount", 2), "--discount is 2"),
        (("four-rooms", "--steps", 0), "--steps"),
        (("MountainCar-v0", "--reward", 1), "negative: --reward -1"),
        (("four-rooms", "--agent", "q-learning", "--map", "network"), "--map network is for"),
        (("four-rooms", "--agent", "q-learning", "--observation", "pixels"), "--observation is"),
        (("four-rooms", "--agent", "q-learning", "--reward", -1), "Leave --reward out"),
        (("four-rooms", "--agent", "q-learning", "--no-explore"), "--no-explore is for dqn"),
        (("CartPole-v1", "--reward", -1), "has the reward 1. `drogo train` is for tasks with an"),
        (("CartPole-v1",), "an end to reach at a cost"),
        (("FrozenLake-v1",), "has the reward 0, and the map needs a cost for every step. Give --reward -1"),
        (("MountainCarContinuous-v0", "--reward", -1), "must be Discrete"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_an_error_before_any_agent_is(
    command, arguments, message, tmp_path, monkeypatch
):
    from drogo import runs

    def start(*arguments):
        raise AssertionError("a worker was started")

    monkeypatch.setattr(runs.LocalEngine, "run", start)
    monkeypatch.setattr(train_checks, "import_extra", lambda *arguments, **options: None)
    answer = command("train", *arguments, "--out", tmp_path)
    assert answer.status != 0
    assert message in " ".join(answer.err.split())
    assert not list(tmp_path.iterdir())
