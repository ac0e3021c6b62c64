"""Jobs of the experiments on options, counts and transfer: published random numbers, and numbers by
hand."""

import random
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo_paper import counts, transfer
from drogo_paper.agents import run_counting
from drogo_paper.continuing_worlds import river_swim
from drogo_paper.engines.job import Outcome
from drogo_paper.jobs import options as runs, transfer as transfers
from drogo_paper.jobs.options import greedy_return, solve_tried
from drogo_paper.jobs.tasks import WORLD, Tasks, best_returns, improved, published_tasks, returns
from drogo_paper.scope import Scope

CORRIDOR = GridWorld.parse("######\n#S..G#\n######")
TINY = GridWorld.parse("#####\n#G.G#\n#####")
"""One cell between two goals; half of the moves stay in it."""
COSTLY = GridWorld.parse("step-limit: 12\n\n#######\n#G.x.G#\n#######")
LAM = 1 / np.log(2)
"""Leaving a plain cell halves the desirability."""
PROBLEM = transfers.Features(np.zeros((3, 2)), np.exp(TINY.reward / LAM))
RIGHT, DOWN, LEFT = range(3)
ENTRIES = [(RIGHT, 2, [0.0, 0.05]), (LEFT, 0, [0.05, 0.0]), (DOWN, 1, [0.01, 0.02])]
world = cache(partial(GridWorld.load, WORLD))


def test_the_published_walks_and_random_numbers():
    """The means of ten seeds are known to four digits: 0.7627 of four-rooms, and -12,760."""
    world = GridWorld.load("four-rooms").without_goals()
    visited, reward = runs.published_walks(world, range(1, 11), 50)
    assert visited.mean() == pytest.approx(0.7627, abs=0.0003)
    assert reward.sum(axis=1).mean() * runs.STEPS == pytest.approx(-12_760, abs=10)
    # Our agents with them are the published script's, step by step.
    world = river_swim()
    chance, earned = counts.Replayed(world, 0.01, 3), []
    for _ in range(3):
        options = {"counts": counts.make_counts(world, counts.DEFAULT, 1), "steps": 100}
        earned.extend(run_counting(world, chance, step_size=0.25, **options).returns)
    assert earned == published_script(world, 3, 3, 100)
    assert np.ptp(earned) > 0


def test_returns_and_the_best_policy_in_what_was_tried_by_hand():
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
    # With bad goals, worth -10,000, it is better to wait until the episode is cut off.
    rest = (np.array([1, 3]), np.tile(np.where(COSTLY.terminal, 0.0, COSTLY.reward), (2, 1)))
    tasks, bad = (Tasks(np.array([values] * 2), *rest) for values in ([5.0, 40.0], [-1e4, -1e4]))
    right, left, down = (np.full((2, 5), action) for action in (RIGHT, LEFT, DOWN))
    limit = COSTLY.step_limit
    assert returns(COSTLY, tasks, right).tolist() == [-1 - 20 - 1 + 40, -1 + 40]
    expected = [[-1 + 5, -1 - 20 - 1 + 5], [-limit, -limit]]
    assert returns(COSTLY, tasks, np.stack([left, down])).tolist() == expected
    assert best_returns(COSTLY, tasks).tolist() == [18, 39]
    assert best_returns(COSTLY, bad).tolist() == [-limit, -limit]


@pytest.mark.parametrize("method", [*runs.METHODS, runs.QL])
def test_a_job_of_each_method_of_discovery(tmp_path, method):
    function = runs.discover_options if method == runs.WALK else runs.discover_returns
    asked = {"world": "grid-maze", "method": method, "seeds": 2, "iterations": 2}
    arrays = function(asked, tmp_path, lambda share: None).arrays
    assert arrays["visited"].shape == (2, 2 * (runs.STEPS + 1))
    assert arrays["reward"].shape == (2, 2)
    assert (arrays.get("returns", np.full((2, 2), -73.0)) <= -73).all()


