"""The transfer experiment: its tasks, its learners and its policies, with numbers by hand."""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from drogo import exact
from drogo.engines.job import Outcome
from drogo.worlds.grid import GridWorld
from drogo_paper import transfer
from drogo_paper.jobs import transfer as runs
from drogo_paper.jobs.tasks import WORLD, Tasks, best_returns, improved, published_tasks, returns
from drogo_paper.scope import Scope

RIGHT, DOWN, LEFT = 0, 1, 2
TINY = GridWorld.parse("#####\n#G.G#\n#####")
"""One cell between two goals; half of the moves stay in it."""
CORRIDOR = GridWorld.parse("step-limit: 12\n\n#######\n#G.x.G#\n#######")
LAM = 1 / np.log(2)
"""Leaving a plain cell halves the desirability."""
PROBLEM = runs.Features(np.zeros((3, 2)), np.exp(TINY.reward / LAM))


@cache
def world():
    return GridWorld.load(WORLD)


ENTRIES = [(RIGHT, 2, [0.0, 0.05]), (LEFT, 0, [0.05, 0.0]), (DOWN, 1, [0.01, 0.02])]


@pytest.mark.parametrize(("action", "next_state", "entry"), ENTRIES)
def test_one_update_of_default_features(monkeypatch, action, next_state, entry):
    """A tenth of the way from 0 to exp(r/lam) = 1/2 times the next entry."""
    whole = [np.array([number]) for number in (1, action, next_state, RIGHT)]
    step = runs.Step(*whole, number=np.array([0.5]))
    monkeypatch.setattr(runs, "walks", lambda *arguments: [step])
    table = runs.at_goals(TINY, 1)
    table[0, 1, RIGHT] = [0.2, 0.4] if action == DOWN else [0.0, 0.0]
    learned = runs.learn(TINY, table, [], PROBLEM, runs.taken, step_size=0.1, steps=1)
    np.testing.assert_allclose(learned[0, 1, action], entry)
    np.testing.assert_array_equal(learned[0, [0, 2]], table[0, [0, 2]])


def test_exact_default_features_and_columns():
    """e = (1/4 + e/2)/2 for each goal, so e = 1/6; a move is worth half of where it leads."""
    table = runs.fixed_point(TINY, runs.at_goals(TINY, 1), PROBLEM, np.full((1, 3, 4), 0.25))
    np.testing.assert_allclose(table[0, 1], [[0, 1 / 2], [1 / 12] * 2, [1 / 2, 0], [1 / 12] * 2])
    columns = exact.log_columns(TINY.mdp, LAM, TINY.mdp.terminal)
    np.testing.assert_allclose(columns[:, 1], np.log([1 / 6, 1 / 6]))
    assert columns[[0, 1], [0, 2]].tolist() == [0, 0]


def test_improving_on_policies_of_a_chain():
    """Three states: going right from the last ends in a goal, going left from the first stays.

    The first policy always goes right, the second left. Features are discounted by a half: the
    number of steps, and whether the goal is reached. In state 1, for example, the first policy's
    right takes 1 + 1/2 steps, and the goal is reached after two, which is worth 1/4.
    """
    right = [[[1.75, 0.125], [1.875, 0.0625]], [[1.5, 0.25], [1.875, 0.0625]],
             [[1.0, 0.5], [1.75, 0.125]]]  # fmt: skip
    left = [[[2.0, 0.0], [2.0, 0.0]], [[2.0, 0.0], [2.0, 0.0]], [[1.0, 0.5], [2.0, 0.0]]]
    weight = np.array([[-1.0, 10.0], [-1.0, -10.0]])  # a good goal, and a bad one
    first, both = improved(np.array([[right, left]]), weight)
    # Good goal, in state 0: -1.75 + 1.25 is more than -1.875 + 0.625. Bad goal: -3 is less than
    # -2.5 in state 0, -4 less than -2.5 in state 1, and -6 less than -3 in state 2.
    assert first.tolist() == [[[0, 0, 0], [1, 1, 1]]]
    # The second policy never gets there, for -2: both actions are equal, but in state 2.
    assert both.tolist() == [[[0, 0, 0], [0, 0, 1]]]


def corridor_tasks(value):
    reward = np.where(CORRIDOR.terminal, 0.0, CORRIDOR.reward)
    return Tasks(np.array(value), np.array([1, 3]), np.tile(reward, (2, 1)))


