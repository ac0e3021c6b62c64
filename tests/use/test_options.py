"""Options: their problems solved by hand, and the arithmetic of a semi-Markov decision process."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings, strategies as st

import needs
from drogo import MDP, ArgumentError, GridWorld, Potential, exact
from drogo.errors import NumericalError
from drogo.use.options import (
    Option,
    OptionWrapper,
    TabularOption,
    climb,
    make_option,
    solve_option,
    tabular,
)

CHAIN = np.array([[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]])
"""Five states in a row; left and right, and a blocked move stays."""
LEFT, RIGHT = 0, 1
VALLEY = np.array([2.0, 0.0, -1.0, 0.0, 8.0])


def test_an_option_crosses_a_valley():
    """With a discount of 1/2, from state 1: left gains 2; right gains -1 + 1/2 + 8/4 = 1.5.
    From state 2: right gains 1 + 8/2 = 5, left 1 + 2/2 = 2. From state 0, right gains
    -2 + (2 by going back)/2 = -1 at best: it ends there."""
    option = solve_option(CHAIN, VALLEY, discount=0.5)
    assert option.value.tolist() == [0, 2, 5, 8, 0]
    assert option.action[1:4].tolist() == [LEFT, RIGHT, RIGHT]
    assert option.ends.tolist() == [True, False, False, False, True]
    patient = solve_option(CHAIN, VALLEY, discount=0.9)
    # -2 - 0.9 + 0.81 + 0.729 * 8 = 3.742 from state 0.
    np.testing.assert_allclose(patient.value, [3.742, 6.38, 8.2, 8, 0])
    assert patient.ends.tolist() == [False] * 4 + [True]


def test_climbing_ends_on_the_first_summit():
    option = climb(CHAIN, VALLEY)
    assert option.ends.tolist() == [True, False, False, False, True]
    assert option.action[1:4].tolist() == [LEFT, LEFT, RIGHT]  # the first of two equal steps
    flat = climb(CHAIN, np.zeros(5))
    assert flat.ends.all()


def test_a_summit_that_cannot_be_stayed_on():
    """A triangle whose moves never stay. As published, going on for ever from the summit loses
    1 and gains 1, later: V = -1 + 0.9 (1 + 0.9 V), so V = -0.1/0.19. With an end, it is 0."""
    triangle = np.array([[1, 2], [0, 2], [0, 1]])
    e = np.array([1.0, 0.0, 0.0])
    endless = solve_option(triangle, e, discount=0.9, may_end=False)
    assert endless.value[0] == pytest.approx(-0.1 / 0.19)
    assert endless.value[1] == pytest.approx(1 - 0.9 * 0.1 / 0.19)
    ending = solve_option(triangle, e, discount=0.9)
    np.testing.assert_allclose(ending.value, [0, 1, 1])
    assert endless.ends.tolist() == ending.ends.tolist() == [True, False, False]


def test_actions_that_were_not_tried_and_lanes():
    """The right summit is out of reach in the second lane, in which nobody went right from 3."""
    tried = np.ones((2, 5, 2), dtype=bool)
    tried[1, 3, RIGHT] = False
    both = solve_option(CHAIN, np.stack([VALLEY, VALLEY]), discount=0.5, tried=tried)
    assert both.value.tolist() == [[0, 2, 5, 8, 0], [0, 2, 2, 0, 0]]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_way_is_better(data):
    """Against all ways of up to n steps in a small world, one after the other."""
    n = data.draw(st.integers(1, 4))
    moves = np.array(data.draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), min_size=n,
                                        max_size=n)))  # fmt: skip
    e = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=n, max_size=n)))

    def best(state, steps):
        ways = [e[k] - e[state] + 0.8 * best(k, steps - 1) for k in moves[state]] if steps else []
        return max([0.0, *ways])

    option = solve_option(moves, e, discount=0.8)
    np.testing.assert_allclose(option.value, [best(s, n) for s in range(n)], atol=1e-9)


def test_random_moves():
    """Half of the moves to the right stay: from 0, V = (1 + V/2)/2 to state 1, which is terminal."""
    P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    mdp = MDP.from_arrays(P, [-1.0, 0.0], [1])
    option = solve_option(mdp, np.array([0.0, 1.0]), discount=0.5)
    np.testing.assert_allclose(option.value, [0.5 / 0.75, 0], rtol=1e-9)
    assert option.action[0] == 0
    assert option.ends.tolist() == [False, True]


def test_errors_of_values(monkeypatch):
    monkeypatch.setattr(tabular, "MOST_SWEEPS", 100)
    with pytest.raises(ArgumentError, match="do not give each of 5 states"):
        climb(CHAIN, np.array([0.0, np.nan, 0.0, 0.0, 0.0]))
    with pytest.raises(ArgumentError, match="discount is 1"):
        solve_option(CHAIN, VALLEY, discount=1.0)
    with pytest.raises(NumericalError, match="still changed"):
        solve_option(np.array([[1, 1], [0, 0]]), np.array([0.0, 1.0]),
                     discount=1 - 1e-9, may_end=False)  # fmt: skip


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


def test_an_option_that_may_not_begin_takes_one_step():
    env = OptionWrapper(corridor(), [go_right(begins=lambda state: False)], 0.5)
    env.reset(seed=0)
    state, reward, *_, info = env.step(4)
    assert (int(state), reward, info["steps"], info["option_unavailable"]) == (1, -1, 1, True)


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


def test_the_end_of_an_episode_ends_an_option():
    env = OptionWrapper(corridor(), [go_right(until=99)], 0.5)
    env.reset(seed=0)
    *_, terminated, _, info = env.step(4)
    assert terminated
    assert info["steps"] == 4
    assert not info["option_cut"]


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
    with pytest.raises(ArgumentError, match="one finite number for each state"):
        make_option(world, v[1:])


def test_errors_of_options():
    option = TabularOption(np.zeros(2, np.int64), np.zeros(2, bool), np.zeros(2))
    with pytest.raises(ArgumentError, match="3 observations do not fit"):
        option.on(np.arange(3))
    with pytest.raises(ArgumentError, match="the same observation"):
        option.on(np.zeros(2))
    with pytest.raises(ArgumentError, match="knows 2 states"):
        option.on(np.arange(2)).policy(7)
    with pytest.raises(ArgumentError, match="expected 0 to 3, or an option from 4 to 4"):
        OptionWrapper(corridor(), [go_right()]).step(5)
    with pytest.raises(ArgumentError, match="Discrete actions"):
        OptionWrapper(gymnasium.make("Pendulum-v1"), [])


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_gymnasium_accepts_the_wrapper():
    world = gymnasium.make("drogo/FourRooms-v0").unwrapped
    option = make_option(world, exact.log_column(world.mdp, 20.0))
    check_env(OptionWrapper(world, [option]), skip_render_check=True)


@pytest.mark.slow
def test_an_agent_of_sb3_trains_with_options():
    sb3 = needs.module("stable_baselines3")
    env = gymnasium.make("drogo/FourRooms-v0")
    option = make_option(env.unwrapped, exact.log_column(env.unwrapped.mdp, 20.0))
    wrapped = OptionWrapper(env, [option])
    needs.module("stable_baselines3.common.env_checker").check_env(wrapped, warn=False)
    settings = {"learning_starts": 50, "buffer_size": 500, "device": "cpu"}
    model = sb3.DQN("MlpPolicy", wrapped, seed=0, **settings).learn(120)
    action, _ = model.predict(model.get_env().reset())
    assert wrapped.action_space.contains(action[0])
