"""Tables of everything that an agent has seen, against exact maps and numbers by hand."""

import gymnasium
import numpy as np
import pytest

from drogo import Column, OnlineMap, OnlineShaping, OnlineTable, Transitions, exact, solve
from drogo.errors import ArgumentError, ArgumentTypeError, DataError
from drogo.learn import MLP
from drogo.online.judging import AS_THEY_ARE
from drogo.online.table import Seen, mean_step_of, solve_seen
from raising import refused
from small_world import BOX, FOUR, WORLD, feed, rows, steps_of

LAM = 20.0
PLACES = WORLD.observations("coordinates")
ONE = np.array([0])
STAYS = Seen(ONE, ONE, ONE, np.array([-1.0]), np.array([False]), np.zeros(1), np.array([7]))
OFTEN = Seen(np.zeros(2, int), np.zeros(2, int), np.array([1, 0]), np.array([-1.0, -1.0]),
             np.array([True, False]), np.array([-2.0, 0.0]), np.array([3, 1]))  # fmt: skip


def table(columns=None, **options):
    """A table that is solved after every step."""
    online = OnlineTable(BOX, FOUR, **{"every": 1, **options})
    return online if columns is None else feed(online, columns, len(columns[0]))


@pytest.mark.parametrize("until_found", [True, False])
def test_the_table_of_everything_is_the_exact_column(until_found):
    online = table(steps_of(2000), until_found=until_found)
    assert np.abs(online.values(PLACES) - exact.log_column(WORLD.mdp, LAM)).max() < 1e-9
    assert online.found
    assert online.metrics["states"] == WORLD.mdp.n_states


def test_optimism_goes_on_until_no_way_can_be_better():
    """The first way that is found here costs 36; the best one costs 17."""
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    online = OnlineTable(env.observation_space, env.action_space)
    shaped, rng, over, returns = OnlineShaping(env, online), np.random.default_rng(2), True, []
    for _ in range(800):
        if over:
            observation, _ = shaped.reset(seed=2)
            returns.append(0.0)
        observation, _, ended, cut, info = shaped.step(int(online.act([observation], rng)[0]))
        returns[-1] += info["reward_original"]
        over = ended or cut
    assert (online.found, returns[-2]) == (True, -17.0)


def test_default_policies_and_different_rewards_by_hand():
    """From 0, an action to the terminal state at cost 1 is taken one time in five, and else the
    state stays: e = exp(-1/20) (1/5 + 4/5 e)."""
    problem = Column(default_policy=[0.2, 0.4, 0.2, 0.2])
    online = OnlineTable(gymnasium.spaces.Discrete(2), FOUR, problem, every=1)
    online.observe([0] * 4, range(4), [-1.0] * 4, [1, 0, 0, 0], [True, False, False, False])
    online.train()
    gain = np.exp(-1 / LAM)
    e = 0.2 * gain / (1 - 0.8 * gain)
    assert online.values([0, 1]) == pytest.approx([np.log(e), 0.0])
    expected = np.log([0.2 * gain, *(np.array([0.4, 0.2, 0.2]) * gain * e)])
    assert online.logits([0])[0] == pytest.approx(expected)
    # A step into a terminal state costs 1 or 3: exp(v) is the mean of exp(-1/20) and exp(-3/20).
    online, here = table(optimism=None), np.zeros((400, 2))
    rewards = np.where(np.arange(400) % 2, -1.0, -3.0)
    online.observe(here, [1] * 400, rewards, here + 0.4, [True] * 400)
    online.train()
    assert len(online.seen().state) == 2  # since an end is judged by its reward
    mean = (np.exp(-1 / LAM) + np.exp(-3 / LAM)) / 2
    assert online.values(here[:1]) == pytest.approx(np.log(mean))


