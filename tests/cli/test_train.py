"""`drogo train`."""

import json

import numpy as np
import pytest
from PIL import Image

import needs

MAP = "step-limit: 40\n\n#######\n#S.x.G#\n#..x..#\n#.....#\n#######\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("train")
    (directory / "mine.txt").write_text(MAP)
    return directory


def train(command, place, agent, *options):
    arguments = ("--agent", agent, "--seeds", 1, "--workers", 1, "--out", place / "out", *options)
    return command("train", place / "mine.txt", *arguments)


def test_a_table_learns_the_map_while_it_trains(command, place):
    answer = train(command, place, "q-learning", "--steps", 2000)
    assert (answer.status, answer.err) == (0, "")
    assert "with the map" in answer.out
    (directory,) = (place / "out").glob("mine-q-learning-*")
    report = json.loads((directory / "report.json").read_text())
    assert report["methods"]["with the map"]["solved"] == 1
    assert report["methods"]["with the map"]["steps"][0] <= 1500
    with Image.open(directory / "map.gif") as moving:
        assert moving.n_frames == 30
    again = train(command, place, "q-learning", "--steps", 2000)
    assert again.out.strip() == answer.out.replace("Written", "Already there").strip()


def test_an_agent_of_stable_baselines3(command, place):
    needs.module("stable_baselines3")
    answer = train(command, place, "dqn", "--steps", 320, "--map", "network", "--json")
    report = json.loads(answer.out)
    assert report["agent"] == "dqn"
    assert np.isfinite(report["methods"]["with the map"]["return"])
    (directory,) = (place / "out").glob("mine-dqn-*")
    assert {"curves.png", "map.gif"} <= {path.name for path in directory.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("MountainCar-v0", "--agent", "q-learning"), "not a grid world"),
        (("four-rooms", "--seeds", 0), "--seeds"),
        (("four-roms",), "four-rooms"),
        (("four-rooms", "--weight", 1.5, "--agent", "q-learning"), "weight"),
    ],
)
def test_what_cannot_be_trained(command, arguments, message, tmp_path):
    answer = command("train", *arguments, "--out", tmp_path)
    assert answer.status != 0
    assert message in answer.err.replace("\n", " ")
