"""`drogo compare`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import drogo
import needs
from drogo.cli import two_fits
from drogo.cli.compare import FORMAT
from drogo.files import read_array_file
from drogo.requests import as_bytes
from drogo.worlds.resolve import resolve

SMALL = "######\n#S.x.#\n#...G#\n######"
FEW = ("--updates", 30, "--transitions", 500, "--json")


@pytest.fixture(scope="module")
def fits(command, tmp_path_factory):
    """Result directories of fits, by name."""
    directory = tmp_path_factory.mktemp("fits")
    (directory / "small.txt").write_text(SMALL)
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drogo.cli.pictures.learned", lambda *arguments: None)
        patch.setattr(drogo.plot, "as_png", lambda figure: b"")
        for name, world, options in (
            ("state", directory / "small.txt", ("--seeds", 2, "--observation", "state")),
            ("one-hot", directory / "small.txt", ("--seeds", 1, "--observation", "one-hot")),
            ("lam", directory / "small.txt", ("--seeds", 1, "--observation", "state", "--lam", 5)),
            ("lake", "FrozenLake-v1", ("--seeds", 1, "--reward", -1)),
        ):
            answer = command("learn", world, *options, *FEW, "--out", directory / "out")
            made[name] = Path(json.loads(answer.out)["files"]["fit"]).parent
    return made


@pytest.mark.slow
def test_two_views_of_one_map(command, fits, tmp_path):
    """They are compared state by state, although they observe different things."""
    arguments = ("compare", fits["state"], fits["one-hot"], "--out", tmp_path)
    answer = command(*arguments)
    assert (answer.status, answer.err) == (0, "")
    assert "observed as" in answer.out
    (directory,) = tmp_path.iterdir()
    assert (directory / "picture.png").read_bytes()[:4] == b"\x89PNG"
    report = json.loads(command(*arguments, "--json").out)  # the same result, read again
    assert report["settings"]["observed as"] == ["state", "one-hot"]
    assert (report["shared"], report["warnings"]) == (8, [])
    first, second = (drogo.load(fits[name] / "fit.npz") for name in ("state", "one-hot"))
    zero, one, mean = report["seeds"]
    cosine = first.v[0] @ second.v[0] / np.linalg.norm(first.v[0]) / np.linalg.norm(second.v[0])
    assert zero["cosine"] == pytest.approx(cosine)
    assert zero["difference"] == pytest.approx(np.abs(first.v[0] - second.v[0]).max())
    for k, fit in enumerate((first, second)):
        for name in ("cosine", "difference"):
            known = fit.history[f"{name}_column"][-1, 0]
            assert zero[f"{name}_exact"][k] == pytest.approx(known, abs=1e-4)
    assert (one["seed"], one["cosine"], one["cosine_exact"][1]) == (1, None, None)
    assert one["status"] == [first.status[1], "-"]
    assert mean["difference"] == pytest.approx(
        np.abs(first.v.mean(axis=0) - second.v[0]).max(), abs=1e-6
    )
    arrays, _ = read_array_file(directory / "maps.npz", FORMAT, print)
    assert arrays["a"].shape == (2, 8)


@pytest.mark.usefixtures("no_pictures")
def test_what_cannot_be_compared_is_said(command, fits, tmp_path, monkeypatch):
    monkeypatch.setattr(two_fits, "figure", lambda *arguments: None)

    def compare(first, second):
        answer = command("compare", first, second, "--out", tmp_path / "out", "--json")
        assert answer.status == 0, answer.err
        return json.loads(answer.out)

    report = compare(fits["state"], fits["lam"])
    assert report["settings"]["lam"] == [20.0, 5.0]
    assert report["seeds"][0]["cosine"] is not None
    (warning,) = report["warnings"]
    assert "lambda is 20 in A and 5 in B: these are different vectors" in warning
    shutil.copy(fits["one-hot"] / "fit.npz", tmp_path / "mine.npz")  # without its request
    report = compare(tmp_path / "mine.npz", fits["lake"])
    assert report["shared"] == 0
    assert report["seeds"][0]["cosine"] is None
    assert report["seeds"][0]["cosine_exact"][0] is None  # its world is not known any more
    assert report["seeds"][0]["cosine_exact"][1] > 0
    assert any("no observation in common (shapes (8,) and ())" in w for w in report["warnings"])
    assert compare(fits["lake"], fits["lake"])["seeds"][0]["difference"] == 0


def test_mistakes(command, tmp_path, fits):
    (tmp_path / "empty").mkdir()
    for given, message in (("empty", "empty has no fit.npz"), ("no.npz", "neither a fit's .npz")):
        answer = command("compare", fits["state"], tmp_path / given)
        assert answer.status == 2
        assert message in answer.err


def learned_from(observations, seeds):
    states = np.array(observations)
    data = drogo.Transitions.from_arrays(states[:-1], states[1:], -np.ones(3), [False, False, True])
    return two_fits.Fit(drogo.fit(data, updates=1, seeds=seeds), {}, None, None)


def test_a_part_of_the_observations_is_shared():
    first, second = learned_from([4, 3, 2, 1], [0]), learned_from([9, 2, 3, 1], [7])
    in_first, in_second = two_fits.shared(first, second)
    assert in_first.tolist() == [1, 2, 3]
    assert in_second.tolist() == [2, 1, 3]
    texts = two_fits.remarks(first, second)
    assert "over the 3 observations in common, of 4 in A and 4 in B" in texts[0]
    assert "no seed in common" in texts[1]
    seven, zero = two_fits.by_seed(first, second)[1], two_fits.by_seed(first, second)[0]
    assert (zero["cosine"], seven["cosine"]) == (None, None)
    assert two_fits.by_seed(first, second)[2]["cosine"] is not None


@pytest.mark.parametrize("observation", ["pixels", "symbolic"])
def test_the_world_of_a_request(observation):
    needs.module("minigrid")
    world = resolve("MiniGrid-Empty-5x5-v0", layout=2, observation=observation, reward=-2.0)
    request = json.loads(as_bytes({"world": world.digest, "view": world.view, "reward": -2.0}))
    again = two_fits._environment(request["world"], request)
    assert again.digest == world.digest
    other = {**request["world"], "version": "0.1"}
    assert two_fits._environment(other, request) is None
    absent = {"spec": {"id": "NoSuchEnvironment-v0"}}
    assert two_fits._environment(absent, request) is None
    keys = resolve("CartPole-v1", key=("a", "b"), reward=-1.0)
    request = json.loads(as_bytes({"world": keys.digest, "view": keys.view, "reward": -1.0}))
    assert two_fits._environment(request["world"], request).sampling["key"] == ("a", "b")
