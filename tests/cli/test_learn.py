"""`drogo learn`."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

import drogo
import needs
from drogo.cli.output import NEW, OLD
from drogo.worlds import control
from drogo.worlds.resolve import Environment

SMALL = "#######\n#S.x..#\n#.....#\n#..x.G#\n#######"
TINY = "#####\n#S.G#\n#####"
FEW = ("--seeds", 1, "--updates", 4, "--transitions", 100, "--observation", "state", "--json")


@pytest.fixture
def learn_tiny(command, tmp_path, no_pictures):
    """Learns a map of three states, which takes a moment, and returns the report."""
    path = tmp_path / "tiny.txt"
    path.write_text(TINY)

    def learn(*arguments):
        answer = command("learn", path, *FEW, "--out", tmp_path / "out", *arguments)
        return json.loads(answer.out) if answer.status == 0 else answer

    learn.map = path
    learn.out = tmp_path / "out"
    return learn


def kind_of(answer):
    """The kind of the error that a command printed as JSON."""
    assert answer.status == 2
    return json.loads(answer.out)["kind"]


@pytest.fixture(scope="module")
def learned(command, tmp_path_factory):
    """A map of one's own: the arguments, and what the command printed."""
    directory = tmp_path_factory.mktemp("learned")
    (directory / "small.txt").write_text(SMALL)
    common = ("--seeds", 2, "--updates", 300, "--transitions", 20_000)
    arguments = ("learn", directory / "small.txt", *common, "--out", directory / "out")
    return arguments, command(*arguments)


def test_a_map_of_ones_own(learned, command):
    arguments, answer = learned
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.count("converged") == 3
    assert "\nGood: all seeds converged, to within" in answer.out
    (directory,) = arguments[-1].iterdir()
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["picture.png", "report.json", "request.json", "solution.npz"]
    assert (directory / "picture.png").read_bytes()[:4] == b"\x89PNG"
    assert drogo.load(directory / "solution.npz").status == ("converged", "converged")
    report = json.loads(command(*arguments, "--json").out)
    assert report["network"] == "MLP"
    assert [seed["seed"] for seed in report["seeds"]] == [0, 1]
    assert min(seed["cosine_column"] for seed in report["seeds"]) > 0.9
    assert report["settings"]["method"]["updates"] == 300
    assert "table" not in report


def test_a_result_that_is_there_is_printed_without_jax(learned):
    arguments, answer = learned
    code = "import sys; from drogo.cli import main; main(sys.argv[1:])"
    code += "; assert not {'jax', 'matplotlib'} & set(sys.modules)"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == answer.out.replace(NEW, OLD).strip()


@pytest.mark.slow
def test_every_other_request_is_another_result(learn_tiny):
    """Settings of the fit, of the data, of the world: never an old result for a new request."""
    first = learn_tiny()
    fits = [first["files"]["solution"]]
    for arguments in (
        ("--step-size", 0.01), ("--set", "cap=inf"), ("--set", "emphasis=0.5"), ("--data-seed", 9),
        ("--transitions", 99), ("--lam", 5), ("--method", "regression"),
    ):  # fmt: skip
        fits.append(learn_tiny(*arguments)["files"]["solution"])
    learn_tiny.map.write_text(f"reward .: -2\n\n{TINY}")
    fits.append(learn_tiny()["files"]["solution"])
    assert len(set(fits)) == len(fits) == len(list(learn_tiny.out.iterdir()))
    learn_tiny.map.write_text(TINY)
    assert learn_tiny() == first


def test_a_moved_or_incomplete_result_is_refused(learn_tiny):
    first, second = (learn_tiny("--data-seed", seed) for seed in (1, 2))
    mine, theirs = (Path(report["files"]["solution"]).parent for report in (first, second))
    mine.rename(f"{mine}-away")
    theirs.rename(mine)
    assert kind_of(learn_tiny("--data-seed", 1)) == "AlreadyExists"
    assert learn_tiny("--data-seed", 1, "--overwrite")["seeds"] == first["seeds"]
    Path(first["files"]["picture"]).unlink()
    assert kind_of(learn_tiny("--data-seed", 1)) == "AlreadyExists"


def test_two_runs_at_once(learn_tiny, monkeypatch):
    """While a run trains, the same one is refused, and one with other data begins and ends."""
    fit, others = drogo.fit, []

    def slow(*positional, **arguments):
        if not others:
            others.append(None)
            for options in (("1",), ("1", "--overwrite"), ("2",)):
                others.append(learn_tiny("--data-seed", *options))
        return fit(*positional, **arguments)

    monkeypatch.setattr(drogo, "fit", slow)
    first = learn_tiny("--data-seed", 1)
    assert [kind_of(answer) for answer in others[1:3]] == ["AlreadyExists"] * 2
    assert [learn_tiny("--data-seed", seed) for seed in (1, 2)] == [first, others[3]]
    assert drogo.load(first["files"]["solution"]).status == (first["seeds"][0]["status"],)


