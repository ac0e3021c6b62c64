"""Option discovery as published: worlds, walks and the answer."""

import numpy as np
import pytest

from drogo.runs.job import Outcome
from drogo.worlds.grid import GridWorld
from drogo_paper import options, published, report
from drogo_paper.jobs.options import runs, settings
from drogo_paper.scope import Scope


@pytest.mark.parametrize("name", options.ITERATIONS)
def test_worlds_without_their_goal(name):
    world, goal = GridWorld.load(name).without_goals(), GridWorld.load(name).terminal
    assert not world.terminal.any()
    assert (world.reward[goal] == -1).all()
    assert (world.reward == -20).sum() == GridWorld.load(name).low_reward.sum()
    assert (world.next_state[goal] != np.flatnonzero(goal)[:, None]).any()


def test_the_published_walks():
    """The means of ten seeds are known to four digits: 0.7627 of four-rooms, and -12,760."""
    visited, reward = runs.published_walks(
        GridWorld.load("four-rooms").without_goals(), range(1, 11), 50
    )
    assert visited.mean() == pytest.approx(0.7627, abs=0.0003)
    assert reward.sum(axis=1).mean() * settings.STEPS == pytest.approx(-12_760, abs=10)


def test_published_numbers():
    assert published.options("grid-room", settings.RACE) == {
        "visited": (0.725, 0.01), "visited at the end": (0.92, 0.01), "reward": (-14.8, 0.1),
    }  # fmt: skip
    assert published.options("grid-room", settings.UNTRIED) is None


def test_a_job_of_each_method(tmp_path):
    for method in settings.METHODS:
        asked = {"world": "grid-task", "method": method, "seeds": 2, "iterations": 2}
        arrays = runs.discover_options(asked, tmp_path, lambda share: None).arrays
        assert arrays["visited"].shape == (2, 2 * (settings.STEPS + 1))
        assert arrays["reward"].shape == (2, 2)


def record(job):
    """RACE sees all at once, and pays 1 a step."""
    seeds, iterations = job.settings["seeds"], job.settings["iterations"]
    pays = -1.0 if job.settings["method"] == settings.RACE else -2.0
    arrays = {
        "visited": np.full((seeds, iterations * (settings.STEPS + 1)), 0.953),
        "reward": np.full((seeds, iterations), pays),
    }
    return Outcome(arrays, {"inaccurate": 1})


def test_the_answer():
    whole = options.answer(Scope(), record)
    (table,) = whole.tables
    by_name = {tuple(row[:2]): row[2:] for row in table.rows}
    race = by_name["grid-task", settings.RACE]
    assert race == ["0.953", "0.953", "0.95", "1.00 (outside)", "-5.0", "-12.1 (outside)"]
    assert by_name["grid-task", settings.UNTRIED][1::2] == ["-", "-", "-"]
    assert "RACE costs less than CEO in all worlds" in whole.verdict
    assert "24 of them were not accurate" in whole.notes[0]
    assert len(options.jobs(Scope(), record)) == 24


def test_a_quick_look_is_not_judged():
    quick = options.answer(Scope(quick=True, seeds=2), record)
    text = report.as_markdown({"a": quick}, {}, "").partition("## Deviations")[0]
    assert "published" not in text.partition("| --- |")[2]
    assert "too short for a verdict" in text
