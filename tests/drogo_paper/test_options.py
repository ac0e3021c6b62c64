"""The questions on options: published walks, the best policy by hand, and the answers."""

import numpy as np
import pytest

from drogo.engines.job import Outcome
from drogo.worlds.grid import GridWorld
from drogo_paper import hindrance, options_returns, reproduce
from drogo_paper.jobs import options as runs
from drogo_paper.jobs.options import greedy_return, solve_tried
from drogo_paper.scope import Scope

CORRIDOR = GridWorld.parse("######\n#S..G#\n######")
RIGHT, DOWN, LEFT, UP = range(4)


def test_the_published_walks():
    """The means of ten seeds are known to four digits: 0.7627 of four-rooms, and -12,760."""
    visited, reward = runs.published_walks(
        GridWorld.load("four-rooms").without_goals(), range(1, 11), 50
    )
    assert visited.mean() == pytest.approx(0.7627, abs=0.0003)
    assert reward.sum(axis=1).mean() * runs.STEPS == pytest.approx(-12_760, abs=10)


def test_the_best_policy_in_what_was_tried_by_hand():
    """Right was tried twice from the start, and left: the rest is worth -10."""
    tried = np.zeros((2, 4, 4), dtype=bool)
    tried[:, 0, RIGHT] = tried[:, 1, RIGHT] = tried[:, 1, LEFT] = True
    tried[1, 2, RIGHT] = True
    q = solve_tried(CORRIDOR, tried, untried=-10.0, discount=0.5)
    # Going to and fro for ever is worth -2, and better than -10, which is all that is behind.
    np.testing.assert_allclose(q[0, :2, RIGHT], [-2, -6])
    np.testing.assert_allclose(q[0, 1, LEFT], -2)
    np.testing.assert_allclose(q[1, :3, RIGHT], [-1.75, -1.5, -1])
    assert (q[0, 2] == -10).all()
    assert (q[:, 3] == 0).all()
    assert greedy_return(CORRIDOR, q.argmax(axis=2), 9).tolist() == [-9, -3]


@pytest.mark.parametrize("method", [*runs.METHODS, runs.QL])
def test_a_job_of_each_method(tmp_path, method):
    function = runs.discover_options if method == runs.WALK else runs.discover_returns
    asked = {"world": "grid-maze", "method": method, "seeds": 2, "iterations": 2}
    arrays = function(asked, tmp_path, lambda share: None).arrays
    assert arrays["visited"].shape == (2, 2 * (runs.STEPS + 1))
    assert arrays["reward"].shape == (2, 2)
    assert (arrays.get("returns", np.full((2, 2), -73.0)) <= -73).all()


def record(job):
    """RACE ends at -75, and other methods at -90; agents with options are optimal half as often. RACE
    pays 1 a step, and other methods 2."""
    seeds = job.settings["seeds"]
    if job.function.endswith(":train"):
        optimal = np.arange(100) >= np.linspace(50, 95, len(hindrance.KINDS))[:, None, None]
        flat = np.full((len(hindrance.KINDS), seeds), 3.0)
        arrays = dict.fromkeys(("steps_to_optimal", "arrival", "reward", "inside", "low"), flat)
        returns = np.where(np.tile(optimal, (1, seeds, 1)), -17.0, -100.0)
        return Outcome({**arrays, "returns": returns}, {"best": -17.0})
    shape, race = (seeds, job.settings["iterations"]), job.settings["method"] == runs.RACE
    steps = runs.steps_of(job.settings["world"]) + 1
    arrays = {
        "visited": np.full((seeds, shape[1] * steps), 0.953),
        "reward": np.full(shape, -1.0 if race else -2.0),
        "returns": np.full(shape, -75.6 if race else -90.0),
    }
    return Outcome(arrays, {"inaccurate": 1})


RETURNS, FIRST = "RACE and CEO end at -75.6 and -90.0 in grid-room", "0.500 [0.500, 0.500]"
HINDERED = "begin at -100, eigenoptions, beforehand: 4 hinders; CEO, online: 4"
RACE_PLAIN = ["0.953", "0.953", "0.95", "1.000 (outside)"]
RACE = ["0.953", "0.953", "0.95", "1.00 (outside)", "-5.0", "-12.1 (outside)"]


@pytest.mark.parametrize(
    ("name", "key", "cells", "words", "count"),
    [
        ("options", ("grid-task", runs.RACE), RACE, "RACE costs less than CEO in all", 24),
        ("options", ("grid-task", runs.UNTRIED), ["0.953", "-"], "", 24),
        ("options-plain", ("grid-task-plain", runs.RACE), RACE_PLAIN, "", 16),
        ("options-plain", ("grid-task-plain", runs.CEO), ["0.953", "-"], "", 16),
        ("options-returns", ("grid-room", runs.RACE), ["-75.6", "-93.4 (outside)"], RETURNS, 30),
        ("options-returns", ("grid-maze-large", runs.QL), ["-90.0", "-"], RETURNS, 30),
        ("hindrance", ("grid-room", hindrance.NONE), ["3 [3, 3]", FIRST, "-"], HINDERED, 8),
    ],
)
def test_answers(name, key, cells, words, count, monkeypatch):
    monkeypatch.setattr(options_returns, "_figure", lambda results: None)
    question = reproduce.find(name)
    whole = question.answer(Scope(), record)
    rows = {tuple(row[:2]): row[2:] for row in whole.tables[0].rows}
    assert rows[key][: len(cells)] == cells
    assert words in whole.verdict
    assert len(question.jobs(Scope(), record)) == count


@pytest.mark.parametrize("name", ["options", "options-plain", "options-returns", "hindrance"])
def test_a_quick_look_has_no_verdict(name):
    quick = reproduce.find(name).answer(Scope(quick=True, seeds=2), record)
    assert "too short for a verdict" in quick.verdict
    assert not any("published" in table.header for table in quick.tables)
