"""Options: their problems solved by hand, and the arithmetic of a semi-Markov decision process."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drogo import MDP, Column, GridWorld, OnlineMap, Potential, exact
from drogo.errors import ArgumentError, NumericalError
from drogo.use import options
from drogo.use.options import Option, OptionWrapper, learned_option, make_option
from drogo_paper.agents.even_map import EvenMap
from ledge import LAST, LEFT, NETWORK, RIGHT, Ledge, all_steps, policy, seen, spaces, table
from raising import refused
from small_data import world_env

WORLD = GridWorld.parse("step-limit: 9\n\n#######\n#S...G#\n#######")
VALLEY = np.array([2.0, 0.0, -1.0, 0.0, 8.0])


class Line:
    """States in a row, observed as numbers. By default five, and a blocked move stays."""

    def __init__(self, P=None, terminal=(), observations=None):
        if P is None:
            P = np.eye(5)[np.array([[0, 0, 1, 2, 3], [1, 2, 3, 4, 4]])]
        rewards = np.where(np.isin(np.arange(len(P[0])), terminal), 0.0, -1.0)
        self.mdp = MDP.from_arrays(P, rewards, np.array(terminal, dtype=np.int64))
        self.step_limit = 9
        self.observations = np.arange(len(P[0])) if observations is None else observations

    def all_observations(self):
        return self.observations


def follow(option, states):
    """The action of an option in each state, or None where it ends."""
    return [None if option.ends(s) else option.policy(s) for s in range(states)]


def test_options_cross_valleys_or_climb():
    """With a discount of 1/2, from state 1: left gains 2; right gains -1 + 1/2 + 8/4 = 1.5.
    From state 2: right gains 1 + 8/2 = 5, left 1 + 2/2 = 2. From state 0, right gains
    -2 + (2 by going back)/2 = -1 at best: it ends there."""
    option = make_option(Line(), VALLEY, discount=0.5)
    assert follow(option, 5) == [None, LEFT, RIGHT, RIGHT, None]
    assert option.begins(1)
    assert not option.begins(0)
    # With 0.9 from state 0: -2 - 0.9 + 0.81 + 0.729 * 8 = 3.742.
    assert follow(make_option(Line(), VALLEY, discount=0.9), 5) == [RIGHT] * 4 + [None]
    # In the last world, half of the moves to the right stay, and state 1 is terminal.
    option = make_option(Line(), VALLEY, method="climb")
    assert follow(option, 5) == [None, LEFT, LEFT, RIGHT, None]  # the first of two equal steps
    assert follow(make_option(Line(), np.zeros(5), method="climb"), 5) == [None] * 5
    P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert follow(make_option(Line(P, [1]), np.array([0.0, 1.0]), discount=0.5), 2) == [0, None]


def go_right(*, until=3, begins=lambda state: state < 3):
    return Option(lambda state: 0, begins, lambda state: state >= until, "right")


def test_the_arithmetic_of_an_option():
    """Three steps of -1 with a discount of 1/2: -1 - 1/2 - 1/4, and 1/8 is what follows."""
    env = OptionWrapper(world_env(WORLD), [go_right()], 0.5)
    assert env.action_space.n == 5
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True] * 5
    state, reward, terminated, truncated, info = env.step(4)
    assert (int(state), reward, terminated, truncated) == (3, -1.75, False, False)
    assert (info["steps"], info["discount"], info["option_cut"]) == (3, 0.125, False)
    assert env.action_masks().tolist() == [True] * 4 + [False]
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["steps"], info["discount"]) == (-1, True, 1, 0.5)
    assert not info["option_unavailable"]
    stays = Option(lambda state: 3, lambda state: True, lambda state: False)
    env = OptionWrapper(world_env(WORLD), [stays], 1.0, limit=4)
    env.reset(seed=0)
    *_, info = env.step(4)
    assert (info["steps"], info["option_cut"]) == (4, True)
    _, reward, terminated, truncated, info = env.step(4)
    assert (reward, info["steps"], truncated, terminated) == (-4, 4, False, False)
    _, reward, _, truncated, info = env.step(4)  # the ninth step is the last of the episode
    assert (reward, info["steps"], truncated, info["option_cut"]) == (-1, 1, True, False)


@pytest.mark.parametrize(("begins", "steps"), [(False, 1), (True, 4)])
def test_an_option_that_may_not_begin_takes_one_step_and_none_outlives_its_episode(begins, steps):
    env = OptionWrapper(world_env(WORLD), [go_right(until=99, begins=lambda state: begins)], 0.5)
    env.reset(seed=0)
    state, _, terminated, _, info = env.step(4)
    assert (int(state), info["steps"], terminated) == (steps, steps, begins)
    assert (info["option_unavailable"], info["option_cut"]) == (not begins, False)


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_options_from_anything_with_values():
    world = gymnasium.make("drogo/FourRooms-v0", observation="coordinates").unwrapped
    v = exact.log_column(world.mdp, 20.0)
    phi = Potential.from_states(world.all_observations(), v)
    for source in (v, phi, phi.function):
        for method in ("solve", "climb"):
            env = OptionWrapper(world, [make_option(world, source, method=method)], 1.0)
            env.reset(seed=0)
            _, reward, terminated, _, info = env.step(4)
            assert terminated  # the map leads to the goal around the low-reward cells
            assert reward == -info["steps"] == -17
    check_env(env, skip_render_check=True)


def test_errors_of_options(monkeypatch):
    refused(ArgumentError, "potential", make_option, Line(), np.zeros(4))
    refused(ArgumentError, "discount", make_option, Line(), VALLEY, discount=1.0)
    refused(ArgumentError, "world", make_option, Line(observations=np.zeros(5)), VALLEY)
    refused(ArgumentError, "observation", make_option(Line(), VALLEY).policy, 7)
    refused(ArgumentError, "action", OptionWrapper(world_env(WORLD), [go_right()]).step, 5)
    refused(ArgumentError, "env", OptionWrapper, gymnasium.make("Pendulum-v1"), [])
    monkeypatch.setattr(options, "MOST_SWEEPS", 1)
    refused(NumericalError, "discount", make_option, Line(), VALLEY)


def test_an_option_goes_to_what_was_not_tried_around_what_is_costly():
    """Nobody went left at place 0. A fall is the short way from the last place: it costs 20."""
    without = {(0, LEFT)}
    aware = learned_option(table(all_steps(without)))
    assert policy(aware) == [LEFT] * 6
    assert [aware.ends(seen(state)) for state in range(6)] == [True] + [False] * 5
    assert all(aware.begins(seen(state)) for state in range(6))
    blind = learned_option(table(all_steps(without), reward=-1.0))
    assert policy(blind) == [LEFT] * 4 + [RIGHT] * 2  # 3 is as near by either way: lowest index
    env = OptionWrapper(Ledge(), [aware], 1.0)
    env.reset(options={"state": 5})
    _, reward, terminated, _, info = env.step(2)
    assert (reward, terminated, info["steps"], info["state"]) == (-5, False, 5, 0)
    # Where all was tried there is no option, and what was never seen is new.
    everything = learned_option(table(all_steps(set())))
    assert not everything.begins(seen(0))
    assert everything.ends(seen(0))
    assert aware.ends(seen(6))
    untouched = learned_option(OnlineMap(*spaces()))
    assert untouched.ends(seen(0))
    assert {untouched.policy(seen(0)) for _ in range(20)} == {LEFT, RIGHT}


@pytest.mark.slow
def test_a_network_learns_the_option_of_the_exact_map():
    """The option keeps a snapshot, which does not change later."""
    columns = all_steps({(0, LEFT)})
    exact = table(columns)
    settings = {"until_found": False, "learning_starts": 1, "untried_share": 0.25, "evenly": True}
    online = EvenMap(*spaces(), Column(lam=5.0), **settings, **NETWORK, updates_per_step=40.0)
    for _ in range(3):
        online.observe(*columns)
        online.train()
    places = np.stack([seen(state) for state in range(LAST + 1)])
    np.testing.assert_allclose(online.values(places), exact.values(places), atol=0.1)
    option = learned_option(online)
    assert policy(option) == policy(learned_option(exact))
    assert [option.ends(place) for place in places] == [True] + [False] * LAST
    online.observe(*all_steps(set()))  # nothing is left to try
    online.train()
    assert policy(option) == [LEFT] * (LAST + 1)
    assert option.ends(seen(0))
    assert not learned_option(online).begins(seen(0))
