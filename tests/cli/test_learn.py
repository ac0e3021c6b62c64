"""`drogo learn`."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

import drogo
import needs
from drogo.cli import pictures
from drogo.cli.output import NEW, OLD
from drogo.worlds import control
from drogo.worlds.resolve import Environment, resolve
from small_lines import line_of

TINY = "#####\n#S.G#\n#####"
FEW = ("--seeds", 1, "--updates", 4, "--transitions", 100, "--observation", "state", "--json")


@pytest.fixture
def learn_tiny(command, tmp_path, no_pictures):
    """Learns a map of three states, which takes a moment, and returns the report."""

    def learn(*arguments):
        answer = command("learn", learn.map, *FEW, "--out", learn.out, *arguments)
        return json.loads(answer.out) if answer.status in (0, 2) else answer

    learn.map, learn.out = tmp_path / "tiny.txt", tmp_path / "out"
    learn.map.write_text(TINY)
    return learn


def test_a_map_of_ones_own(command, tmp_path):
    (tmp_path / "small.txt").write_text("#######\n#S.x..#\n#.....#\n#..x.G#\n#######")
    common = ("--seeds", 2, "--updates", 300, "--transitions", 20_000)
    arguments = ("learn", tmp_path / "small.txt", *common, "--out", tmp_path / "out")
    answer = command(*arguments)
    assert (answer.status, answer.err, answer.out.count("converged")) == (0, "", 3)
    assert "\nGood: all seeds converged, to within" in answer.out
    (directory,) = arguments[-1].iterdir()
    files = ["picture.png", "report.json", "request.json", "solution.npz"]
    assert sorted(os.listdir(directory)) == files
    assert (directory / "picture.png").read_bytes()[:4] == b"\x89PNG"
    assert drogo.load(directory / "solution.npz").status == ("converged", "converged")
    report = json.loads(command(*arguments, "--json").out)
    assert (report["network"], report["settings"]["method"]["updates"]) == ("MLP", 300)
    assert [seed["seed"] for seed in report["seeds"]] == [0, 1]
    assert min(seed["cosine_column"] for seed in report["seeds"]) > 0.9
    assert "table" not in report
    # The result that is there is printed without JAX.
    code = "import sys; from drogo.cli.main import main; main(sys.argv[1:])"
    code += "; assert not {'jax', 'matplotlib'} & set(sys.modules)"
    line, env = [sys.executable, "-c", code, *map(str, arguments)], {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=env)
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


def test_two_runs_at_once(learn_tiny, monkeypatch):
    fit, others = drogo.fit, []

    def slow(*positional, **arguments):
        if not others:
            others.append(None)
            for options in (("1",), ("1", "--overwrite"), ("2",)):
                others.append(learn_tiny("--data-seed", *options))
        return fit(*positional, **arguments)

    monkeypatch.setattr(drogo, "fit", slow)
    first = learn_tiny("--data-seed", 1)
    assert [answer["kind"] for answer in others[1:3]] == ["AlreadyExists"] * 2
    assert [learn_tiny("--data-seed", seed) for seed in (1, 2)] == [first, others[3]]
    assert drogo.load(first["files"]["solution"]).status == (first["seeds"][0]["status"],)


def test_interrupted_and_resumed(learn_tiny, monkeypatch):
    """Ctrl-C leaves a checkpoint, from which the same command ends where an undisturbed one does."""
    fit = drogo.fit

    def interrupted(*positional, callbacks, **arguments):
        def stop(event):
            if event.update >= 5:
                raise KeyboardInterrupt

        return fit(*positional, callbacks=[*callbacks, stop], **arguments)

    many = ("--updates", 200, "--set", "stop_early=false")
    monkeypatch.setattr(drogo, "fit", interrupted)
    assert learn_tiny(*many).status == 130
    (directory,) = learn_tiny.out.iterdir()
    assert sorted(os.listdir(directory)) == ["checkpoint.npz", "request.json"]
    monkeypatch.setattr(drogo, "fit", fit)
    updates = learn_tiny(*many)["updates"]
    assert "checkpoint.npz" not in os.listdir(directory)
    resumed = drogo.load(directory / "solution.npz").v
    assert learn_tiny(*many, "--overwrite")["updates"] == updates
    assert np.array_equal(resumed, drogo.load(directory / "solution.npz").v)


def test_learning_curves_are_logged(learn_tiny, monkeypatch):
    board, wandb = Mock(), Mock()
    monkeypatch.setattr(drogo.learn, "TensorBoard", board)
    monkeypatch.setattr(drogo.learn, "WandB", wandb)
    report = learn_tiny("--log", "tensorboard")
    directory = Path(report["files"]["solution"]).parent
    board.assert_called_once_with(directory / "tensorboard")
    (event,) = board.return_value.call_args.args
    assert (event.update, event.updates) == (4, 4)
    assert learn_tiny("--log", "wandb") == report  # it is no part of the request
    learn_tiny("--log", "wandb", "--overwrite")
    wandb.assert_called_once_with(project="drogo", name=directory.name)


@pytest.mark.parametrize("option", ["regression", "natural-gdo", "log-gdo", "gdo"])
def test_every_method(learn_tiny, option):
    assert learn_tiny("--method", option)["method"].lower() == option.replace("-", "")


def test_the_risk_neutral_problem(learn_tiny):
    (seed,) = (report := learn_tiny("--problem", "soft"))["seeds"]
    assert report["settings"]["problem"]["lam"] == 0.1  # a tenth of a step
    assert report["settings"]["method"]["action_values"] is True
    assert drogo.load(learn_tiny.out / report["files"]["solution"]).problem.kind == "soft"
    assert "difference_column" not in seed
    assert learn_tiny("--problem", "soft", "--method", "gdo")["kind"] == "ArgumentError"


@pytest.mark.slow
@pytest.mark.parametrize("env", ["CartPole-v1", "MountainCar-v0"])
def test_a_continuous_environment_is_checked_by_rollouts(command, tmp_path, monkeypatch, env):
    coarse = partial(control.mountain_car_truth, nodes=(81, 81))
    monkeypatch.setattr(control, "mountain_car_truth", coarse)
    few = ("--seeds", 1, "--updates", 5, "--transitions", 1000, "--set", "width=16", "depth=2")
    ask = ("learn", env, "--reward", -1, *few, "--certify", 2, "--out", tmp_path)
    answer = command(*ask)
    assert answer.status == 0
    assert "by rollouts" in answer.out
    assert "of 2 values are within" in answer.err
    assert sorted(p.name for p in tmp_path.glob("*/*.png")) == ["certificate.png", "picture.png"]
    report = json.loads(command(*ask, "--json").out)
    (seed,) = report["seeds"]
    assert seed["certificate"] in ("certified", "refuted", "undecided")
    assert (report["network"], "cosine_column" in seed) == ("MLP", env == "MountainCar-v0")


def test_a_tabular_environment(command, tmp_path):
    """The picture of one shows the truth."""
    few = ("--seeds", 1, "--updates", 300, "--transitions", 5000, "--out", tmp_path, "--json")
    lake = ("FrozenLake-v1", "--problem", "column", "--reward", -1)
    assert json.loads(command("learn", *lake, *few).out)["seeds"][0]["cosine_column"] > 0.9
    assert [path.name for path in tmp_path.glob("*/*.png")] == ["picture.png"]
    world = resolve("CliffWalking-v1", reward=-1.0)
    data = drogo.collect(world.env, 20_000, seed=0, **world.sampling)
    truth = world.truth(data.observations, data.terminal_states, 20.0)
    exact = dict(zip(world.mdp.states, drogo.exact.log_column(world.mdp, 20.0), strict=True))
    np.testing.assert_array_equal(truth["column"], [exact[int(s)] for s in data.observations])
    fit = drogo.fit(data, drogo.Column(), drogo.Drogo(updates=2), truth=truth)
    titles = [axes.get_title() for axes in pictures.learned(world, fit, truth, "how").axes]
    assert titles == ["exact column", "learned", "learned - exact", "learning curves"]


def test_the_table_fits_in_80_columns(command, learn_tiny, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    arguments = (*FEW[:-1], "--set", "stop_early=false", "--out", learn_tiny.out)
    lines = command("learn", learn_tiny.map, *arguments).out.splitlines()
    lines = lines[next(k for k, line in enumerate(lines) if line.startswith("seed ")) :]
    assert "max_updates" in lines[2]
    assert lines[4].startswith("Not good: 1 of 1 seed did not converge in time")
    assert max(map(len, lines[:-1])) <= 80


def test_a_task_that_never_ends(command, learn_tiny):
    """From the goal, the way leads to S again, and past the expensive cell."""
    learn_tiny.map.write_text("######\n#Sx.G#\n######")
    report = learn_tiny("--problem", "continuing", "--method", "regression", "--lam", 5.0)
    assert -20 < report["seeds"][0]["gain"] < -1
    assert report["settings"]["problem"]["class"] == "Continuing"
    answer = command("learn", "Pendulum-v1", *FEW[:6], "--out", learn_tiny.out)
    assert (answer.status, "--problem=continuing" in answer.err) == (2, True)


@pytest.mark.parametrize(("network", "setting"), [("table", "width=9"), ("cnn", "frequencies=2")])
def test_a_setting_without_effect_is_an_error(learn_tiny, network, setting):
    error = learn_tiny("--network", network, "--set", setting)
    assert (error["kind"], error["argument"]) == ("ArgumentError", "set")
    assert not learn_tiny.out.exists()


def test_an_environment_without_a_truth(command, tmp_path, monkeypatch, no_pictures):
    monkeypatch.setattr(Environment, "known_mdp", None)
    few = ("--seeds", 1, "--updates", 4, "--transitions", 300, "--out", tmp_path)
    answer = command("learn", "FrozenLake-v1", "--reward", -1, *few)
    assert (answer.status, ".py" in answer.err) == (0, False)
    assert "No exact vector is known" in answer.out
    assert "\nNot good: 1 of 1 seed did not converge in time; the largest error is" in answer.out
    assert all(line.startswith("drogo: ") for line in answer.err.splitlines())
    exactly = ("--method", "regression", "--problem", "column", "--updates", 600)
    answer = command("learn", "FrozenLake-v1", *few, *exactly)
    assert "\nNot known to be good: values are within 0.0" in answer.out


@pytest.mark.slow
def test_a_minigrid(command, tmp_path, monkeypatch):
    """With so many pictures that an MLP on the pixels that change is chosen for them."""
    needs.module("minigrid")
    monkeypatch.setattr("drogo.learn.method.MANY_IMAGES", 20)
    few = ("--seeds", 1, "--updates", 300, "--transitions", 5000, "--out", tmp_path, "--json")
    arguments = ("learn", "MiniGrid-Empty-5x5-v0", "--tile", 2, *few)
    report = json.loads(command(*arguments).out)
    assert (report["network"], report["seeds"][0]["cosine_column"] > 0.9) == ("MLP", True)
    assert json.loads(command(*arguments).out) == report


def test_pixels_and_several_parts_of_a_dict(command, learn_tiny, monkeypatch):
    """The observations that fits are given, which do not begin."""
    observations = []

    def stop(data, *positional, **arguments):
        observations.append(data.observations)
        raise KeyboardInterrupt

    monkeypatch.setattr(drogo, "fit", stop)
    assert learn_tiny("--observation", "pixels").status == 130
    assert observations.pop().shape == (3, 3, 5, 3)
    pair = line_of(
        observation_space=spaces.Dict({name: spaces.Box(0, 1, (1,), np.float32) for name in "ab"}),
        goal=1,
        first=lambda env: 0,
        observe=lambda env: {"a": np.float32([env.at]), "b": np.float32([0.5])},
    )
    monkeypatch.setitem(gymnasium.registry, "Pair-v0", EnvSpec("Pair-v0", entry_point=pair))
    arguments = ("learn", "Pair-v0", "--transitions", 50, "--out", learn_tiny.out / "pairs")
    for keys in (("b", "a"), ("a",)):
        assert command(*arguments, "--key", *keys).status == 130
    assert [rows.tolist() for rows in observations] == [[[0.5, 0.0], [0.5, 1.0]], [[0.0], [1.0]]]
    names = sorted(name.partition("-lam")[0] for name in os.listdir(learn_tiny.out / "pairs"))
    assert names == ["Pair-v0-a-drogo", "Pair-v0-b+a-drogo"]