def published_script(world, seed, episodes, steps):
    """Sarsa + DR in RiverSwim, written down as plainly as possible, with global generators."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    returns = []

    def draw(chances):
        return np.searchsorted(np.cumsum(chances), random.uniform(0.0, 1.0), side="right")

    def choose(values):
        if random.uniform(0.0, 1.0) < 0.01:
            return random.choice([0, 1])
        return np.random.choice(np.flatnonzero(values == values.max()))  # noqa: NPY002

    for _ in range(episodes):
        state, q, z, earned = draw(world.start), np.zeros((6, 2)), np.eye(12), 0.0
        for number in range(steps):
            action = choose(q[state])
            after = draw(world.probability[state, action])
            reward = world.reward[state, action, after]
            following, goes_on = choose(q[after]), number < steps - 1
            row = z[2 * state + action]
            target = np.eye(12)[2 * state + action] + goes_on * z[2 * after + following]
            row += 0.5 * (np.exp((reward - 1e4) / 1e4) * target - row)
            gain = reward + 100 * np.log(np.linalg.norm(row))
            goal = gain + 0.95 * goes_on * q[after, following]
            q[state, action] += 0.25 * (goal - q[state, action])
            earned, state = earned + reward, after
        returns.append(earned)
    return returns


@pytest.mark.parametrize("method", counts.METHODS)
def test_a_job_of_each_kind_of_counts(tmp_path, method):
    settings = {"world": "six-arms", "method": method, "agents": 2, "seed": None, "steps": 20}
    outcome = counts.count_runs(settings, tmp_path, lambda share: None)
    assert outcome.arrays["returns"].shape == (2,)


@pytest.mark.parametrize(("action", "next_state", "entry"), ENTRIES)
def test_one_update_of_default_features(monkeypatch, action, next_state, entry):
    """A tenth of the way from 0 to exp(r/lam) = 1/2 times the next entry."""
    whole = [np.array([number]) for number in (1, action, next_state, RIGHT)]
    step = transfers.Step(*whole, number=np.array([0.5]))
    monkeypatch.setattr(transfers, "walks", lambda *arguments: [step])
    table = transfers.at_goals(TINY, 1)
    table[0, 1, RIGHT] = [0.2, 0.4] if action == DOWN else [0.0, 0.0]
    learned = transfers.learn(TINY, table, [], PROBLEM, transfers.taken, step_size=0.1, steps=1)
    np.testing.assert_allclose(learned[0, 1, action], entry)
    np.testing.assert_array_equal(learned[0, [0, 2]], table[0, [0, 2]])


def test_default_features_by_hand_and_policies_that_they_improve():
    """e = (1/4 + e/2)/2 for each goal, so e = 1/6; a move is worth half of where it leads."""
    policy = np.full((1, 3, 4), 0.25)
    table = transfers.fixed_point(TINY, transfers.at_goals(TINY, 1), PROBLEM, policy)
    np.testing.assert_allclose(table[0, 1], [[0, 1 / 2], [1 / 12] * 2, [1 / 2, 0], [1 / 12] * 2])
    columns = exact.log_columns(TINY.mdp, LAM, TINY.mdp.terminal)
    np.testing.assert_allclose(columns[:, 1], np.log([1 / 6, 1 / 6]))
    assert columns[[0, 1], [0, 2]].tolist() == [0, 0]
    # Three states: going right from the last ends in a goal, going left from the first stays. The
    # first policy always goes right, the second left. Features are discounted by a half: the
    # number of steps, and whether the goal is reached. In state 1, for example, the first policy's
    # right takes 1 + 1/2 steps, and the goal is reached after two, which is worth 1/4.
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


def test_the_published_tasks_and_what_a_learned_table_earns():
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
    columns = exact.log_columns(world().mdp, transfer.MAP_LAM, world().terminal)
    result = learned_maps(transfers.TABLE)
    assert result.facts["status"] == ["converged"]
    for where, tasks in transfers.evaluations(world(), 100).items():
        wanted = transfer.cumulative_returns(world(), tasks, columns, transfer.MAP_LAM)
        np.testing.assert_allclose(result.arrays[f"map, table/{where}"].cumsum(), wanted)


@pytest.fixture(scope="module")
def record():
    settings = {"tasks": 100, "seeds": 2, "steps": 50, "discount": 0.99, "lam": 1.3}
    parts = [
        getattr(transfers, name)(settings, Path(), lambda _: None) for name in transfer.SECONDS
    ]
    parts.append(learned_maps(transfers.TABLE, seeds=2))
    arrays = {name: array for part in parts for name, array in part.arrays.items()}
    for source, where in product(transfer.SOURCES, (transfers.AS_PUBLISHED, transfers.UNCHANGED)):
        # networks would take their time, for the same curves
        table, copy = (f"{transfers.goal_map(name)}/{where}" for name in (transfers.TABLE, source))
        arrays[copy] = arrays[table]
    return Outcome(arrays)


def learned_maps(source, seeds=1):
    settings = {"tasks": 100, "seeds": seeds, "steps": 20_000, "lam": transfer.MAP_LAM}
    return transfers.goal_maps({**settings, "input": source}, Path(), lambda fraction: None)


def test_the_answer_and_a_quick_look(record):
    whole = transfer.answer(Scope(), lambda job: record)
    by_name = {row[0]: row for row in whole.tables[0].rows}
    assert list(by_name) == transfer.METHODS
    assert by_name[transfer.COLUMNS[0.01]][4] == by_name[transfer.BEST][4] == "3,194"
    assert by_name["DF"][2] == "3,898 [3,878, 3,918]"
    assert "published: 3,898 of 3,920" in whole.verdict
    assert "23 of 32 low-reward cells" in whole.notes[1]
    assert "3,179 from a table, 3,179 from coordinates, 3,179 from pixels." in whole.verdict
    assert whole.numbers[transfers.UNCHANGED][transfer.BEST] == pytest.approx(3194.4, abs=0.01)
    quick = transfer.answer(Scope(quick=True), lambda job: record)
    assert "too short for a verdict" in quick.verdict
    assert "published" not in quick.tables[0].header
    asked = [job.settings for job in transfer.jobs(Scope(), lambda job: None)]
    assert {(settings["steps"], settings["seeds"]) for settings in asked} == {(100_000, 50)}
