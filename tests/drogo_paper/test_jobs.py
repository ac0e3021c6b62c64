"""The jobs of the experiments on options and counts: published random numbers, and policies by hand."""

import random

import numpy as np
import pytest

from drogo.worlds import river_swim
from drogo.worlds.grid import GridWorld
from drogo_paper import counts
from drogo_paper.agents.counting import run_counting
from drogo_paper.jobs import options as runs
from drogo_paper.jobs.options import greedy_return, solve_tried

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


def published_script(world, seed, episodes, steps):
    """Sarsa + DR in RiverSwim, written down as plainly as possible, with global generators."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    returns = []

    def draw(chances):
        number, below = random.uniform(0.0, 1.0), 0.0
        for state, chance in enumerate(chances):
            below += chance
            if number < below:
                return state
        raise AssertionError

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


def test_the_published_random_numbers():
    """Our agents with them are the published script's, step by step."""
    world, seed, steps = river_swim(), 3, 100
    chance = counts.Replayed(world, 0.01, seed)
    returns = []
    for _ in range(3):
        table = counts.make_counts(world, counts.DEFAULT, 1)
        agent = run_counting(world, chance, step_size=0.25, counts=table, steps=steps)
        returns.append(agent.returns[0])
    assert returns == published_script(world, seed, 3, steps)
    assert np.ptp(returns) > 0


def test_a_job_of_each_kind_of_counts(tmp_path):
    for method in counts.METHODS:
        settings = {"world": "six-arms", "method": method, "agents": 2, "seed": None, "steps": 20}
        outcome = counts.count_runs(settings, tmp_path, lambda share: None)
        assert outcome.arrays["returns"].shape == (2,)