def test_returns_by_hand():
    tasks = corridor_tasks([[5.0, 40.0], [5.0, 40.0]])
    right, left, down = (np.full((2, 5), action) for action in (RIGHT, LEFT, DOWN))
    limit = CORRIDOR.step_limit
    assert returns(CORRIDOR, tasks, right).tolist() == [-1 - 20 - 1 + 40, -1 + 40]
    assert returns(CORRIDOR, tasks, np.stack([left, down])).tolist() == [
        [-1 + 5, -1 - 20 - 1 + 5],
        [-limit, -limit],
    ]
    assert best_returns(CORRIDOR, tasks).tolist() == [18, 39]
    bad = -1e4  # it is better to wait until the episode is cut off
    assert best_returns(CORRIDOR, corridor_tasks([[bad, bad]] * 2)).tolist() == [-limit, -limit]


def test_the_published_tasks():
    """The first numbers of NumPy's legacy generator are known: 1.76405, 0.40016, ..."""
    unchanged, erased = (published_tasks(world(), 100, erased=e) for e in (False, True))
    np.testing.assert_allclose(unchanged.value[0], [88.20262, 20.00786, 48.93690, 112.04466])
    assert (unchanged.start == erased.start).all()
    assert not world().terminal[unchanged.start].any()
    first = int(world().low_reward[erased.start].argmax())
    cell = erased.start[first]
    assert erased.reward[first - 1, cell] == -20
    assert (erased.reward[first:, cell] == -1).all()
    assert (unchanged.reward == np.where(world().terminal, 0, world().reward)).all()


@pytest.fixture(scope="module")
def record():
    """All runs with few steps."""
    settings = {"tasks": 100, "seeds": 2, "steps": 50, "discount": 0.99, "lam": 1.3}
    parts = [getattr(runs, name)(settings, Path(), lambda _: None) for name in transfer.SECONDS]
    parts.append(learned_maps(runs.TABLE, seeds=2))
    arrays = {name: array for part in parts for name, array in part.arrays.items()}
    for source, where in product(transfer.SOURCES, (runs.AS_PUBLISHED, runs.UNCHANGED)):
        # networks would take their time, for the same curves
        arrays[f"{runs.goal_map(source)}/{where}"] = arrays[f"{runs.goal_map(runs.TABLE)}/{where}"]
    return Outcome(arrays)


def learned_maps(source, seeds=1):
    settings = {"tasks": 100, "seeds": seeds, "steps": 20_000, "lam": transfer.MAP_LAM}
    return runs.goal_maps({**settings, "input": source}, Path(), lambda fraction: None)


def test_a_learned_table_earns_what_exact_columns_earn():
    columns = exact.log_columns(world().mdp, transfer.MAP_LAM, world().terminal)
    result = learned_maps(runs.TABLE)
    assert result.facts["status"] == ["converged"]
    for where, tasks in runs.evaluations(world(), 100).items():
        wanted = transfer.cumulative_returns(world(), tasks, columns, transfer.MAP_LAM)
        np.testing.assert_allclose(result.arrays[f"map, table/{where}"].cumsum(), wanted)


def test_the_answer(record):
    whole = transfer.answer(Scope(), lambda job: record)
    (table,) = whole.tables
    assert [row[0] for row in table.rows] == transfer.METHODS
    by_name = {row[0]: row for row in table.rows}
    assert by_name[transfer.COLUMNS[0.01]][4] == by_name[transfer.BEST][4] == "3,194"
    assert by_name["DF"][2] == "3,898 [3,878, 3,918]"
    assert "published: 3,898 of 3,920" in whole.verdict
    assert "23 of 32 low-reward cells" in whole.notes[1]
    assert "3,179 from a table, 3,179 from coordinates, 3,179 from pixels." in whole.verdict
    assert whole.numbers[runs.UNCHANGED][transfer.BEST] == pytest.approx(3194.4, abs=0.01)


def test_a_quick_look_has_no_verdict(record):
    quick = transfer.answer(Scope(quick=True), lambda job: record)
    assert "too short for a verdict" in quick.verdict
    assert "published" not in quick.tables[0].header
    asked = [job.settings for job in transfer.jobs(Scope(), lambda job: None)]
    assert {(settings["steps"], settings["seeds"]) for settings in asked} == {(100_000, 50)}