def test_costs_in_place_of_rewards_and_maps_before_a_terminal_state():
    for reward in (None, -1.0):
        options = {"every": 1, "optimism": None, "reward": reward}
        online = OnlineTable(gymnasium.spaces.Discrete(3), FOUR, **options)
        rewards = [-1.0, -2.0 if reward is None else 5.0]
        online.observe([0, 1], [0, 0], rewards, [1, 2], [False, True])
        online.train()
        expected = [-3 / LAM, -2 / LAM, 0.0] if reward is None else [-2 / LAM, -1 / LAM, 0.0]
        assert online.values(np.arange(3)) == pytest.approx(expected)
        assert online.knows(np.arange(3)).all()
    columns = steps_of(300)
    columns = rows(columns, np.flatnonzero(~columns[-1])[:12])
    before, _, reward, after, over = columns
    explore, idle = table(columns), table(columns, optimism=None)
    assert not explore.found
    assert np.ptp(explore.values(before)) > 0.01
    assert not idle.values(before).any()
    assert (idle.shaped(reward, before, after, over) == 0.5 * reward).all()
    assert "no terminal state worth 0 or more was seen in 12 steps" in explore.warnings()[0]


@pytest.mark.parametrize("kind", [OnlineMap, OnlineTable])
def test_a_bad_terminal_state_is_no_goal_and_optimism_continues(kind):
    """An untried action is worth 0, and lava -200. Where lava is all that was found, the map still
    leads to what was not tried."""
    network = {"network": MLP(width=16, depth=3), "learning_starts": 1, "updates_per_step": 4.0}
    online = kind(BOX, FOUR, **(network if kind is OnlineMap else {"every": 1}))
    here, there = np.zeros((3, 2)), np.full((3, 2), 0.4)
    for value, is_goal in ((-200.0, False), (0.0, True)):
        ended, values = np.array([False, False, True]), np.array([0.0, 0.0, value])
        after = np.where(ended[:, None], there, here)
        online.observe(here, [0, 1, 2], [-1.0] * 3, after, ended, values)
        for _ in range(300 if kind is OnlineMap and not is_goal else 1):
            online.observe(here[:1], [0], [-1.0], here[:1], [False])
            online.train()
        assert online.found == is_goal
        if not is_goal:
            assert online.act(here[:1], np.random.default_rng(0)).tolist() == [3]


def numbered(steps, **options):
    """A table of numbered states that has seen steps (state, action, reward, next state, over, and the
    value of the end and the time)."""
    spaces = gymnasium.spaces.Discrete(30), gymnasium.spaces.Discrete(2)
    online = OnlineTable(*spaces, Column(lam=1.0), every=1, **options)
    for step in steps:
        online.observe(*(None if part is None else [part] for part in step))
        online.train()
    return online


WAY = [(s, 1, 0.0, s + 1, False) for s in range(9)] + [(9, 1, 1.0, 21, True)]
FALL = (0, 0, -1.0, 20, True)


def test_an_early_fall_is_judged_again_and_counts_as_one_transition():
    """The goal is ten steps away; at first, the fall is all that is known of rewards."""
    first, later = (numbered([FALL, *3 * WAY, FALL, FALL]), numbered([*3 * WAY, *3 * [FALL]]))
    assert first.logits([0]) == pytest.approx(later.logits([0]))
    assert first.logits([0])[0, 0] < -1000
    # Steps whose costs vary, and a fall: three transitions, however often the costs change.
    steps = [(0, 1, -float(k % 3 == 0), 1, False) for k in range(30)]
    online = numbered(
        part for step in steps for part in (step, (1, 1, 0.0, 0, False), (0, 0, -5.0, 20, True))
    )
    assert len(online.seen().state) == 3
    # An end that costs more than all steps may be no goal, and a state with several is their mean.
    online = numbered([(0, 1, -1.0, 1, False), (1, 0, -100.0, 20, True)])
    assert (online.found, len(online.warnings())) == (False, 1)
    online = numbered([], optimism=None)
    for value in (-5.0, 0.0, -4.0):
        online.observe([0], [0], [-1.0], [3], [True], [value])
    online.train()
    assert online.values([3]) == pytest.approx([-3.0])


