"""The count experiment: the published random numbers, and the answer."""

import random

import numpy as np

from drogo.engines.job import Outcome
from drogo.worlds import river_swim
from drogo_paper import counts
from drogo_paper.agents.counting import run_counting
from drogo_paper.scope import Scope


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


def record(job):
    """Agents of which the first earn more."""
    returns = np.where(np.arange(job.settings["agents"]) < 50, 3e6, 1e6)
    return Outcome({"returns": returns})


def test_the_answer(monkeypatch):
    monkeypatch.setattr(counts, "MANY", 1000)
    whole = counts.answer(Scope(), record)
    (table,) = whole.tables
    third = table.rows[2]
    assert third[2:4] == ["2,964", "2,000.0"]
    assert third[4].startswith("2,000 [")
    assert third[5].startswith("1,100 [")
    assert third[6] == "1,000"
    assert third[7] == "-63 %, the published mean is outside"
    assert table.rows[3][3] == "-"
    assert len(counts.jobs(Scope(), record)) == 12


def test_a_quick_look_has_no_verdict():
    quick = counts.answer(Scope(quick=True), record)
    assert "too few" in quick.verdict
    assert "published" not in quick.tables[0].header
    assert {job.settings["agents"] for job in counts.jobs(Scope(quick=True), record)} == {100}


def test_a_job_of_each_kind(tmp_path):
    for method in counts.METHODS:
        settings = {"world": "six-arms", "method": method, "agents": 2, "seed": None, "steps": 20}
        outcome = counts.count_runs(settings, tmp_path, lambda share: None)
        assert outcome.arrays["returns"].shape == (2,)
