"""Under a real Stable-Baselines3, with a CPU build of torch (see tests/peers.py)."""

import gymnasium
import numpy as np
import pytest

import needs
from drogo import GridWorld, Potential, PotentialShaping, exact

WORLD = GridWorld.load("four-rooms")
PHI = Potential.from_states(WORLD.observations("coordinates"), exact.log_column(WORLD.mdp, 20.0))


def make(weight=0.5):
    env = gymnasium.make("drogo/FourRooms-v0", observation="coordinates")
    return PotentialShaping(env, PHI, weight, 0.99)


@pytest.fixture(scope="module")
def sb3():
    """Imported by the first test that needs it, not by every process that collects the tests."""
    return needs.module("stable_baselines3")


def test_the_checker_of_sb3(sb3):
    needs.module("stable_baselines3.common.env_checker").check_env(make(), warn=False)


def test_resets_of_a_dummy_vec_env(sb3):
    """It resets within the step, and returns the first observation of the next episode."""
    vec = sb3.common.vec_env.DummyVecEnv([make, make])
    alone = make()
    vec.seed(0)
    before = vec.reset()
    alone.reset(seed=0)
    rng = np.random.default_rng(0)
    episodes = 0
    for _ in range(900):
        actions = rng.integers(4, size=2)
        after, rewards, over, infos = vec.step(actions)
        _, reward, terminated, truncated, _ = alone.step(int(actions[0]))
        assert rewards[0] == pytest.approx(reward, abs=1e-5)
        for k in range(2):
            arrived = infos[k]["terminal_observation"] if over[k] else after[k]
            shaping = 0.99 * PHI([arrived])[0] - PHI([before[k]])[0]
            mixed = 0.5 * infos[k]["reward_original"] + 0.5 * shaping
            assert rewards[k] == pytest.approx(mixed, abs=1e-5)
        if terminated or truncated:
            alone.reset()
            episodes += 1
        before = after
    assert episodes >= 4


@pytest.mark.parametrize(
    ("algorithm", "options"), [("DQN", {"learning_starts": 100}), ("PPO", {"n_steps": 64})]
)
def test_agents_train(sb3, algorithm, options):
    kind = getattr(sb3, algorithm)
    model = kind("MlpPolicy", make(), seed=0, gamma=0.99, device="cpu", **options)
    model.learn(300)
    action, _ = model.predict(model.get_env().reset())
    assert model.get_env().action_space.contains(action[0])
