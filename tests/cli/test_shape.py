"""`drogo shape` as a person uses it."""

import json

import pytest

from drogo import load
from drogo.cli import main

MAP = "step-limit: 40\n\n#######\n#S.x.G#\n#..x..#\n#.....#\n#######\n"


@pytest.fixture
def shape(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text(MAP)

    def run(*arguments):
        status = 0
        try:
            main(["shape", *arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        return captured.out, captured.err, status

    return run


def learn(*arguments):
    main(["learn", "mine.txt", "--seeds", "2", "--updates", "500", *arguments])


SHORT = ("mine.txt", "--seeds", "2", "--steps", "3000")


def test_a_map_of_ones_own_with_a_saved_fit(shape, tmp_path):
    learn("--out", "fits")
    (fit,) = (tmp_path / "fits").glob("*/fit.npz")
    out, err, status = shape(*SHORT, "--potential", str(fit))
    assert (status, err) == (0, "")
    assert "DR fit" in out
    assert "SR distance" in out
    (directory,) = (tmp_path / "results" / "shape").iterdir()
    made = {path.name for path in directory.iterdir()}
    assert made == {"runs.npz", "curves.png", "paths.png"}
    before = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    out, _, status = shape(*SHORT, "--potential", str(fit))
    assert status == 0
    assert "Already there" in out
    assert before == {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    out, err, status = shape(*SHORT, "--potential", str(fit), "--epsilon", "0.1")
    assert status == 2
    assert "another epsilon" in err
    out, _, status = shape(*SHORT, "--potential", str(fit), "--epsilon", "0.1", "--overwrite", "--json")  # fmt: skip
    report = json.loads(out)
    assert set(report["methods"]) == {"none", "SR", "SR distance", "DR exact", "DR fit"}
    assert report["methods"]["DR exact"]["steps_to_optimal"]["mean"] > 0
    assert load(fit).status == ("converged", "converged")


def test_learns_its_potentials_and_finds_them_again(shape, tmp_path, monkeypatch):
    from dataclasses import replace

    from drogo import config

    short = replace(config.PRESETS["fast"], updates=300)
    monkeypatch.setitem(config.PRESETS, "fast", short)
    out, err, status = shape(*SHORT, "--inputs", "coordinates")
    assert (status, err) == (0, "")
    assert "DR coordinates" in out
    (fit,) = (tmp_path / "results" / "learn").glob("*/fit.npz")
    written = fit.stat().st_mtime_ns
    _, _, status = shape(*SHORT, "--inputs", "coordinates", "--overwrite")
    assert status == 0
    assert fit.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mine.txt", "--steps", "150"), "multiple of 100"),
        (("mine.txt", "--seeds", "0"), "--seeds is 0"),
        (("mine.txt", "--potential", "absent.npz"), "absent.npz"),
        (("CartPole-v1",), "no grid world"),
        (("four-room",), "Did you mean four-rooms"),
    ],
)
def test_wrong_use(shape, arguments, message):
    _, err, status = shape(*arguments)
    assert status == 2
    assert message in err


def test_a_fit_of_another_world(shape, tmp_path):
    learn("--out", "fits")
    (fit,) = (tmp_path / "fits").glob("*/fit.npz")
    _, err, status = shape("four-rooms", "--potential", str(fit))
    assert status == 2
    assert "not made for four-rooms" in err


def test_says_when_discounting_hides_the_best_return(shape, tmp_path):
    """At discount 1/2, waiting forever costs 2, and the only way to the goal costs 20."""
    (tmp_path / "toll.txt").write_text("#####\n#SxG#\n#####")
    main(["learn", "toll.txt", "--seeds", "1", "--updates", "200", "--out", "fits"])
    (fit,) = (tmp_path / "fits").glob("*/fit.npz")
    short = ("toll.txt", "--seeds", "1", "--steps", "100", "--potential", str(fit))
    out, _, status = shape(*short, "--discount", "0.5")
    assert status == 0
    assert "Raise" in out
    out, _, _ = shape(*short, "--discount", "0.99", "--out", "other")
    assert "Raise" not in out