def test_interrupted_and_resumed(learn_tiny, monkeypatch):
    """Ctrl-C leaves a checkpoint; --resume ends where an undisturbed run does."""
    fit = drogo.fit

    def interrupted(*positional, callbacks, **arguments):
        def stop(event):
            if event.update >= 5:
                raise KeyboardInterrupt

        return fit(*positional, callbacks=[*callbacks, stop], **arguments)

    many = ("--updates", 200, "--set", "stop_early=false")
    monkeypatch.setattr(drogo, "fit", interrupted)
    answer = learn_tiny(*many)
    assert answer.status == 130
    (directory,) = learn_tiny.out.iterdir()
    assert sorted(os.listdir(directory)) == ["checkpoint.npz", "request.json"]
    monkeypatch.setattr(drogo, "fit", fit)
    assert kind_of(learn_tiny(*many)) == "AlreadyExists"
    updates = learn_tiny(*many, "--resume")["updates"]
    assert "checkpoint.npz" not in os.listdir(directory)
    resumed = drogo.load(directory / "solution.npz").v
    assert learn_tiny(*many, "--overwrite")["updates"] == updates
    whole = drogo.load(directory / "solution.npz").v
    assert np.array_equal(resumed, whole)


def test_learning_curves_are_logged(learn_tiny, monkeypatch):
    events = []

    class Recorder:
        def __init__(self, *directory, **settings):
            events.append((directory, settings))

        def __call__(self, event):
            events.append((event.update, event.updates))

    monkeypatch.setattr(drogo.learn, "TensorBoard", Recorder)
    monkeypatch.setattr(drogo.learn, "WandB", Recorder)
    report = learn_tiny("--log", "tensorboard")
    directory = Path(report["files"]["solution"]).parent
    assert events[0] == ((directory / "tensorboard",), {})
    assert events[-1] == (4, 4)
    assert learn_tiny("--log", "wandb") == report  # it is no part of the request
    learn_tiny("--log", "wandb", "--overwrite")
    assert ((), {"project": "drogo", "name": directory.name}) in events


@pytest.mark.parametrize("name", ["Regression", "NaturalGDO", "LogGDO", "GDO"])
def test_every_method(learn_tiny, name):
    option = name.lower().replace("algdo", "al-gdo").replace("loggdo", "log-gdo")
    assert learn_tiny("--method", option)["method"] == name


@pytest.fixture
def observed(monkeypatch):
    """The observations that fits are given, which do not begin."""
    observations = []

    def stop(data, *positional, **arguments):
        observations.append(data.observations)
        raise KeyboardInterrupt

    monkeypatch.setattr(drogo, "fit", stop)
    return observations


def test_pixels(learn_tiny, observed):
    assert learn_tiny("--observation", "pixels").status == 130
    assert observed[0].shape == (3, 3, 5, 3)


@pytest.mark.slow
def test_a_continuous_environment_is_checked_by_rollouts(command, tmp_path):
    few = ("--seeds", 1, "--updates", 5, "--transitions", 1000, "--set", "width=16", "depth=2")
    ask = ("learn", "CartPole-v1", "--reward", -1, *few, "--certify", 2, "--out", tmp_path)
    answer = command(*ask)
    assert answer.status == 0
    assert "by rollouts" in answer.out
    assert "of 2 values are within" in answer.err
    assert len(list(tmp_path.glob("*/certificate.png"))) == 1
    seeds = json.loads(command(*ask, "--json").out)["seeds"]
    assert {seed["certificate"] for seed in seeds} <= {"certified", "refuted", "undecided"}


def test_the_picture_of_a_tabular_environment_shows_the_truth():
    from drogo.cli import pictures
    from drogo.worlds.resolve import resolve

    world = resolve("CliffWalking-v1", reward=-1.0)
    data = drogo.collect(world.env, 20_000, seed=0, **world.sampling)
    truth = world.truth(data.observations, data.terminal_states, 20.0)
    mdp = world.mdp
    exact = dict(zip(mdp.states, drogo.exact.log_column(mdp, 20.0), strict=True))
    np.testing.assert_array_equal(truth["column"], [exact[int(s)] for s in data.observations])
    fit = drogo.fit(data, drogo.Column(), drogo.Drogo(updates=2), truth=truth)
    titles = [axes.get_title() for axes in pictures.learned(world, fit, truth, "how").axes]
    assert titles == ["exact column", "learned", "learned - exact", "learning curves"]


