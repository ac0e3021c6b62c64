"""The Gymnasium side, checked by Gymnasium's own checker."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings, strategies as st

import drogo
from drogo import GridWorld
from drogo.errors import ArgumentError
from drogo.worlds import names
from drogo.worlds.grid import GridWorldEnv
from drogo.worlds.shipped import environment_id
from raising import raises

KINDS = ("one-hot", "coordinates", "pixels", "state")


@pytest.mark.parametrize("name", names())
def test_every_id_passes_the_checker(name):
    env = gymnasium.make(environment_id(name), disable_env_checker=True)
    check_env(env.unwrapped)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("render_mode", [None, "rgb_array", "ansi"])
def test_every_observation_passes_the_checker(kind, render_mode):
    env = gymnasium.make(
        "drogo/GridTask-v0", observation=kind, render_mode=render_mode, disable_env_checker=True
    )
    check_env(env.unwrapped, skip_render_check=render_mode is None)


def test_ids():
    assert environment_id("four-rooms") == "drogo/FourRooms-v0"
    assert environment_id("grid-room-plain") == "drogo/GridRoom-Plain-v0"
    assert environment_id("grid-maze-large") == "drogo/GridMaze-Large-v0"


@pytest.mark.parametrize(
    "imports",
    [
        "import gymnasium, drogo",
        "import drogo, importlib.util; importlib.util.find_spec('gymnasium'); import gymnasium",
    ],
)
def test_registered_in_any_order_of_import_without_heavy_packages(imports):
    code = (
        f"{imports}, sys; print(gymnasium.spec('drogo/FourRooms-v0').kwargs['world'], "
        "drogo.worlds.names()[1], *({'scipy', 'minigrid', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["four-rooms", "four-rooms"]


def test_the_room_exposes_what_users_need():
    assert drogo.worlds.GridWorld is GridWorld
    assert drogo.worlds.MiniGridWorld is drogo.worlds.minigrid.MiniGridWorld
    assert drogo.worlds.STARTS is drogo.worlds.control.STARTS
    assert drogo.worlds.names is names


MAZE = GridWorldEnv("grid-maze", "state", start="uniform")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 2**31))
@settings(max_examples=50)
def test_steps_follow_the_mdp(actions, seed):
    env, world = MAZE, MAZE.world
    state, info = env.reset(seed=seed)
    for action in actions:
        assert info["state"] == state
        following, reward, terminated, truncated, info = env.step(action)
        assert world.mdp.transitions[action][state, following] == 1
        assert reward == world.reward[state]  # of the state that is left; a goal adds 0
        assert terminated == world.terminal[following]
        assert not truncated
        if terminated:
            break
        state = following


def test_last_step_of_an_episode():
    env = gymnasium.make("drogo/GridWorld-v0", world=GridWorld.parse("#####\n#SxG#\n#####"))
    env.reset(seed=0)
    assert env.step(0)[1:4] == (-1.0, False, False)
    assert env.step(0)[1:4] == (-20.0, True, False)
    worse = GridWorld.parse("goal H: -50\n\n####\n#SH#\n####")
    env = gymnasium.make("drogo/GridWorld-v0", world=worse)
    env.reset()
    _, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (-51.0, True, False)
    assert info == {"state": 1, "terminal_reward": -50.0}


def test_truncation_is_not_termination():
    env = gymnasium.make("drogo/FourRooms-v0")
    env.reset(seed=0)
    flags = [env.step(2)[2:4] for _ in range(200)]
    assert flags == [(False, False)] * 199 + [(False, True)]
    short = gymnasium.make("drogo/FourRooms-v0", step_limit=3)
    short.reset()
    assert [short.step(2)[3] for _ in range(3)] == [False, False, True]
    # Reaching the goal on the very last step is a termination.
    world = GridWorld.parse("step-limit: 1\n\n####\n#SG#\n####")
    env = gymnasium.make("drogo/GridWorld-v0", world=world)
    env.reset()
    assert env.step(0)[2:4] == (True, False)


def test_starts():
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    start = int(GridWorld.load("four-rooms").start.argmax())
    assert env.reset(seed=1)[0] == start
    assert env.reset(options={"state": 7})[0] == 7
    anywhere = {int(env.reset(options={"start": "uniform"})[0]) for _ in range(2000)}
    world = env.unwrapped.world
    assert anywhere == set(np.flatnonzero(~world.terminal).tolist())
    for options in ({"state": 500}, {"place": 1}):
        with raises(ArgumentError, "options"):
            env.reset(options=options)
    with raises(ArgumentError, "start"):
        env.reset(options={"start": "goal"})
    again = [env.reset(seed=3, options={"start": "uniform"})[0] for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("observation", "text"),
        ("start", "goal"),
        ("step_limit", 0),
        ("tile", 0),
        ("render_mode", "human"),
    ],
)
def test_wrong_arguments(argument, value):
    with raises(ArgumentError, argument):
        GridWorldEnv("four-rooms", **{argument: value})


def test_wrong_actions():
    env = gymnasium.make("drogo/FourRooms-v0", disable_env_checker=True)
    env.reset()
    with raises(ArgumentError, "action"):
        env.step(4)


def test_render():
    env = gymnasium.make("drogo/GridTask-v0", render_mode="ansi")
    env.reset()
    assert env.render().split("\n")[5] == "#......x@.....#"
    env = gymnasium.make("drogo/GridTask-v0", render_mode="rgb_array")
    env.reset()
    assert env.render().shape == (240, 360, 3)
    assert env.render().dtype == np.uint8
