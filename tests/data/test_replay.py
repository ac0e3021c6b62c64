"""Replay buffers of Stable-Baselines3, compared with what was put into them."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from drogo import Transitions
from drogo.errors import ArgumentError, ArgumentTypeError, DataError
from raising import refused
from small_lines import line_of

LENGTH = 5
SIZES = pytest.mark.parametrize(("steps", "n_envs"), [(25, 3), (40, 1), (67, 1), (67, 3)])
HALF = {"optimize_memory_usage": True, "handle_timeout_termination": False}


Smooth = line_of(
    observation_space=spaces.Box(-100, 100, (2,), np.float32),
    action_space=spaces.Box(-1.0, 3.0, (1,), np.float32),
    least=-np.inf,
    first=lambda env: float(env.np_random.uniform(0, 1)),
    move=lambda env, action: float(action[0]),
    reward=lambda env: -1.0 - abs(env.at),
    observe=lambda env: np.array([env.at, 2 * env.at], dtype=np.float32),
)
"""Steps of -1 to 3. Observations do not repeat."""
NUMBERS = spaces.Discrete(LENGTH + 3)
Numbered = line_of(
    observation_space=NUMBERS,
    first=lambda env: int(env.np_random.integers(0, 2)),
    observe=lambda env: env.at,
)
"""Whole numbers as observations."""


class Parts(Numbered):
    observation_space = spaces.Dict(place=NUMBERS, image=spaces.Box(0, 255, (3, 8, 8), np.uint8))

    def observe(self):
        image = np.zeros((3, 8, 8), dtype=np.uint8)
        image[1, self.at] = 200
        return {"place": self.at, "image": image}


def fill(sb3, kind, steps, n_envs=2, limit=None, **options):
    """Returns a buffer, and every step in the order of time."""
    limit = limit or (6 if kind is Smooth else 20)
    envs = sb3.common.vec_env.DummyVecEnv([lambda: TimeLimit(kind(), limit)] * n_envs)
    name = "DictReplayBuffer" if kind is Parts else "ReplayBuffer"
    options = {"buffer_size": 40 * n_envs, "n_envs": n_envs, "device": "cpu", **options}
    both = {"observation_space": envs.observation_space, "action_space": envs.action_space}
    buffer = getattr(sb3.common.buffers, name)(**both, **options)
    envs.seed(3)
    envs.action_space.seed(4)
    before, true = envs.reset(), []
    for _ in range(steps):
        action = np.array([envs.action_space.sample() for _ in range(n_envs)])
        after, reward, done, infos = envs.step(action)
        pairs = zip(_each(after, n_envs), infos, strict=True)
        last = [info.get("terminal_observation", one) for one, info in pairs]
        for k, one in enumerate(_each(before, n_envs)):
            cut = infos[k]["TimeLimit.truncated"]
            true.append((one, action[k], reward[k], last[k], bool(done[k]) and not cut, cut))
        scaled = action if kind is not Smooth else (action + 1) / 2 - 1
        stacked = ({name: np.array([one[name] for one in last]) for name in after}
                   if isinstance(after, dict) else np.array(last))  # fmt: skip
        buffer.add(before, stacked, scaled, reward, done, infos)
        before = after
    return buffer, true


def _each(observations, n):
    if isinstance(observations, dict):
        return [{name: part[k] for name, part in observations.items()} for k in range(n)]
    return list(observations)


def assert_same(data, true, part=np.asarray):
    assert len(data) == len(true)
    before, action, reward, after, over, cut = zip(*true, strict=True)
    np.testing.assert_array_equal(data.observations[data.state], [part(one) for one in before])
    np.testing.assert_array_equal(data.observations[data.next_state], [part(one) for one in after])
    np.testing.assert_allclose(data.reward, reward, rtol=1e-6)
    assert (data.terminated.tolist(), data.truncated.tolist()) == (list(over), list(cut))
    np.testing.assert_allclose(data.action, action, atol=1e-6)


@SIZES
def test_what_was_put_in_comes_out(sb3, steps, n_envs):
    """Not full, just full, and full with the oldest steps replaced."""
    buffer, true = fill(sb3, Smooth, steps, n_envs)
    data = Transitions.from_replay_buffer(buffer)
    assert_same(data, true[-40 * n_envs :])
    assert data.terminated.any()
    assert data.truncated.any() or len(data) < 50
    np.testing.assert_allclose(data.default, 0.25)  # the actions are in [-1, 3]
    assert data.behaviour is None


def test_discrete_spaces_dicts_flags_and_unscaled_actions(sb3):
    buffer, true = fill(sb3, Numbered, 60)
    data = Transitions.from_replay_buffer(buffer)
    assert_same(data, true[-80:])
    assert (data.observations.ndim, data.n_actions) == (1, 2)  # as the environment gives them
    np.testing.assert_array_equal(data.default, 0.5)
    buffer, true = fill(sb3, Parts, 60)
    for key, axes in (("place", ()), ("image", (1, 2, 0))):
        data = Transitions.from_replay_buffer(buffer, key=key)
        assert_same(data, true[-80:], lambda one, k=key, to=axes: np.transpose(one[k], to))
    buffer, true = fill(sb3, Smooth, 30, limit=1000, handle_timeout_termination=False)
    assert_same(Transitions.from_replay_buffer(buffer, terminated=buffer.dones), true)
    buffer, true = fill(sb3, Smooth, 40)
    buffer.actions[:] = np.array([step[1] for step in true]).reshape(buffer.actions.shape)
    refused(DataError, "scaled_actions", Transitions.from_replay_buffer, buffer)
    assert_same(Transitions.from_replay_buffer(buffer, scaled_actions=False), true)
    buffer.actions[3, 1] = 9.0
    refused(DataError, "action", Transitions.from_replay_buffer, buffer, scaled_actions=False)


@SIZES
def test_half_the_memory(sb3, steps, n_envs):
    """The last observation of an episode is lost, and so is the oldest step of a full buffer."""
    buffer, true = fill(sb3, Smooth, steps, n_envs, **HALF)
    refused(DataError, "terminated", Transitions.from_replay_buffer, buffer)
    over = np.zeros_like(buffer.dones)
    for at, step in enumerate(true):
        over[(at // n_envs) % 40, at % n_envs] = step[4]
    for wrong in (None, np.zeros(3)):
        given = {"terminated": over, "terminal_observation": wrong}
        refused(DataError, "terminal_observation", Transitions.from_replay_buffer, buffer, **given)
    stand_in = np.full(2, -7.0)
    data = Transitions.from_replay_buffer(buffer, terminated=over, terminal_observation=stand_in)
    held = true if steps < 40 else true[-39 * n_envs :]
    older, newest = held[:-n_envs], held[-n_envs:]
    older = [(*step[:3], stand_in if step[4] else step[3], *step[4:]) for step in older]
    assert_same(data, [*(step for step in older if not step[5]), *newest])


def test_agents_fill_buffers_with_what_the_environment_gave(sb3):
    """Also behind a VecNormalize, whose numbers only the agent sees."""
    vec_env = sb3.common.vec_env
    envs = vec_env.VecNormalize(vec_env.DummyVecEnv([lambda: TimeLimit(Smooth(), 6)]))
    model = sb3.SAC("MlpPolicy", envs, learning_starts=100, buffer_size=500, seed=0, device="cpu")
    model.learn(60)
    data = Transitions.from_replay_buffer(model.replay_buffer)
    before, after = (data.observations[part] for part in (data.state, data.next_state))
    np.testing.assert_allclose(after - before, data.action * [[1, 2]], atol=1e-4)
    np.testing.assert_allclose(data.reward, -1 - np.abs(after[:, 0]), rtol=1e-5)
    assert np.array_equal(after[:, 0] >= LENGTH, data.terminated)
    assert data.terminated.any()
    assert data.action.max() > 1.5  # not scaled to [-1, 1]


def test_wrong_buffers(sb3, unchecked):
    read = Transitions.from_replay_buffer
    for steps, options in ((0, {}), (3, {**HALF, "n_envs": 1, "buffer_size": 1})):
        refused(DataError, "buffer", read, fill(sb3, Numbered, steps, **options)[0])
    spaces = (Smooth.observation_space, Smooth.action_space)
    rollouts = sb3.common.buffers.RolloutBuffer(8, *spaces, device="cpu")
    for buffer in ([], "buffer.pkl", rollouts):
        refused(ArgumentTypeError, "buffer", read, buffer)
    buffer, _ = fill(sb3, Numbered, 40)
    for terminated in ([0, 0, 1], np.ones_like(buffer.dones)):
        refused(DataError, "terminated", read, buffer, terminated=terminated)
    refused(ArgumentError, "reward", read, buffer, reward=1.0)
    buffer.actions[2, 0] = 4
    refused(DataError, "action", read, buffer)
