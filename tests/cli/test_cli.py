"""The command line as a person uses it."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from drogo.cli import main
from drogo.files import read_array_file

BROKEN_MAP = "#####\n#S?G#\n#####"


def run(capsys, *arguments):
    """Standard output, standard error and exit status."""
    status = 0
    try:
        main(list(arguments))
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return captured.out, captured.err, status


def test_help_needs_nothing_heavy():
    code = (
        "import sys; sys.argv[0] = 'drogo'; from drogo.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'jax', 'gymnasium', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "exact" in done.stdout
    module = [sys.executable, "-m", "drogo", "--help"]
    assert subprocess.run(module, capture_output=True, text=True, check=True).stdout == done.stdout


def test_envs(capsys):
    out, _, status = run(capsys, "envs")
    assert status == 0
    assert "drogo/FourRooms-v0" in out
    out, _, _ = run(capsys, "envs", "--json")
    assert {"name": "grid-room", "states": 272}.items() <= json.loads(out)[2].items()


def test_exact_writes_a_picture_and_a_vector(capsys, tmp_path):
    out, err, status = run(capsys, "exact", "grid-maze", "--out", str(tmp_path))
    assert (status, err) == (0, "")
    assert "-39.2058 to 0" in out
    arrays, settings = read_array_file(tmp_path / "grid-maze-column-lam20.npz")
    assert arrays["log_e"].min() == pytest.approx(-39.2058, abs=1e-4)
    assert settings["lam"] == 20.0
    assert (tmp_path / "grid-maze-column-lam20.png").read_bytes()[:4] == b"\x89PNG"


def test_a_second_run_changes_nothing(capsys, tmp_path):
    arguments = ("exact", "four-rooms", "--out", str(tmp_path))
    run(capsys, *arguments)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    out, _, status = run(capsys, *arguments)
    assert status == 0
    assert "Already there, unchanged" in out
    assert {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()} == before


def test_a_picture_of_somebody_else_is_not_overwritten(capsys, tmp_path):
    picture = tmp_path / "four-rooms-column-lam20.png"
    picture.write_text("mine")
    _, err, status = run(capsys, "exact", "four-rooms", "--out", str(tmp_path))
    assert status == 2
    assert "--overwrite" in err
    assert picture.read_text() == "mine"


def test_another_map_of_the_same_name_is_not_overwritten(capsys, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("#####\n#S.G#\n#####")
    arguments = ("exact", str(path), "--out", str(tmp_path / "out"))
    assert run(capsys, *arguments)[2] == 0
    path.write_text("######\n#S..G#\n######")
    _, err, status = run(capsys, *arguments)
    assert status == 2
    assert "--overwrite" in err
    assert run(capsys, *arguments, "--overwrite")[2] == 0


@pytest.mark.parametrize("definition", ["transition", "representation", "right"])
def test_json(capsys, tmp_path, definition):
    out, _, status = run(
        capsys, "exact", "grid-task", "--definition", definition, "--json", "--out", str(tmp_path)
    )
    report = json.loads(out)
    assert status == 0
    assert report["status"] == "converged"
    assert report["bracket"][0] <= report["eigenvalue"] <= report["bracket"][1]
    assert np.isfinite(report["log_e_min"])


def test_gymnasium_ids(capsys, tmp_path):
    out = ("--out", str(tmp_path))
    assert run(capsys, "exact", "drogo/GridTask-v0", *out)[2] == 0
    _, err, status = run(capsys, "exact", "CliffWalking-v1", *out)
    assert status == 2
    assert "not a function of the state that is left" in err
    assert run(capsys, "exact", "CliffWalking-v1", "--reward", "-1", *out)[2] == 0
    assert (tmp_path / "CliffWalking-v1-column-lam20.png").exists()
    arrays, _ = read_array_file(tmp_path / "CliffWalking-v1-column-lam20.npz")
    assert json.loads(arrays["states"][0]) == 36


def test_mistakes_get_an_answer_not_a_traceback(capsys, tmp_path):
    path = tmp_path / "broken.txt"
    path.write_text(BROKEN_MAP)
    for arguments, message in (
        (("exact", "four-roms"), "Did you mean four-rooms"),
        (("exact", str(path)), "line 2, column 3: unknown symbol '?'"),
        (("exact", "four-rooms", "--lam", "-1"), "lam is -1.0; it must be a positive number"),
        (("exact", "four-rooms", "--reward", "-1"), "--reward is for Gymnasium environments"),
        (("exact", "drogo/GridWorld-v0"), "give the map's file instead"),
        (("exact", "four-rooms", "--out", str(path)), "cannot write into the directory"),
    ):
        _, err, status = run(capsys, *arguments)
        assert status == 2
        assert message in err
        assert "Traceback" not in err
    assert run(capsys, "exact")[2] == 2
    assert run(capsys, "exat", "four-rooms")[2] == 2
    out, _, _ = run(capsys, "exact", "four-roms", "--json")
    assert "Did you mean" in json.loads(out)["error"]


SMALL = "#######\n#S.x..#\n#.....#\n#..x.G#\n#######"


@pytest.fixture
def small_map(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text(SMALL)
    return str(path)


def learn(capsys, tmp_path, *arguments):
    common = ("--seeds", "2", "--updates", "300", "--transitions", "20000")
    return run(capsys, "learn", *arguments, *common, "--out", str(tmp_path / "out"))


def test_learn_a_map_of_ones_own(capsys, tmp_path, small_map):
    out, err, status = learn(capsys, tmp_path, small_map)
    assert (status, err) == (0, "")
    assert "converged" in out
    (directory,) = (tmp_path / "out").iterdir()
    assert sorted(p.name for p in directory.iterdir()) == ["data.json", "fit.npz", "picture.png"]
    out, _, status = learn(capsys, tmp_path, small_map)
    assert status == 0
    assert "Already there" in out
    _, err, status = learn(capsys, tmp_path, small_map, "--step-size", "0.01")
    assert status == 2
    assert "another step_size" in err
    _, err, status = learn(capsys, tmp_path, small_map, "--data-seed", "9")
    assert (status, "another data_seed" in err) == (2, True)


def test_learn_prints_json(capsys, tmp_path, small_map):
    out, _, status = learn(capsys, tmp_path, small_map, "--json", "--observation", "pixels")
    report = json.loads(out)
    assert status == 0
    assert report["network"] == "cnn"
    assert [seed["seed"] for seed in report["seeds"]] == [0, 1]
    assert report["seeds"][0]["cosine_column"] > 0.9


@pytest.mark.parametrize("objective", ["natural_gdo", "log_gdo", "gdo"])
def test_learn_with_every_objective(capsys, tmp_path, small_map, objective):
    arguments = ("--objective", objective, "--observation", "state")
    assert learn(capsys, tmp_path, small_map, *arguments)[2] == 0


def test_learn_is_interrupted_and_resumed(capsys, tmp_path, small_map, monkeypatch):
    """Ctrl-C leaves a checkpoint; --resume ends where an undisturbed run does."""
    from drogo.cli import learn as command

    real = command.fit

    def interrupted(*arguments, progress, **settings):
        def stop(done, row):
            if done >= 100:
                raise KeyboardInterrupt

        return real(*arguments, progress=stop, **settings)

    monkeypatch.setattr(command, "fit", interrupted)
    out, err, status = learn(capsys, tmp_path, small_map)
    assert status == 130
    assert "--resume" in out
    monkeypatch.setattr(command, "fit", real)
    _, err, status = learn(capsys, tmp_path, small_map)
    assert status == 2
    assert "interrupted run" in err
    assert learn(capsys, tmp_path, small_map, "--resume")[2] == 0
    resumed, _ = read_array_file(next((tmp_path / "out").glob("*/fit.npz")))
    assert learn(capsys, tmp_path, small_map, "--overwrite")[2] == 0
    whole, _ = read_array_file(next((tmp_path / "out").glob("*/fit.npz")))
    assert np.array_equal(resumed["v"], whole["v"])


def test_learn_a_gymnasium_environment(capsys, tmp_path):
    out, _, status = learn(capsys, tmp_path, "CliffWalking-v1", "--reward", "-1")
    assert status == 0
    assert "worst" in out


def test_learn_a_minigrid(capsys, tmp_path, monkeypatch):
    """With so many pictures that an MLP on the pixels that change is chosen for them."""
    pytest.importorskip("minigrid")
    monkeypatch.setattr("drogo.config.MANY_IMAGES", 20)
    arguments = ("MiniGrid-Empty-5x5-v0", "--tile", "2", "--json")
    out, _, status = learn(capsys, tmp_path, *arguments)
    assert status == 0
    assert json.loads(out)["network"] == "mlp"
    assert json.loads(out)["seeds"][0]["cosine_column"] > 0.9
    again, _, status = learn(capsys, tmp_path, *arguments)
    assert (status, json.loads(again)["seeds"]) == (0, json.loads(out)["seeds"])
    _, err, status = learn(capsys, tmp_path, "four-rooms", "--observation", "symbolic")
    assert (status, "is for MiniGrid" in err) == (2, True)
    _, err, status = learn(capsys, tmp_path, "MiniGrid-Emty-5x5-v0")
    assert (status, "Did you mean" in err) == (2, True)


def test_learn_a_continuous_environment(capsys, tmp_path, monkeypatch):
    from drogo.cli import subject

    coarse = partial(subject.mountain_car_truth, nodes=(81, 81))
    monkeypatch.setattr(subject, "mountain_car_truth", coarse)
    common = ("--seeds", "2", "--updates", "20", "--transitions", "4000")
    out, _, status = run(
        capsys, "learn", "MountainCar-v0", *common, "--out", str(tmp_path / "out"), "--json"
    )
    assert status == 0
    report = json.loads(out)
    assert report["network"] == "mlp"
    assert "cosine_column" in report["seeds"][0]
    assert len(list((tmp_path / "out").glob("*/picture.png"))) == 1
