"""`drogo.mdp.Costs`: rewards of any sign as costs of steps and values of ends, by hand."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import drogo
from drogo import Column, Drogo, Goals, Regression, Transitions, collect, fit, load, solve
from drogo.data.empirical import chance, previous
from drogo.errors import ArgumentError, ArgumentTypeError, DataError
from drogo.mdp import Costs
from drogo.mdp.costs import judge
from drogo.problems import worse_ends
from drogo.problems.worse_ends import notes_of, suitable_lam
from raising import refused
from small_data import table_of

STEPS = table_of([0, 1, 1], [1, 0, 2], [0.0, 0.0, 1.0], [False, False, True], terminal_reward=None)


def judged(steps, ends, given=None, times=None, **options):
    """What is said of steps that end nothing, and of last steps, with some rewards."""
    outcome = np.array([*steps, *ends], dtype=float)
    over = np.arange(outcome.size) >= len(steps)
    reward = outcome if given is None else np.full(outcome.size, float(given))
    time = np.zeros(outcome.size, dtype=int) if times is None else np.array(times)
    return judge(reward, over, outcome, time, **options)


@pytest.mark.parametrize(
    ("steps", "ends", "expected"),
    [
        ([-1, -1], [-1], None),  # MountainCar
        ([-1, -100], [-1], None),  # CliffWalking
        ([-1, -1], [0], {"charge": 1, "last": 1}),  # Acrobot
        ([-1, -1, -10], [20], {"charge": 1, "last": 1, "best": 20}),  # Taxi
        ([0, 0], [0, 1], {"step": 1, "best": 1, "worth": 1000}),  # FrozenLake
        ([0, 0], [1, 0, -1], {"step": 1, "best": 1, "worth": 1000}),  # Blackjack
        ([0, 0], [0.5, -1], {"step": 1, "best": 0.5, "worth": 2000}),
        ([-0.2, 0.4, -0.4, 0.0], [-100, 100],
         {"step": 0.15, "charge": 1, "last": 0.15, "best": 100, "worth": 1}),  # LunarLander
        # A rare charge of 50 is no cost of 12.5 a step: 100 of 0.02 are as bad as the worst end.
        ([0, 0, 0, -50], [1, -1],
         {"step": 0.02, "charge": 1, "last": 0.02, "best": 1, "worth": 1}),
    ],
)  # fmt: skip
def test_rewards_are_judged(steps, ends, expected):
    costs = judged(steps, ends).costs
    if expected is None:
        assert costs is None
        return
    full = {"step": 0.0, "charge": 0.0, "last": None, "best": 0.0, "worth": 1.0} | expected
    assert {name: pytest.approx(value) for name, value in full.items()} == vars(costs)


def test_step_costs_that_replace_rewards_leave_ends_to_the_rewards():
    assert judged([0, 0], [0, 1], given=-2.0).costs == Costs(2.0, best=1.0, worth=2000.0)
    assert judged([-4, -4], [0, -50], given=-2.0).costs == Costs(2.0, best=0.0, worth=0.5)
    said = judged([0, 0], [0, 0], given=-1.0)
    assert said.costs == Costs(1.0, worth=1000.0)
    assert not said.sure
    for given in (None, -1.0):  # -1 is worse than 0, but that may be no goal either
        said = judged([0, 0], [0, -1], given=given)
        assert (said.costs.best, said.sure) == (0.0, False)
        assert sum("taken for goals" in note for note in said.notes) == 1
    # An end that costs more than all steps may be no goal, where that matters.
    assert [judged([-1, -1], [-5], judge_ends=ends).sure for ends in (True, False)] == [False, True]
    # The longest episode, of 300 steps, decides where it is known.
    assert judged([0, 0], [0, 1], horizon=300).costs.worth == 3000
    # 1 - 0.9 t / T of MiniGrid: the time explains what ends pay, but for lava.
    pays, times = np.array([0.9, 0.5, 0.7, 0.3, 0.0]), [0, 0, 0, 0, 10, 50, 30, 70, 7]
    falling = judged([0] * 4, pays, times=times)
    values = falling.costs.of_steps(np.zeros(5), True, pays)[1]
    assert values == pytest.approx([0, 0, 0, 0, -1000])
    assert any("later" in note for note in falling.notes)
    assert judged([0] * 4, [1.0, 0.5, 0.7], times=[0] * 4 + [10, 50, 10]).costs.best == 1.0
    # Two goals at fixed distances, however often they are reached, are two goals.
    ends, times = [1.0, 0.5] * 200, [2, 4] * 200
    assert judged([0] * 4, ends, times=[0] * 4 + times).costs == Costs(best=1.0, worth=1000.0)


def test_shaping_rewards_pay_for_the_way_and_not_for_going_on():
    """Steps towards a goal earn 1, and later ones nothing on average: 4 of 8 are within 3 steps."""
    steps, times = [1, 1, 1, 1, 1, -1, 1, -1], [0, 1, 2, 3, 9, 9, 9, 9]
    costs = judged(steps, [1, -9], times=[*times, 9, 9]).costs
    assert (costs.charge, costs.best, costs.worth) == (1.0, 1.0, 1.0)
    assert costs.step == pytest.approx(0.1)  # the range of ends, 10, over 100 steps
    refused(DataError, "terminated", judged, [1] * 8, [1, -9], times=[*times, 9, 9])


@pytest.mark.parametrize("cost", [1e-6, 0.1, 1000.0])
def test_a_map_that_leads_into_a_worse_end_says_so(cost, monkeypatch):
    """From 0, a bad end that is 5 steps worse is one step away, and the good one three."""
    state, after = [0, 0, 1, 1, 2, 2], [3, 1, 0, 2, 1, 4]
    over, action = np.array(after) > 2, [0, 1] * 3
    charges = {"terminal_reward": [-5 * cost, 0, 0, 0, 0, 0], "action": action, "n_actions": 2}
    data = table_of(state, after, -cost, over, **charges)

    def ahead(lam):
        return solve(data, Column(lam)).v[0, 1] > -5 * cost / lam

    lam = suitable_lam(data.edges, 100 * cost)
    assert ahead(lam)
    assert not ahead(2 * lam)
    assert np.log2(100 * cost / lam) in range(1, 10)
    problem = Column(2 * lam)
    for solution in (solve(data, problem), fit(data, problem, Regression(updates=5))):
        (note,) = [note for note in solution.notes if "worse" in note]
        assert note.startswith("From 1 state,")
        assert f"lam = {lam:g}" in note.split(". ")[1]
    assert not any("worse" in note for note in solve(data, Column(lam)).notes)
    lucky = table_of([*state, 0], [*after, 4], -cost, [*over, True], terminal_reward=0.0,
                     action=[*action, 0], n_actions=2)  # fmt: skip
    assert suitable_lam(lucky.edges, 100 * cost) == 100 * cost  # by chance: ways are not known
    monkeypatch.setattr(worse_ends, "MOST_HALVINGS", 1)  # which is no help
    assert suitable_lam(data.edges, 100 * cost) is None
    assert "it does not" not in notes_of(data.edges, 100 * cost)[0]


@pytest.mark.parametrize(
    ("steps", "ends", "argument"),
    [
        ([1, 1, 1], [1], "terminated"),  # CartPole: an end is the end of what steps earn
        ([0, 0], [-1], "terminated"),  # a collision
        ([-0.2, 0.4, -0.4], [-100], "terminated"),  # crashes alone
        ([0, 0], [0], "reward"),  # a sparse reward that was never seen
    ],
)
def test_data_without_a_good_end_are_no_map_to_it(steps, ends, argument):
    refused(DataError, argument, judged, steps, ends)
    assert judged(steps, ends, judge_ends=False).costs is not None


def test_wrong_costs():
    for name, wrong in (("step", -1.0), ("step", 0.0), ("worth", -1.0)):
        refused(ArgumentError, name, Costs, **{name: wrong})
    refused(ArgumentTypeError, "costs", Column, costs=1.0)


def test_a_map_of_sparse_rewards_is_that_of_steps(tmp_path):
    """From state 1 half of the steps reach the goal: v1 = log((e^v0 + 1) / 2e), v0 = v1 - 1."""
    v1 = np.log(1 / (2 * np.e - 1 / np.e))
    exact = solve(STEPS, Column(1.0))
    assert exact.v[0] == pytest.approx([v1 - 1, v1, 0.0])
    assert exact.problem.costs == Costs(1.0, best=1.0, worth=1000.0)
    assert any("costs 1" in note for note in exact.notes)
    assert solve(STEPS, exact.problem).v == pytest.approx(exact.v)
    fit(STEPS, Column(1.0), Regression(updates=300)).save(tmp_path / "map.npz")
    assert load(tmp_path / "map.npz").problem.costs == exact.problem.costs
    STEPS.save(tmp_path / "data.npz")
    assert solve(Transitions.load(tmp_path / "data.npz"), Column(1.0)).v == pytest.approx(exact.v)
    both = solve(STEPS + STEPS, Column(1.0, costs=Costs(2.0)))
    assert both.v[0, 0] - both.v[0, 1] == pytest.approx(-2)
    assert solve(STEPS, Goals(1.0)).v[0, -1] == pytest.approx(exact.v[0])
    refused(DataError, None, fit, STEPS, drogo.Continuing())


def test_holes_of_a_lake_are_no_goals():
    for options in ({}, {"reward": -1.0}):
        env = gymnasium.make("FrozenLake-v1", is_slippery=False)
        v = solve(collect(env, 5000, seed=0, **options), Column(20.0))
        at = {int(s): v.v[0, k] for k, s in enumerate(v.observations)}
        assert [at[s] for s in (5, 7, 11, 12, 15)] == [-50, -50, -50, -50, 0]


class Hurried(gymnasium.Env):
    """A walk to 5, which pays less the later it ends."""

    observation_space, action_space = gymnasium.spaces.Discrete(6), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = 2, 0
        return self.at, {}

    def step(self, action):
        self.at, self.steps = max(self.at + 2 * int(action) - 1, 0), self.steps + 1
        over = self.at == 5
        return self.at, over * (1 - 0.009 * self.steps), over, self.steps >= 100 and not over, {}


def test_the_time_of_an_episode_is_that_of_its_environment():
    """However many environments take turns, and whenever they are reset: no end is a worse one."""
    vectors = [SyncVectorEnv([Hurried] * n, autoreset_mode=mode)
               for n, mode in ((8, AutoresetMode.SAME_STEP), (4, AutoresetMode.NEXT_STEP))]  # fmt: skip
    parts = [collect(env, 2000, seed=0) for env in (Hurried(), *vectors)]
    for data in (*parts, parts[0] + parts[1] + replace(parts[0], environment=None)):
        solution = solve(data, Column(20.0))
        assert any("later" in note for note in solution.notes)
        assert solution.v.min() > -1.5


def test_states_without_an_end_and_unseen_actions_are_below_all_others(tmp_path):
    """State 3 is a trap, 4 was reached and never left, and action 1 was never tried in 0."""
    state, after = [0, 1, 1, 3, 3, 0], [1, 2, 3, 3, 4, 1]
    action = [0, 0, 1, 0, 1, 0]
    over = [False, True, False, False, False, False]
    data = table_of(state, after, -1.0, over, copies=8, action=action, n_actions=2)
    for method in (Drogo(updates=3000), Drogo(updates=3000, action_values=True), Regression()):
        solution = fit(data, Column(1.0), method)
        v = solution.v[0]
        assert (v[[3, 4]] < v[:3].min() - 5).all()
        assert solution.status != ("converged",)
        assert v[2] == 0
        if method.action_values:
            assert solution.policy().probabilities(np.array([0]))[0, 1] < 1e-3
    assert np.isneginf(solve(data, Column(1.0)).v[0, 3])
    # An action that never occurs anywhere is never taken.
    three = table_of(state, after, -1.0, over, copies=8, action=action, n_actions=3)
    solution = fit(three, Column(1.0), Drogo(updates=500, action_values=True))
    assert (solution.policy().probabilities(np.arange(5))[:, 2] == 0).all()
    solution.save(tmp_path / "three.npz")
    assert load(tmp_path / "three.npz").policy().probabilities(np.arange(5))[:, 2].max() == 0


@pytest.mark.parametrize("turns", [1, 3])
def test_observations_that_hide_something_are_told_from_chance(turns):
    rng, at, rows = np.random.default_rng(0), np.zeros(turns, dtype=int), []
    for k in range(3000):  # a corridor of three cells seen as two, by agents that take turns
        move = int(rng.integers(2))
        to = at[k % turns] + 2 * move - 1
        rows.append((at[k % turns], max(to, 0), move, to == 3))
        at[k % turns] = 0 if to == 3 else max(to, 0)
    cell, after, action, over = map(np.array, zip(*rows, strict=True))
    seen = np.array([0, 1, 1, 2])  # cells 1 and 2 look the same
    columns = {"action": action, "n_actions": 2, "terminal_reward": 0.0}
    hidden = Transitions.from_table(np.arange(3), seen[cell], seen[after], -1.0, over, **columns)
    found = chance(hidden)
    assert (found.several, found.pairs, found.hidden) == (2, 4, True)
    assert (previous(hidden) >= 0).mean() > 0.6
    for method in (Regression(updates=500), Drogo(updates=500)):
        assert fit(hidden, Column(), method).status != ("converged",)
    solution = solve(hidden, Column())
    assert solution.status == ("unverified",)
    assert solution.notes[0].startswith("2 of 4 pairs of an observation and an action had several")
    # With chance instead, what follows does not depend on the step before.
    lake = collect(gymnasium.make("FrozenLake-v1"), 5000, seed=0)
    found = chance(lake)
    assert found.several > 30
    assert not found.hidden
    assert any("Soft" in note for note in solve(lake, Column()).notes)
    # Rewards are outcomes too, as are the values of ends.
    rows, gamble = ([0, 0, 0], [1, 1, 1]), np.array([0, 1, 1])
    for reward, worth in (([-5.0, -1.0, -19.0], 0.0), (-1.0, [0.0, 0.0, -9.0])):
        paid = table_of(*rows, reward, [True] * 3, terminal_reward=worth, action=gamble)
        assert (chance(paid).several, chance(paid).pairs) == (1, 2)
