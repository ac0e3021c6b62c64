"""Several parts of a `Dict` observation, joined to one vector."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from drogo import collect
from drogo.errors import ArgumentError, DataError


class Cart(gymnasium.Env):
    """Three places in a line; the last one is the goal."""

    observation_space = spaces.Dict(
        {
            "velocity": spaces.Box(-1, 1, (1, 2), np.float32),
            "position": spaces.Box(0, 3, (1,), np.float32),
            "place": spaces.Discrete(4),
            "mission": spaces.Text(9),
        }
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.seen(), {}

    def step(self, action):
        self.at += int(action)
        return self.seen(), -1.0, self.at == 3, False, {}

    def seen(self):
        return {
            "velocity": np.array([[0.5, -0.5]], dtype=np.float32),
            "position": np.array([self.at], dtype=np.float32),
            "place": self.at,
            "mission": "go right",
        }


def test_parts_are_joined_in_the_order_of_their_names():
    data = collect(Cart(), 200, seed=0, key=("position", "velocity"))
    assert data.observations.dtype == np.float32
    np.testing.assert_array_equal(data.observations[[0, 3]], [[0, 0.5, -0.5], [3, 0.5, -0.5]])
    data = collect(Cart(), 200, seed=0, key=["velocity", "place"])
    np.testing.assert_array_equal(data.observations[3], [0.5, -0.5, 3])


def test_a_vector_of_environments():
    envs = gymnasium.vector.SyncVectorEnv([Cart, Cart])
    data = collect(envs, 200, seed=0, key=("position", "velocity"))
    np.testing.assert_array_equal(np.unique(data.observations[:, 0]), [0, 1, 2, 3])


def test_a_single_name_in_a_sequence_is_that_name():
    data = collect(Cart(), 200, seed=0, key=("velocity",), merge=False)
    assert data.observations.shape[1:] == (1, 2)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (("position", "mission"), "mission has the type <U8, and only numbers can be joined"),
        (("position", "sound"), "key has 'sound'; the observation has velocity, position"),
    ],
)
def test_parts_that_cannot_be_joined(key, message):
    with pytest.raises(DataError, match=message):
        collect(Cart(), 10, seed=0, key=key)


def test_wrong_keys():
    with pytest.raises(ArgumentError, match="key is empty"):
        collect(Cart(), 10, seed=0, key=())
    frozen_lake = gymnasium.make("FrozenLake-v1")
    with pytest.raises(DataError, match="the observation is not a Dict"):
        collect(frozen_lake, 10, seed=0, key=("a", "b"))