@pytest.mark.parametrize(
    ("step", "pit", "goal", "late"),
    [
        (0.0, 0.0, 1.0, 0.0),
        (-0.04, -1.0, 1.0, 0.0),
        (-1.0, -1.0, -1.0, 0.0),
        (0.0, 0.0, 1.0, 0.009),
    ],
    ids=["sparse", "mixed", "costs", "later ends pay less"],
)
def test_steps_are_judged_alike_while_they_are_seen_and_as_data(step, pit, goal, late):
    """A walk between a pit at 0 and a goal at 6."""
    rng, at, time, steps = np.random.default_rng(0), 3, 0, []
    for _ in range(600):
        action = int(rng.integers(2))
        after, over = at + 2 * action - 1, at + 2 * action - 1 in (0, 6)
        reward = {0: pit, 6: goal - late * time}.get(after, step)
        steps.append((at, action, reward, after, over, None, time))
        at, time = (3, 0) if over else (after, time + 1)
    online, columns = numbered(steps), list(zip(*steps, strict=True))
    state, action, reward, after, over = map(np.array, columns[:5])
    data = Transitions.from_table(np.arange(7), state, after, reward, over, action=action)
    exactly = solve(data, Column(lam=1.0))
    assert online.values(np.arange(7)) == pytest.approx(exactly.v[0])
    assert online.judging.costs() == (exactly.problem.costs or AS_THEY_ARE)
    assert online.found
    again = numbered([])
    again.judging.numbers = online.judging.numbers  # as in a file
    assert again.judging.tally == online.judging.tally


def test_untried_actions_and_frequencies_by_hand():
    """One state, two actions: the first stays there at cost 1, the second was never tried. Then
    e = 1/2 exp(-1/2) e + 1/2 exp(-3/2), with lam 2 and an optimism of -3. In the second case, three
    of four steps from 0 reach the terminal state 1, worth -2, and one stays: e = exp(-1) (3/4
    exp(-2) + 1/4 e) with one action and lam 1."""
    halves, e = np.array([[0.5, 0.5]]), 0.5 * np.exp(-1.5) / (1 - 0.5 * np.exp(-0.5))
    assert solve_seen(STAYS, halves, 2.0, -3.0) == pytest.approx([np.log(e)])
    assert solve_seen(STAYS, halves, 2.0, None) == pytest.approx([0.0])
    e = 0.75 * np.exp(-3.0) / (1 - 0.25 * np.exp(-1.0))
    v = solve_seen(OFTEN, np.ones((2, 1)), 1.0, 0.0)
    assert v == pytest.approx([np.log(e), -2.0])
    assert mean_step_of(v, OFTEN) == pytest.approx(abs(np.log(e) + 2.0))


def test_frequencies_are_counted_again_and_one_outcome_does_not_stand_for_all():
    """From one state an action ends in 1 of 2 tries, and then in 1 of 200: the map must fall."""
    online, here = OnlineTable(BOX, FOUR, optimism=None), np.zeros((10, 2))
    ended = np.arange(10) < 5
    online.observe(here, [0] * 10, [-1.0] * 10, here + 0.4 * ended[:, None], ended)
    online.train()
    first = online.values(here[:1])
    for _ in range(100):
        online.observe(here, [0] * 10, [-1.0] * 10, here, [False] * 10)
        online.train()
    share = 5 / 1010
    e = share * np.exp(-0.05) / (1 - (1 - share) * np.exp(-0.05))
    assert online.values(here[:1]) < first
    assert online.values(here[:1]) == pytest.approx(np.log(e), abs=0.1)
    # An action that mostly arrives, and then falls into lava once, keeps its value until the map
    # is solved again.
    online = OnlineTable(gymnasium.spaces.Discrete(4), FOUR, every=100)
    online.observe([0] * 100, [0] * 100, [-1.0] * 100, [1] * 100, [True] * 100)
    online.train()
    before = online.logits([0])
    online.observe([0], [0], [-1.0], [2], [True], [-2000.0])
    assert np.array_equal(online.logits([0]), before)


