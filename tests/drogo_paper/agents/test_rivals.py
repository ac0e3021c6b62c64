"""Rivals of the map in the same harness: a bonus for novelty, and the agent's own value."""

import gymnasium
import numpy as np
import pytest

import needs
from drogo.errors import ArgumentError
from drogo_paper.agents.rivals import RND, OwnValue
from raising import raises
from small_world import WORLD, make


@pytest.mark.parametrize("rival", ["RND", "own value"])
@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_agents_train_with_rivals(rival, algorithm):
    needs.module("torch").set_num_threads(1)
    sb3 = needs.module("stable_baselines3")
    from drogo.integrations.sb3 import LearnMap

    env = make()
    shaping = RND(env.observation_space, width=16) if rival == "RND" else OwnValue(weight=0.1)
    options = {"learning_starts": 50, "buffer_size": 300} if algorithm == "DQN" else {"n_steps": 64}
    agent = getattr(sb3, algorithm)(
        "MlpPolicy", env, batch_size=32, seed=0, device="cpu", **options
    )
    agent.learn(200, callback=LearnMap(shaping))
    assert shaping.steps >= 200
    seen = WORLD.observations("coordinates")[:3]
    rewards = shaping.shaped(np.zeros(3), seen, seen, np.zeros(3, bool))
    assert np.isfinite(rewards).all()
    assert (rewards > 0).all() or rival != "RND"


def test_a_bonus_falls_where_it_was_paid():
    space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    rnd = RND(space, step_size=1e-2, width=32)
    often, never = np.full((8, 2), 0.3, np.float32), np.full((8, 2), -0.8, np.float32)
    noise = np.random.default_rng(0).normal(scale=0.05, size=(300, 8, 2)).astype(np.float32)
    for change in noise:
        rnd.observe(often, np.zeros(8), np.zeros(8), often + change, np.zeros(8))
        rnd.train()
    bonus = [
        rnd.shaped(np.zeros(8), part, part, np.zeros(8, bool)).mean() for part in (often, never)
    ]
    assert bonus[1] > 5 * bonus[0]
    with raises(ArgumentError, "agent"):
        OwnValue().attach(object())
