"""`collect` on the `VecEnv` of Stable-Baselines3."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

import needs
from drogo import collect

LENGTH = 6


class Line(gymnasium.Env):
    """A random walk from a random place; the right end is the goal, and there is a step limit."""

    observation_space = spaces.Box(0, LENGTH, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(1, LENGTH))
        return self.observe(), {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        over = self.at == LENGTH
        info = {"terminal_reward": -3.0} if over else {}
        return self.observe(), -1.0 - 3.0 * over, over, False, info

    def observe(self):
        return np.array([self.at], dtype=np.float32)


class WithDict(Line):
    observation_space = spaces.Dict({"place": spaces.Discrete(LENGTH + 1), "at": Line.observation_space})  # fmt: skip

    def observe(self):
        return {"place": self.at, "at": np.array([self.at])}  # of another type than the space says


def limited(kind=Line):
    return TimeLimit(kind(), 7)


@pytest.fixture
def vec_env():
    return needs.module("stable_baselines3.common.vec_env")


def rows(data):
    """Every transition with its observations as they are."""
    parts = (data.observations[data.state], data.observations[data.next_state], data.reward[:, None],
             data.terminated[:, None], data.terminal_reward[:, None])  # fmt: skip
    return np.concatenate(parts, axis=1)


def test_the_same_transitions_as_from_a_vector_of_gymnasium(vec_env):
    theirs = collect(vec_env.DummyVecEnv([limited] * 3), 500, seed=0)
    ours = collect(
        SyncVectorEnv([limited] * 3, autoreset_mode=AutoresetMode.SAME_STEP), 500, seed=0
    )
    assert theirs.observations.dtype == np.float32
    # A VecEnv does not report that an episode was also cut off in the step that terminated it.
    assert np.array_equal(theirs.truncated, ours.truncated & ~ours.terminated)
    np.testing.assert_array_equal(rows(theirs), rows(ours))


def test_no_transition_leads_across_a_reset(vec_env):
    data = collect(vec_env.DummyVecEnv([limited] * 3), 500, seed=1)
    before, after = (data.observations[part][:, 0] for part in (data.state, data.next_state))
    assert (np.abs(after - before) == (after != before)).all()
    assert np.array_equal(after == LENGTH, data.terminated)
    assert not (before == LENGTH).any()
    assert data.terminated.any()
    assert data.truncated.any()
    assert not (data.terminated & data.truncated).any()
    assert set(data.reward) == {-1.0}  # the terminal value was taken out of it
    assert set(data.terminal_reward[data.terminated]) == {-3.0}


def test_wrappers_and_dicts(vec_env):
    envs = vec_env.VecFrameStack(vec_env.DummyVecEnv([limited] * 2), 2)
    assert collect(envs, 300, seed=0).observations.shape[1:] == (2,)
    envs = vec_env.DummyVecEnv([lambda: limited(WithDict)] * 2)
    data = collect(envs, 300, seed=0, key=("place", "at"))
    assert (data.observations[:, 0] == data.observations[:, 1]).all()
    assert data.observations.dtype == np.float64  # that of a whole number and a float32


def test_a_policy_gets_the_batch(vec_env):
    def right(observations, rng):
        assert observations.shape == (2, 1)
        return np.ones(2, dtype=int)

    data = collect(vec_env.DummyVecEnv([limited] * 2), 50, seed=0, policy=right)
    assert (data.observations[data.next_state] > data.observations[data.state]).all()