def test_the_table_fits_in_80_columns(command, learn_tiny, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    arguments = (*FEW[:-1], "--set", "stop_early=false", "--out", learn_tiny.out)
    lines = command("learn", learn_tiny.map, *arguments).out.splitlines()
    head = next(k for k, line in enumerate(lines) if line.startswith("seed "))
    assert "max_updates" in lines[head + 2]
    assert lines[head + 4].startswith("Not good: 1 of 1 seed did not converge in time")
    assert max(map(len, lines[head:-1])) <= 80


def test_a_tabular_environment(command, tmp_path):
    few = ("--seeds", 1, "--updates", 300, "--transitions", 5000, "--out", tmp_path, "--json")
    report = json.loads(command("learn", "FrozenLake-v1", "--reward", -1, *few).out)
    assert report["seeds"][0]["cosine_column"] > 0.9
    assert [path.name for path in tmp_path.glob("*/*.png")] == ["picture.png"]


@pytest.mark.parametrize(("network", "setting"), [("table", "width=9"), ("cnn", "frequencies=2")])
def test_a_setting_without_effect_is_an_error(learn_tiny, network, setting):
    answer = learn_tiny("--network", network, "--set", setting)
    assert (kind_of(answer), json.loads(answer.out)["argument"]) == ("ArgumentError", "set")
    assert not learn_tiny.out.exists()


def test_an_environment_without_a_truth(command, tmp_path, monkeypatch, no_pictures):
    monkeypatch.setattr(Environment, "known_mdp", None)
    few = ("--seeds", 1, "--updates", 4, "--transitions", 300, "--out", tmp_path)
    answer = command("learn", "FrozenLake-v1", "--reward", -1, *few)
    assert answer.status == 0
    assert "No exact vector is known" in answer.out
    assert "\nNot good: 1 of 1 seed did not converge in time; the largest error is" in answer.out
    assert all(line.startswith("drogo: ") for line in answer.err.splitlines())
    assert ".py" not in answer.err


@pytest.mark.slow
def test_a_minigrid(command, tmp_path, monkeypatch):
    """With so many pictures that an MLP on the pixels that change is chosen for them."""
    needs.module("minigrid")
    monkeypatch.setattr("drogo.learn.method.MANY_IMAGES", 20)
    few = ("--seeds", 1, "--updates", 300, "--transitions", 5000, "--out", tmp_path)
    arguments = ("learn", "MiniGrid-Empty-5x5-v0", "--tile", 2, *few, "--json")
    report = json.loads(command(*arguments).out)
    assert report["network"] == "MLP"
    assert report["seeds"][0]["cosine_column"] > 0.9
    assert json.loads(command(*arguments).out) == report


@pytest.mark.slow
def test_a_continuous_environment(command, tmp_path, monkeypatch):
    coarse = partial(control.mountain_car_truth, nodes=(81, 81))
    monkeypatch.setattr(control, "mountain_car_truth", coarse)
    few = ("--seeds", 1, "--updates", 5, "--transitions", 1000, "--set", "width=16", "depth=2")
    few += ("--certify", 0)
    report = json.loads(command("learn", "MountainCar-v0", *few, "--out", tmp_path, "--json").out)
    assert report["network"] == "MLP"
    assert "cosine_column" in report["seeds"][0]
    assert len(list(tmp_path.glob("*/picture.png"))) == 1


class Pair(gymnasium.Env):
    observation_space = spaces.Dict({name: spaces.Box(0, 1, (1,), np.float32) for name in "ab"})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(0.0), {}

    def step(self, action):
        return self.seen(float(action)), -1.0, bool(action), False, {}

    def seen(self, place):
        return {"a": np.float32([place]), "b": np.float32([0.5])}


def test_several_parts_of_a_dict(command, tmp_path, monkeypatch, observed):
    monkeypatch.setitem(gymnasium.registry, "Pair-v0", EnvSpec("Pair-v0", entry_point=Pair))
    arguments = ("learn", "Pair-v0", "--transitions", 50, "--out", tmp_path / "out")
    for keys in (("b", "a"), ("a",)):
        assert command(*arguments, "--key", *keys).status == 130
    assert [rows.tolist() for rows in observed] == [[[0.5, 0.0], [0.5, 1.0]], [[0.0], [1.0]]]
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names[0].startswith("Pair-v0-a-drogo")
    assert names[1].startswith("Pair-v0-b+a-drogo")
