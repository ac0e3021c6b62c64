"""Environments that the library has never seen, and vectors of them: those that work, and the errors
of the others."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from drogo import Column, Regression, Transitions, collect, fit, load
from drogo.data import index
from drogo.errors import AlreadyExists, ArgumentError, DataError, MissingFile
from drogo.worlds import numbered_actions
from raising import refused
from small_lines import Line, line_of

Walk = line_of(is_over=lambda env: env.at in (0, 5))
"""The right end is the goal, and the left one is a pit."""
TWO = spaces.Discrete(2)


class WithDict(Walk):
    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (8, 8, 3), np.uint8),
        place=spaces.Discrete(6),
        velocity=spaces.Box(-1, 1, (1, 2), np.float32),
        position=spaces.Box(0, 5, (1,), np.float32),
        mission=spaces.Text(9),
    )

    def observe(self):
        image = np.zeros((8, 8, 3), dtype=np.uint8)
        image[self.at] = 255
        vectors = {"velocity": np.float32([[0.5, -0.5]]), "position": np.float32([self.at])}
        return {"image": image, "place": self.at, "mission": "go right", **vectors}


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_one_environment_and_vectors(mode):
    """In each way of starting the next episode: only real steps, and episodes that begin at 2."""
    envs = SyncVectorEnv([Walk] * 3, autoreset_mode=mode) if mode else Walk()
    reward = lambda step: -1.0 - float(step.observation[0])  # noqa: E731
    value = lambda step: 0.0 if step.info["at"] == 5 else -50.0  # noqa: E731
    data = collect(envs, 900, seed=0, reward=reward, terminal_reward=value)
    here, there = data.observations[data.state][:, 0], data.observations[data.next_state][:, 0]
    assert set(np.abs(here - there)) == {1.0}
    assert np.array_equal(data.reward, -1.0 - here)
    assert np.array_equal(data.terminated, (there == 0) | (there == 5))
    assert not np.isin(here, (0, 5)).any()
    assert len(data.observations) == 6
    of_goal = np.where(there[data.terminated] == 5, 0.0, -50.0)
    assert np.array_equal(data.terminal_reward[data.terminated], of_goal)


class Limited(Line):
    """It starts anywhere, and reports the value of its terminal state."""

    observation_space = spaces.Box(0, 6, (1,), np.float32)
    goal = 6

    def first(self):
        return int(self.np_random.integers(1, 6))

    def step(self, action):
        observation, _, over, cut, _ = super().step(action)
        return observation, -1.0 - 3.0 * over, over, cut, {"terminal_reward": -3.0} if over else {}

    def observe(self):
        return np.array([self.at], dtype=np.float32)


LimitedDict = line_of(
    Limited,
    observation_space=spaces.Dict(place=spaces.Discrete(7), at=Limited.observation_space),
    observe=lambda env: {"place": env.at, "at": np.array([env.at])},  # not the type of the space
)


def limited(kind=Limited):
    return TimeLimit(kind(), 7)


def rows(data):
    columns = (data.reward, data.terminated, data.terminal_reward)
    ends = (data.observations[part][:, 0] for part in (data.state, data.next_state))
    return np.stack([*ends, *columns], axis=1)


def test_a_vec_env_gives_the_same_transitions_as_a_vector_of_gymnasium(sb3):
    vec_env = sb3.common.vec_env
    theirs = collect(vec_env.DummyVecEnv([limited] * 3), 500, seed=0)
    envs = SyncVectorEnv([limited] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    ours = collect(envs, 500, seed=0)
    assert theirs.observations.dtype == np.float32
    # A VecEnv does not report that an episode was also cut off in the step that terminated it.
    assert np.array_equal(theirs.truncated, ours.truncated & ~ours.terminated)
    np.testing.assert_array_equal(rows(theirs), rows(ours))
    before, after, reward, terminated, value = rows(theirs).T
    assert (np.abs(after - before) == (after != before)).all()  # none leads across a reset
    assert np.array_equal(after == 6, terminated)
    assert theirs.truncated.any()
    assert not (before == 6).any()
    # The terminal value was taken out of the reward.
    assert (set(reward), set(value[theirs.terminated])) == ({-1.0}, {-3.0})
    envs = vec_env.VecFrameStack(vec_env.DummyVecEnv([limited] * 2), 2)
    assert collect(envs, 300, seed=0).observations.shape[1:] == (2,)
    envs = vec_env.DummyVecEnv([lambda: limited(LimitedDict)] * 2)
    data = collect(envs, 300, seed=0, key=("place", "at"))
    assert (data.observations[:, 0] == data.observations[:, 1]).all()
    assert data.observations.dtype == np.float64  # that of a whole number and a float32

    def right(observations, rng):
        assert observations.shape == (2, 1)
        return np.ones(2, dtype=int)

    data = collect(vec_env.DummyVecEnv([limited] * 2), 50, seed=0, policy=right)
    assert (data.observations[data.next_state] > data.observations[data.state]).all()


def test_observations_that_do_not_repeat_and_those_in_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(index, "MERGE_TRIAL", 100)
    noise = lambda env: np.array([env.at, env.np_random.normal()], dtype=np.float32)  # noqa: E731
    data = collect(line_of(Walk, observe=noise)(), 1000, seed=0)
    episodes = int(data.terminated.sum())
    assert abs(len(data.observations) - 1000 - episodes) <= 1  # a row for each step
    assert not data.repeats
    in_memory = collect(Walk(), 500, seed=0)
    data = collect(Walk(), 500, seed=0, file=tmp_path / "o.bin")
    assert isinstance(data.observations, np.memmap)
    for name in ("observations", "state"):
        assert np.array_equal(getattr(data, name), getattr(in_memory, name))
    data.save(tmp_path / "data.npz")
    assert np.array_equal(Transitions.load(tmp_path / "data.npz").observations, data.observations)
    refused(AlreadyExists, None, collect, Walk(), 500, seed=0, file=tmp_path / "o.bin")
    (tmp_path / "o.bin").unlink()
    refused(MissingFile, None, Transitions.load, tmp_path / "data.npz")


def test_parts_are_joined_in_the_order_of_their_names():
    data = collect(WithDict(), 1000, seed=0, key="image")
    assert (data.observations.shape, data.observations.dtype) == ((6, 8, 8, 3), np.uint8)
    ways = {("position", "velocity"): [2, 0.5, -0.5], ("velocity", "place"): [0.5, -0.5, 2]}
    for key, first in ways.items():
        data = collect(WithDict(), 200, seed=0, key=[*key])
        np.testing.assert_array_equal(data.observations[0], first)
    data = collect(WithDict(), 200, seed=0, key=("velocity",), merge=False)
    assert data.observations.shape[1:] == (1, 2)  # a single name in a sequence is that name
    data = collect(SyncVectorEnv([WithDict] * 2), 200, seed=0, key=("position", "velocity"))
    np.testing.assert_array_equal(np.unique(data.observations[:, 0]), np.arange(6))


@pytest.mark.parametrize("space", [
    spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Tuple([TWO, TWO]),
    spaces.Dict(first=TWO, second=TWO),
])  # fmt: skip
def test_spaces_of_several_parts(space):
    """The first choice is the direction, the second a number of steps; the second part of an
    observation is a dictionary, whose names are sorted."""

    def move(self, action):
        towards, length = action.values() if isinstance(action, dict) else action
        return (2 * int(towards) - 1) * int(length)

    parts = {"b": spaces.Discrete(9), "a": spaces.Box(0, 5, (2,), np.float32)}
    walk = line_of(
        action_space=space,
        observation_space=spaces.Tuple([spaces.Discrete(6), spaces.Dict(parts)]),
        move=move,
        observe=lambda self: (self.at, {"b": 7, "a": np.float32([1, self.at])}),
    )
    lengths = 3 if isinstance(space, spaces.MultiDiscrete) else 2
    for env in (SyncVectorEnv([walk] * 2), walk()):
        data = collect(env, 400, seed=0)
        place, *rest = data.observations.T
        np.testing.assert_array_equal(rest, [0 * place + 1, place, 0 * place + 7])
        towards, length = np.divmod(data.action, lengths)
        expected = np.maximum(place[data.state] + (2 * towards - 1) * length, 0)
        np.testing.assert_array_equal(place[data.next_state], expected)
    env = numbered_actions(walk())
    assert env.action_space.n == data.n_actions == collect(env, 9, seed=0).n_actions == 2 * lengths
    solution = fit(data, Column(lam=5.0), Regression(action_values=True, updates=200), seeds=1)
    action, _ = solution.policy(0).predict(env.reset(seed=0)[0], deterministic=True)
    assert divmod(int(action), lengths) == (1, lengths - 1)  # to the right, as far as possible


@pytest.mark.parametrize("key", ["position", ["velocity", "place"]])
def test_a_solution_knows_its_environment_and_its_policy_takes_a_dict(key, tmp_path):
    collect(WithDict(), 500, seed=0, key=key, reward=-1.0).save(tmp_path / "data.npz")
    data = Transitions.load(tmp_path / "data.npz")
    fit(data, Column(), Regression(action_values=True, updates=2)).save(tmp_path / "fit.npz")
    again, expected = load(tmp_path / "fit.npz"), {"env": "WithDict", "key": key, "reward": -1.0}
    assert dict(data.origin) == again.provenance["origin"] == expected
    assert "of WithDict" in repr(again)
    (observation, _), policy = WithDict().reset(seed=0), again.policy(0)
    action, _ = policy.predict(observation, deterministic=True)
    assert action.shape == ()
    assert key != "position" or action == policy(observation["position"][None])[0]
    batch = {name: np.stack([part] * 3) for name, part in observation.items()}
    assert policy.predict(batch)[0].shape == policy(batch).shape == (3,)


def test_wrong_environments_and_keys():
    for name, wrong in (
        ("observe", lambda self: np.zeros(self.at + 1, dtype=np.float32)),
        ("observe", lambda self: np.array([np.nan, 0.0], dtype=np.float32)),
        ("observe", lambda self: "somewhere"),
        ("observe", lambda self: (self.at, np.zeros((2, 2, 3)))),
        ("observe", lambda self: np.zeros(2, np.float64 if self.at == 3 else np.float32)),
        ("reward", lambda self: np.nan),
    ):
        refused(DataError, None, collect, line_of(Walk, **{name: wrong})(), 300, seed=0)
    parts = (None, "sound", ("position", "mission"), ("position", "sound"))
    for env, keys in ((WithDict, parts), (Walk, ("image", ("a", "b")))):
        for key in keys:
            refused(DataError, "key", collect, env(), 300, seed=0, key=key)
    refused(ArgumentError, "key", collect, WithDict(), 10, seed=0, key=())
    refused(ArgumentError, "terminal_reward", collect, Walk(), 300, seed=0, terminal_reward=np.nan)
