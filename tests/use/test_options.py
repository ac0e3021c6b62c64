"""Options: their problems solved by hand, and the arithmetic of a semi-Markov decision process."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import needs
from drogo import MDP, GridWorld, Potential, exact
from drogo.errors import ArgumentError, NumericalError
from drogo.use import options
from drogo.use.options import Option, OptionWrapper, make_option
from raising import raises

LEFT, RIGHT = 0, 1
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


def test_an_option_crosses_a_valley():
    """With a discount of 1/2, from state 1: left gains 2; right gains -1 + 1/2 + 8/4 = 1.5.
    From state 2: right gains 1 + 8/2 = 5, left 1 + 2/2 = 2. From state 0, right gains
    -2 + (2 by going back)/2 = -1 at best: it ends there."""
    option = make_option(Line(), VALLEY, discount=0.5)
    assert follow(option, 5) == [None, LEFT, RIGHT, RIGHT, None]
    assert option.begins(1)
    assert not option.begins(0)
    # With 0.9 from state 0: -2 - 0.9 + 0.81 + 0.729 * 8 = 3.742.
    assert follow(make_option(Line(), VALLEY, discount=0.9), 5) == [RIGHT] * 4 + [None]


def test_climbing_ends_at_the_first_maximum():
    option = make_option(Line(), VALLEY, method="climb")
    assert follow(option, 5) == [None, LEFT, LEFT, RIGHT, None]  # the first of two equal steps
    assert follow(make_option(Line(), np.zeros(5), method="climb"), 5) == [None] * 5


def test_random_moves():
    """Half of the moves to the right stay, and state 1 is terminal."""
    P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert follow(make_option(Line(P, [1]), np.array([0.0, 1.0]), discount=0.5), 2) == [0, None]


WORLD = GridWorld.parse("step-limit: 9\n\n#######\n#S...G#\n#######")


def corridor(kind="state"):
    return gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation=kind)


def go_right(*, until=3, begins=lambda state: state < 3):
    return Option(lambda state: 0, begins, lambda state: state >= until, "right")


def test_the_arithmetic_of_an_option():
    """Three steps of -1 with a discount of 1/2: -1 - 1/2 - 1/4, and 1/8 is what follows."""
    env = OptionWrapper(corridor(), [go_right()], 0.5)
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


def test_an_option_that_never_ends_is_cut():
    stays = Option(lambda state: 3, lambda state: True, lambda state: False)
    env = OptionWrapper(corridor(), [stays], 1.0, limit=4)
    env.reset(seed=0)
    *_, info = env.step(4)
    assert (info["steps"], info["option_cut"]) == (4, True)
    _, reward, terminated, truncated, info = env.step(4)
    assert (reward, info["steps"], truncated, terminated) == (-4, 4, False, False)
    _, reward, _, truncated, info = env.step(4)  # the ninth step is the last of the episode
    assert (reward, info["steps"], truncated, info["option_cut"]) == (-1, 1, True, False)


@pytest.mark.parametrize(("begins", "steps"), [(False, 1), (True, 4)])
def test_an_option_that_may_not_begin_takes_one_step_and_no_option_outlives_its_episode(
    begins, steps
):
    env = OptionWrapper(corridor(), [go_right(until=99, begins=lambda state: begins)], 0.5)
    env.reset(seed=0)
    state, _, terminated, _, info = env.step(4)
    assert (int(state), info["steps"], terminated) == (steps, steps, begins)
    assert (info["option_unavailable"], info["option_cut"]) == (not begins, False)


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


def test_errors_of_options():
    flat = np.zeros(5)
    with raises(ArgumentError, "potential"):
        make_option(Line(), np.zeros(4))
    with raises(ArgumentError, "discount"):
        make_option(Line(), VALLEY, discount=1.0)
    with raises(ArgumentError, "world"):
        make_option(Line(observations=flat), VALLEY)
    with raises(ArgumentError, "observation"):
        make_option(Line(), VALLEY).policy(7)
    with raises(ArgumentError, "action"):
        OptionWrapper(corridor(), [go_right()]).step(5)
    with raises(ArgumentError, "env"):
        OptionWrapper(gymnasium.make("Pendulum-v1"), [])


def test_values_that_do_not_settle(monkeypatch):
    monkeypatch.setattr(options, "MOST_SWEEPS", 1)
    with raises(NumericalError, "discount"):
        make_option(Line(), VALLEY)


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_gymnasium_accepts_the_wrapper():
    world = gymnasium.make("drogo/FourRooms-v0").unwrapped
    option = make_option(world, exact.log_column(world.mdp, 20.0))
    check_env(OptionWrapper(world, [option]), skip_render_check=True)


@pytest.mark.slow
def test_an_agent_of_sb3_trains_with_options():
    sb3, env = needs.module("stable_baselines3"), gymnasium.make("drogo/FourRooms-v0")
    option = make_option(env.unwrapped, exact.log_column(env.unwrapped.mdp, 20.0))
    wrapped = OptionWrapper(env, [option])
    needs.module("stable_baselines3.common.env_checker").check_env(wrapped, warn=False)
    settings = {"learning_starts": 50, "buffer_size": 500, "device": "cpu"}
    sb3.DQN("MlpPolicy", wrapped, seed=0, **settings).learn(120)
