"""Environments that the library has never seen: those that work, and the errors of the others."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from drogo import Transitions, collect
from drogo.data import Step, index
from drogo.errors import AlreadyExists, ArgumentError, DataError, MissingFile
from raising import raises


class Walk(gymnasium.Env):
    """Left and right along a line of six places; the right end is the goal, the left one a pit."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 2
        return self.seen(), {}

    def step(self, action):
        self.at += 1 if action else -1
        return self.seen(), self.reward(), self.at in (0, 5), False, {"at": self.at}

    def reward(self):
        return -1.0

    def seen(self):
        return np.array([self.at, -self.at], dtype=np.float32)


class WithDict(Walk):
    observation_space = spaces.Dict(
        {"image": spaces.Box(0, 255, (8, 8, 3), np.uint8), "place": spaces.Discrete(6)}
    )

    def seen(self):
        image = np.zeros((8, 8, 3), dtype=np.uint8)
        image[self.at] = 255
        return {"image": image, "place": self.at}


def of_terminal(step):
    return 0.0 if step.info["at"] == 5 else -50.0


def test_rewards_of_the_step():
    seen = []
    data = collect(Walk(), 200, seed=0, terminal_reward=-3.0,
                   reward=lambda s: seen.append(s) or -1.0 - float(s.observation[0]))  # fmt: skip
    assert set(data.terminal_reward[data.terminated]) == {-3.0}
    assert np.array_equal(data.reward, -1.0 - data.observations[data.state][:, 0])
    assert all(isinstance(step, Step) for step in seen)


def test_a_part_of_a_dict():
    data = collect(WithDict(), 1000, seed=0, key="image")
    assert (data.observations.shape, data.observations.dtype) == ((6, 8, 8, 3), np.uint8)
    assert data.are_images


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
def test_vectors_of_environments(mode):
    """In each way of starting the next episode: only real steps, and episodes that begin at 2."""
    envs = gymnasium.vector.SyncVectorEnv([Walk] * 3, autoreset_mode=mode)
    data = collect(envs, 900, seed=0, terminal_reward=of_terminal)
    here, there = data.observations[data.state][:, 0], data.observations[data.next_state][:, 0]
    assert set(np.abs(here - there)) == {1.0}
    assert np.array_equal(data.terminated, (there == 0) | (there == 5))
    assert not np.isin(here, (0, 5)).any()
    assert len(data.observations) == 6
    of_goal = np.where(there[data.terminated] == 5, 0.0, -50.0)
    assert np.array_equal(data.terminal_reward[data.terminated], of_goal)


def test_observations_that_do_not_repeat_are_not_merged(monkeypatch):
    monkeypatch.setattr(index, "MERGE_TRIAL", 100)

    class Noisy(Walk):
        def seen(self):
            return np.array([self.at, self.np_random.normal()], dtype=np.float32)

    data = collect(Noisy(), 1000, seed=0)
    episodes = int(data.terminated.sum())
    assert abs(len(data.observations) - 1000 - episodes) <= 1  # a row for each step
    assert not data.repeats


def test_observations_in_a_file(tmp_path):
    in_memory = collect(Walk(), 500, seed=0)
    data = collect(Walk(), 500, seed=0, file=tmp_path / "o.bin")
    assert isinstance(data.observations, np.memmap)
    assert np.array_equal(data.observations, in_memory.observations)
    assert np.array_equal(data.state, in_memory.state)
    data.save(tmp_path / "data.npz")
    again = Transitions.load(tmp_path / "data.npz")
    assert np.array_equal(again.observations, data.observations)
    with raises(AlreadyExists):
        collect(Walk(), 500, seed=0, file=tmp_path / "o.bin")
    (tmp_path / "o.bin").unlink()
    with raises(MissingFile):
        Transitions.load(tmp_path / "data.npz")


# Environments whose steps cannot be collected, each with its error.


class Growing(Walk):
    def seen(self):
        return np.zeros(self.at + 1, dtype=np.float32)


class Nan(Walk):
    def reward(self):
        return float("nan")


class NanObservation(Walk):
    def seen(self):
        return np.array([np.nan, 0.0], dtype=np.float32)


class Words(Walk):
    def seen(self):
        return "somewhere"


class Tuples(Walk):
    def seen(self):
        return (self.at, 0)


class ChangingType(Walk):
    def seen(self):
        return np.zeros(2, dtype=np.float64 if self.at == 3 else np.float32)


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        *(
            (env, {})
            for env in (Growing, Nan, NanObservation, Words, Tuples, ChangingType, WithDict)
        ),
        (WithDict, {"key": "sound"}),
        (Walk, {"key": "image"}),
    ],
)
def test_wrong_environments(env, settings):
    with raises(DataError):
        collect(env(), 300, seed=0, **settings)


def test_a_terminal_reward_that_is_no_number():
    with raises(ArgumentError, "terminal_reward"):
        collect(Walk(), 300, seed=0, terminal_reward=float("nan"))
