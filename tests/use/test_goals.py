"""Rewards of goal environments, shaped by how well a state reaches a goal."""

import gymnasium
import numpy as np
import pytest

import needs
from drogo import GoalShaping
from drogo.errors import ArgumentError
from raising import raises
from small_world import CORRIDOR, RIGHT, reaching


def distance(observations, goals):
    """A potential that can be worked out by hand: minus ten for each cell between."""
    return -10.0 * np.abs(np.asarray(observations, float) - np.asarray(goals, float))


def test_rewards_of_the_goal_of_the_episode_and_of_others_and_their_errors():
    env = GoalShaping(reaching(), distance, weight=0.5, discount=0.9)
    env.reset(seed=0, options={"goal": 2})
    _, reward, _, _, info = env.step(RIGHT)  # from 0 to 1: phi rises from -20 to -10
    assert (info["reward_original"], info["shaping"]) == (-1.0, 0.9 * -10 + 20)
    assert reward == 0.5 * -1 + 0.5 * 11
    # Had the goal been 1 the step would have ended in it, and had it been 3 phi would be -20.
    others = env.compute_reward(np.array([1, 1]), np.array([1, 3]), [info, info])
    assert others.tolist() == [0.5 * 10, 0.5 * -1 + 0.5 * (0.9 * -20 + 30)]
    assert env.compute_reward(np.int64(1), np.int64(2), info) == reward
    env = GoalShaping(reaching(), distance, weight=None, discount=0.9)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(RIGHT)
    env.reset(seed=0, options={"goal": 1})
    env.step(RIGHT)
    env.reset(seed=0, options={"goal": 2})
    for _ in range(2):
        _, reward, over, _, info = env.step(RIGHT)
    assert over
    assert env.compute_reward(np.int64(2), np.int64(2), info) == reward
    # With the goal 0 the step from 1 to 2 cost 1 or 20, and phi rose from -10 to nothing.
    assert env.compute_reward(np.int64(2), np.int64(0), info) == info["cost"] + 10
    with raises(ArgumentError, "env"):
        GoalShaping(gymnasium.make("CartPole-v1"), distance)
    env = GoalShaping(reaching(), lambda seen, goals: np.full(len(seen), np.nan))
    env.reset(seed=0)
    with raises(ArgumentError, "value"):
        env.step(RIGHT)
    with raises(ArgumentError, "info"):
        GoalShaping(reaching(), distance).compute_reward(np.array([1]), np.array([2]), [{}])


@pytest.mark.slow
def test_hindsight_of_stable_baselines3_samples_shaped_rewards():
    def negative_distance(seen, goals):
        return -np.abs(seen - goals).sum(axis=1)

    sb3 = needs.module("stable_baselines3")
    env = GoalShaping(reaching("coordinates"), negative_distance, discount=0.9)
    hindsight = {"replay_buffer_class": sb3.HerReplayBuffer,
                 "replay_buffer_kwargs": {"copy_info_dict": True, "n_sampled_goal": 4}}  # fmt: skip
    agent = sb3.DQN("MultiInputPolicy", env, learning_starts=60, gamma=0.9, seed=0, **hindsight)
    agent.learn(80)
    sample = agent.replay_buffer.sample(64)
    before, goal = (sample.observations[k].numpy() for k in ("achieved_goal", "desired_goal"))
    after = sample.next_observations["achieved_goal"].numpy()
    arrived = (after == goal).all(axis=1)
    over = arrived | (sample.dones.numpy()[:, 0] > 0)
    next_phi = np.where(over, 0.0, negative_distance(after, goal))
    shaping = 0.9 * next_phi - negative_distance(before, goal)
    cost = np.where(np.isclose(before[:, 0], 0.5 - 2 / 5), -20.0, -1.0)
    at_goal = np.isclose(after[:, 0], CORRIDOR.observations("coordinates")[3, 0])
    cost = np.where(arrived, 0.0, cost + np.where(at_goal, -200.0, 0.0))
    assert sample.rewards.numpy()[:, 0] == pytest.approx(0.5 * cost + 0.5 * shaping, abs=1e-4)
