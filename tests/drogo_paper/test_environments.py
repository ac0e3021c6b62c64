"""Environments: RiverSwim and SixArms, with numbers worked out by hand, and those with a goal."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drogo import MDP
from drogo.errors import ArgumentError, ArgumentTypeError, MDPError
from drogo.worlds.resolve import resolve
from drogo_paper.continuing_worlds import IDS, ContinuingEnv, river_swim, six_arms
from drogo_paper.reach_goals import ReachGoals
from raising import refused
from small_world import CORRIDOR, reaching

RIGHT, LEFT = 0, 1


@pytest.mark.parametrize("identifier", IDS)
def test_gymnasium_accepts_them(identifier):
    """They are no MDP of the exact solvers, because their rewards depend on the action."""
    env = gymnasium.make(identifier)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.max_episode_steps == 5000
    refused(MDPError, None, MDP.from_gymnasium, env)
    assert resolve(f"drogo_paper.continuing_worlds:{identifier}").known_mdp is None
    world = env.unwrapped.world
    np.testing.assert_allclose(world.probability.sum(axis=2), 1.0)
    np.testing.assert_array_equal(world.cumulative[:, :, -1], 1.0)
    assert world.start.sum() == 1
    assert not world.reward[world.probability == 0].any()


def test_the_stream_of_the_river_and_the_rooms_of_six_arms():
    """Moves between neighbours balance: 0.3/0.1 = 3, and 0.3/0.7 at the end. With 1, 3, 9, 27, 81
    and 243/7 as weights, the end has 243/1090 of the time, and 0.3 of it pays 10,000."""
    world = river_swim()
    P = world.probability[:, RIGHT]
    np.testing.assert_allclose(P[2], [0, 0.1, 0.6, 0.3, 0, 0])
    np.testing.assert_allclose(P[5], [0, 0, 0, 0, 0.7, 0.3])
    share = np.linalg.matrix_power(P, 10_000)[0]
    np.testing.assert_allclose(share * 1090, [7, 21, 63, 189, 567, 243])
    pay = (share[:, None] * P * world.reward[:, RIGHT]).sum()
    assert pay == pytest.approx(243 / 1090 * 0.3 * 10_000)
    assert world.probability[3, LEFT].tolist() == [0, 0, 1, 0, 0, 0]
    assert (world.reward[0, LEFT, 0], np.count_nonzero(world.reward)) == (5, 2)
    assert (world.start.tolist(), world.best_reward) == ([0, 0.5, 0.5, 0, 0, 0], 10_000)
    world = six_arms()
    assert (world.n_states, world.n_actions, world.best_reward) == (7, 6, 6000)
    np.testing.assert_allclose(world.probability[0, 5], [0.99, 0, 0, 0, 0, 0, 0.01])
    assert world.probability[0, 0].tolist() == [0, 1, 0, 0, 0, 0, 0]
    pays = world.reward.sum(axis=2)  # each action of a room leads to one state
    assert (pays[1].tolist(), pays[2].tolist()) == ([50, 50, 50, 50, 0, 50], [0, 133, 0, 0, 0, 0])
    assert pays[6].tolist() == [0, 0, 0, 0, 0, 6000]
    assert pays[[3, 4, 5], [2, 3, 4]].tolist() == [300, 800, 1666]
    assert world.probability[6, 5, 6] == world.probability[6, 0, 0] == 1
    assert (world.probability[1, 4, 0], world.start.tolist()) == (1, [1, 0, 0, 0, 0, 0, 0])


def test_an_environment_samples_from_its_table_and_errors_name_the_argument():
    env = ContinuingEnv("river-swim")
    env.reset(seed=0)
    steps = []
    for _ in range(4000):
        env.reset(options={"state": 5})
        steps.append(env.step(RIGHT)[:2])
    assert set(steps) == {(4, 0.0), (5, 10_000.0)}
    assert np.mean([state == 5 for state, _ in steps]) == pytest.approx(0.3, abs=0.03)
    assert env.P[5][RIGHT] == [(0.7, 4, 0.0, False), (0.3, 5, 10_000.0, False)]
    assert {env.reset(seed=seed)[0] for seed in range(20)} == {1, 2}
    env = ContinuingEnv("river-swim")
    refused(ArgumentError, "action", env.step, 2)
    refused(ArgumentError, "world", ContinuingEnv, "river")
    refused(ArgumentError, "reset option 'state'", env.reset, options={"state": 6})
    refused(ArgumentError, "options", env.reset, options={"start": 1})
    refused(ArgumentError, "render_mode", ContinuingEnv, "six-arms", render_mode="ansi")


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