@pytest.mark.parametrize("goal_reward", [None, 2.0])
def test_shaped_rewards_by_the_formula_and_observations_in_any_precision(goal_reward):
    columns = steps_of(500)
    online = table(columns, weight=0.3, discount=0.9, goal_reward=goal_reward)
    before, _, reward, after, over = columns
    v = dict(zip(map(bytes, PLACES), exact.log_column(WORLD.mdp, LAM), strict=True))
    phi, next_phi = (np.array([v[bytes(row)] for row in part]) for part in (before, after))
    phi, next_phi = phi / online.mean_step, next_phi / online.mean_step
    if goal_reward:  # a reward of 2 at the goal alone, and as many steps to it
        phi, next_phi = 2.0 * 0.9**-phi, 2.0 * 0.9**-next_phi
    shaping = 0.9 * np.where(over, 0.0, next_phi) - phi
    expected = 0.7 * reward + 0.3 * shaping
    assert online.shaped(reward, before, after, over) == pytest.approx(expected)
    column = online.shaped(reward[:, None], before, after, over[:, None])  # as replays have them
    assert column == pytest.approx(expected)
    refused(ArgumentError, None, online.shaped, reward, before, after[:3], over)
    online = OnlineTable(gymnasium.spaces.Box(-1, 1, (1,), np.float32), FOUR, every=1)
    there = np.array([[0.1], [0.2], [0.0]], np.float32)
    online.observe(there, [0, 1, 2], [-1.0] * 3, there[::-1], [False, False, True])
    online.train()
    signed = np.array([[0.1], [0.2], [-0.0]], np.float32)
    for ask in (online.values, online.logits, online.knows):
        assert np.array_equal(ask(signed), ask(there))
        assert np.array_equal(ask(there.astype(np.float64)), ask(there))
    assert online.knows(there).all()


def test_wrong_steps_and_arguments_are_named(unchecked):
    # The agent learns from its own rewards, also where the map has a cost in their place.
    online, seen = OnlineTable(BOX, FOUR, reward=-1.0), np.zeros((2, 2), np.float32)
    for rewards in ([-1.0, np.nan], [-1.0, np.inf]):
        refused(DataError, "reward", online.observe, seen, [0, 1], rewards, seen, [False] * 2)
        refused(DataError, "reward", online.shaped, rewards, seen, seen, [False] * 2)
    assert online.steps == 0
    before, action, reward, after, over = rows(steps_of(50), slice(10))
    wrong = {
        "observations": (before[:, :1], action, reward, after, over),
        "action": (before, action + 4, reward, after, over),
        "terminal_reward": (before, action, reward, after, over | True, reward * np.inf),
        "time": (before, action, reward, after, over, None, reward[1:]),
        "most_states": (before, action, reward, after, over),
    }
    for argument, columns in wrong.items():
        is_data = argument in ("action", "terminal_reward")
        kind = DataError if is_data else ArgumentError
        few = {"most_states": 2} if argument == "most_states" else {}
        refused(kind, argument, table(**few).observe, *columns)
    refused(ArgumentError, None, table().observe, before, action[:3], reward, after, over)
    before = before + np.nan
    refused(DataError, "observations", table().observe, before, action, reward, after, over)
    pixels = OnlineTable(gymnasium.spaces.Box(0, 255, (4,), np.uint8), FOUR)
    refused(ArgumentError, "observations", pixels.values, np.full((1, 4), 0.5))
    for name, value in (("every", 0), ("terminal", "x")):
        refused(ArgumentError, name, OnlineTable, BOX, FOUR, **{name: value})
    for name, value in (("optimism", "x"), ("lam", 20.0)):
        refused(ArgumentTypeError, name, OnlineTable, BOX, FOUR, **{name: value})
