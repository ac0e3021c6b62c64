"""Goal environments: episodes, costs and goals as wrappers show them."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drogo.errors import ArgumentError, ArgumentTypeError
from drogo_paper.reach_goals import ReachGoals
from raising import refused
from small_world import CORRIDOR, RIGHT, reaching


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped")
def test_an_episode_ends_in_its_goal_and_costs_are_those_of_states():
    check_env(reaching("coordinates"), skip_render_check=True)
    env = reaching()
    assert {env.reset(seed=seed)[1]["goal"] for seed in range(40)} == {1, 2, 3}
    observation, info = env.reset(seed=0, options={"goal": 2})
    assert observation == {"observation": 0, "achieved_goal": 0, "desired_goal": 2}
    assert info["goal"] == 2
    for expected in ((-1.0, False, False), (0.0, True, True)):
        _, reward, over, _, info = env.step(RIGHT)
        assert (reward, over, info["is_success"]) == expected
    # The goal of the world is a failure unless it was asked for.
    env = reaching(failure=-50.0)
    env.reset(seed=0, options={"goal": 0, "state": 2})
    _, reward, over, _, info = env.step(RIGHT)
    assert (reward, over, info["is_success"]) == (-20.0 - 50.0, True, False)
    assert env.compute_reward(np.int64(3), np.int64(3), info) == 0.0
    others = env.compute_reward(np.array([3, 3]), np.array([3, 1]), [info, info])
    assert others.tolist() == [0.0, -70.0]
    env.reset(seed=0, options={"goal": 3, "state": 2})
    _, reward, over, _, info = env.step(RIGHT)
    assert (reward, over, info["is_success"]) == (0.0, True, True)


def test_goals_look_as_wrappers_show_them_and_wrong_ones_are_clear_errors():
    env = gymnasium.make("drogo/GridWorld-v0", world=CORRIDOR, observation="coordinates")
    space = gymnasium.spaces.Box(-5, 5, (2,), np.float32)
    for factor in (2.0, 4.0):
        env = gymnasium.wrappers.TransformObservation(env, lambda x, by=factor: by * x + 1, space)
    observation, _ = ReachGoals(env).reset(seed=0, options={"goal": 2})
    shown = 4 * (2 * CORRIDOR.observations("coordinates") + 1) + 1
    assert np.array_equal(observation["desired_goal"], shown[2])
    assert np.array_equal(observation["achieved_goal"], shown[0])
    env = reaching()
    for goal in (0, -1, 9, 2.9, True, "two"):  # the first is where the episode begins
        refused(ArgumentError, None, env.reset, options={"goal": goal})
    world = gymnasium.make("drogo/GridWorld-v0", world=CORRIDOR, observation="coordinates")
    black = gymnasium.wrappers.TransformObservation(world, lambda x: 0 * x, world.observation_space)
    for wrapped in (gymnasium.wrappers.FrameStackObservation(world, 2), black):
        refused(ArgumentError, "env", ReachGoals, wrapped)
    refused(ArgumentError, "info", env.compute_reward, np.array([1]), np.array([2]), [{}])
    refused(ArgumentTypeError, "env", ReachGoals, gymnasium.make("CartPole-v1"))
