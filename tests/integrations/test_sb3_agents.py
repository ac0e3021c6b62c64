"""Wrappers, and maps that learn, under agents of a real Stable-Baselines3 with torch on a CPU."""

import types
from functools import partial

import gymnasium
import numpy as np
import pytest

from drogo import Column, OnlineMap, OnlineTable, exact
from drogo.errors import ArgumentError, ArgumentTypeError, BadCheckpoint
from drogo.learn import MLP
from raising import refused
from small_world import WORLD, make

DQN = {"learning_starts": 50, "train_freq": 4, "buffer_size": 300, "batch_size": 16}
SMALL_MLP = {"network": MLP(width=16, depth=1), "learning_starts": 50, "capacity": 500}
PLACES = WORLD.observations("coordinates")
QUIET = pytest.mark.filterwarnings("ignore:no terminal state")


@pytest.fixture(scope="module")
def ours(sb3):
    from drogo.integrations import sb3 as module

    return module


def table(env=None, **options):
    return OnlineTable(*spaces(env or make()), **{"every": 10, **options})


def agent_of(sb3, algorithm, env=None, **options):
    kind = getattr(sb3, algorithm) if isinstance(algorithm, str) else algorithm
    defaults = {"n_steps": 32, "batch_size": 16, "n_epochs": 1} if algorithm == "PPO" else DQN
    return kind("MlpPolicy", env or make(), seed=0, device="cpu", **{**defaults, **options})


def spaces(env):
    return env.observation_space, env.action_space


def test_a_dqn_samples_shaped_rewards_and_keeps_its_own(sb3, ours):
    """`LearnMap` installs the replay, which was a plain one, also after some steps without a map."""
    online, agent = table(every=20, until_found=True), agent_of(sb3, "DQN")
    agent.learn(40)
    agent.learn(600, callback=ours.LearnMap(online))
    assert online.steps == 600
    assert online.found
    truth = exact.log_column(WORLD.mdp, 20.0)
    assert online.values(PLACES) == pytest.approx(truth, abs=0.3)  # perhaps not all tried
    names = ("observations", "next_observations", "dones", "rewards")
    sample, phi = agent.replay_buffer.sample(64), online.potential
    before, after, over, rewards = (getattr(sample, name).numpy() for name in names)
    shaping = 0.99 * np.where(over[:, 0] > 0, 0.0, phi(after)) - phi(before)
    assert np.isin((2 * rewards[:, 0] - shaping).round(3), [-1.0, -20.0]).all()
    assert set(np.unique(agent.replay_buffer.rewards)) <= {-1.0, -20.0, 0.0}
    assert min(episode["r"] for episode in agent.ep_info_buffer) >= -800  # the original rewards
    assert agent.logger.name_to_value["map/steps"] == 600


def test_a_ppo_learns_from_rollouts_that_are_shaped_before_its_advantages(sb3, ours):
    seen = {}

    class Look(sb3.common.callbacks.BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            names = ("rewards", "returns", "observations")
            seen.update({name: getattr(self.model.rollout_buffer, name).copy() for name in names})

    online, envs = table(discount=0.9), sb3.common.env_util.make_vec_env(make, 4, seed=0)
    agent = agent_of(sb3, "PPO", envs, gamma=0.9, gae_lambda=1.0)
    agent.learn(512, callback=[ours.LearnMap(online), Look()])
    assert online.steps == 512
    # Inside an episode, the next observation is the next row.
    before, after = seen["observations"][:-1], seen["observations"][1:]
    phi = online.potential
    shaping = 0.9 * phi(after.reshape(-1, 2)) - phi(before.reshape(-1, 2))
    original = 2 * seen["rewards"][:-1].ravel() - shaping
    assert np.isin(original.round(3), [-1.0, -20.0]).mean() > 0.8  # not where an episode began
    assert not np.allclose(seen["returns"], seen["rewards"])


@pytest.mark.slow
def test_behind_a_vec_normalize_the_map_sees_the_environments_numbers(sb3, ours):
    def train(online, **options):
        envs = sb3.common.env_util.make_vec_env(make, 2, seed=0)
        envs = sb3.common.vec_env.VecNormalize(envs, **options)
        agent_of(sb3, "PPO", envs).learn(256, callback=ours.LearnMap(online))

    online, network = table(), OnlineMap(*spaces(make()), **SMALL_MLP)
    refused(ArgumentError, "norm_obs", train, online)
    train(online, norm_obs=False)
    assert {bytes(row) for row in online.arrays()["observations"]} <= {bytes(p) for p in PLACES}
    assert set(online.seen().reward.round(9)) <= {-1.0, -20.0}
    train(network)
    assert network.updates > 0
    assert network.state()[1].low.tolist() == [-0.5, -0.5]  # nothing outside of the space was seen


def test_until_a_goal_is_found_the_map_explores_for_an_agent(sb3, ours, tmp_path):
    """All actions are the map's, so that everything is tried soon. A saved agent acts with its own
    network."""
    online, agent = table(every=1), agent_of(sb3, ours.ExploringDQN)
    agent.learn(300, callback=ours.LearnMap(online))
    assert agent.explorer is online
    assert online.found
    agent._last_obs = np.repeat(PLACES[:1], 60, axis=0)  # where training continues

    def actions():
        return agent._sample_action(0, n_envs=60)[0]

    agent.explorer = table()  # without a goal: all actions are equal
    assert set(actions()) == {0, 1, 2, 3}
    agent.explorer = online  # from now on its actions replace the random ones alone
    agent.exploration_rate = 1.0
    assert (actions() == online.logits(PLACES[:1])[0].argmax()).sum() > 40
    agent.exploration_rate = 0.0
    assert (actions() == agent.predict(PLACES[0], deterministic=True)[0]).all()
    agent.save(tmp_path / "agent.zip")
    again = ours.ExploringDQN.load(tmp_path / "agent.zip")
    greedy = [model.predict(PLACES, deterministic=True)[0].tolist() for model in (agent, again)]
    assert greedy[0] == greedy[1]


@QUIET
@pytest.mark.parametrize("kind", ["DQN", "ExploringDQN"])
def test_a_saved_agent_holds_no_map_and_continues_with_another(sb3, ours, tmp_path, kind):
    online, other, kind = table(), table(), getattr(ours, kind, None) or sb3.DQN
    agent = agent_of(sb3, kind)
    agent.learn(12, callback=ours.LearnMap(online))
    agent.save(tmp_path / "agent.zip")
    agent.save_replay_buffer(tmp_path / "replay.pkl")
    stored = sb3.common.save_util.load_from_zip_file(tmp_path / "agent.zip")[0]
    assert stored["replay_buffer_kwargs"] == {}
    again = kind.load(tmp_path / "agent.zip", env=make())
    again.load_replay_buffer(tmp_path / "replay.pkl")
    assert again.replay_buffer.shaping is getattr(again, "explorer", None) is None
    again.learn(8, callback=ours.LearnMap(other), reset_num_timesteps=False)
    assert again.replay_buffer.shaping is other
    assert (agent.replay_buffer.shaping, other.steps) == (online, 8)


def pictures():
    """The state of a grid world as an image that SB3 takes for one."""
    shape, space = (36, 40, 3), gymnasium.spaces.Box(0, 255, (36, 40, 3), np.uint8)
    shown = lambda seen: np.full(shape, 255 * (seen[0] + 0.5), np.uint8)  # noqa: E731
    return gymnasium.wrappers.TransformObservation(make(), shown, space)


@QUIET
@pytest.mark.parametrize("algorithm", ["ExploringDQN", "PPO"])
def test_images_whose_axes_are_exchanged(sb3, ours, algorithm):
    """An exploring agent predicts with its network, as a `DQN`, and acts by its exploration rate."""
    vec_env = sb3.common.vec_env
    turned = table(vec_env.VecTransposeImage(vec_env.DummyVecEnv([pictures])))

    def learn(online):
        env = vec_env.DummyVecEnv([pictures])
        env = vec_env.VecNormalize(env, norm_obs=False) if algorithm == "PPO" else env
        agent = agent_of(sb3, getattr(ours, algorithm, algorithm), env)
        return agent.learn(64, callback=ours.LearnMap(online))

    refused(ArgumentError, "observation_space", learn, table(pictures()))
    agent = learn(turned)
    assert turned.steps == 64
    if algorithm == "ExploringDQN":
        picture, agent.exploration_rate = pictures().reset(seed=0)[0], 0.0
        greedy = int(agent.predict(picture, deterministic=True)[0])
        assert {int(agent.predict(picture)[0]) for _ in range(20)} == {greedy}


def test_an_interrupted_rollout_and_terminal_states_of_a_users_worth(sb3, ours):
    stop = lambda local, _: local["self"].num_timesteps != 10  # noqa: E731
    stop, online = sb3.common.callbacks.ConvertCallback(stop), table()
    agent, callback = agent_of(sb3, "PPO"), ours.LearnMap(online)
    with pytest.warns(UserWarning, match="in 10 steps"):
        agent.learn(32, callback=[callback, stop])
    agent.learn(64, callback=callback)
    assert online.steps == 74
    online = table(reward=-1.0)
    callback = ours.LearnMap(online, terminal_reward=lambda step: 2 * step.reward)
    with pytest.warns(UserWarning, match="no terminal state worth 0"):
        agent_of(sb3, "PPO").learn(300, callback=callback)
    seen = online.seen()
    assert seen.terminated.any()
    assert set(seen.terminal_reward[seen.terminated]) <= {-2.0, -40.0}


@QUIET
def test_training_on_without_the_callback_is_reported_once(sb3, ours):
    agent = agent_of(sb3, "DQN").learn(8, callback=ours.LearnMap(table()))
    with pytest.warns(UserWarning, match="did not observe") as caught:
        agent.learn(12, reset_num_timesteps=False)
    assert len(caught) == 1


def test_wrong_use_names_the_argument(sb3, ours, tmp_path, unchecked):
    refused(ArgumentTypeError, "shaping", ours.LearnMap, "x")
    refused(ArgumentTypeError, "online", ours.Checkpoints, tmp_path / "run.npz", online=0)
    refused(ArgumentError, "seconds", ours.Checkpoints, tmp_path / "run.npz", seconds=0.0)

    def learn(argument, online, **options):
        call = partial(agent_of(sb3, "DQN", **options).learn, callback=ours.LearnMap(online))
        refused(ArgumentError, argument, call, 100)

    lean = {"handle_timeout_termination": False}
    learn("optimize_memory_usage", table(), optimize_memory_usage=True, replay_buffer_kwargs=lean)
    learn("n_steps", table(), n_steps=3)
    box = gymnasium.spaces.Box(0, 1, (3,), np.float32)
    learn("observation_space", OnlineTable(box, make().action_space))
    learn("action_space", OnlineTable(make().observation_space, gymnasium.spaces.Discrete(9)))
    learn("discount", table(discount=0.9))
    used = agent_of(sb3, "DQN", replay_buffer_class=ours.ShapedReplayBuffer)
    two, vec_env = [ours.LearnMap(table()), ours.LearnMap(table())], sb3.common.vec_env
    envs = vec_env.VecFrameStack(vec_env.VecNormalize(vec_env.DummyVecEnv([make])), 3)
    stacked, callback = agent_of(sb3, "PPO", envs), ours.LearnMap(OnlineMap(*spaces(envs)))
    refused(ArgumentError, "callback", used.learn, 100)
    refused(ArgumentError, "shaping", used.learn, 100, callback=two)
    refused(ArgumentError, "env", stacked.learn, 100, callback=callback)


@QUIET
def test_the_map_and_the_agent_continue_together_from_a_file(sb3, ours, tmp_path):
    path, options = tmp_path / "run.npz", {**SMALL_MLP, "updates_per_step": 1.0, "train_every": 1}
    saved, agent = OnlineMap(*spaces(make()), **options), agent_of(sb3, "DQN")
    agent.learn(92, callback=[ours.LearnMap(saved), ours.Checkpoints(path, saved)])
    online, agent = OnlineMap(*spaces(make()), **options), agent_of(sb3, "DQN")
    ours.restore(path, agent, online)
    assert (agent.num_timesteps, online.steps, online.updates) == (92, 92, saved.updates)
    assert np.array_equal(online.values(PLACES), saved.values(PLACES))
    assert np.array_equal(online.judging.numbers, saved.judging.numbers)
    assert agent.replay_buffer.pos == 92
    agent.learn(40, reset_num_timesteps=False, callback=ours.LearnMap(online))
    assert (agent.num_timesteps, online.steps, online.updates) == (132, 132, saved.updates + 40)
    three = sb3.common.env_util.make_vec_env(make, 3)
    wrong = [({"buffer_size": 1000}, make(), {}), ({"gamma": 0.9}, make(), {}), ({}, three, {}),
             ({}, make(), {"problem": Column(lam=3.0)})]  # fmt: skip
    for changed, env, other in wrong:
        another = OnlineMap(*spaces(make()), **options, **other)
        fresh = agent_of(sb3, "DQN", env, **changed)
        refused(BadCheckpoint, "path", ours.restore, path, fresh, another)
        assert (fresh.num_timesteps, another.steps) == (0, 0)
    refused(BadCheckpoint, "path", ours.restore, path, agent_of(sb3, "PPO"), online)


class Curve(types.SimpleNamespace):
    """A part of a file beside an agent and its map."""

    def arrays(self):
        return {"numbers": self.numbers}

    def continue_from(self, arrays):
        self.numbers = arrays["numbers"]


def test_a_ppo_and_its_normalisation_are_restored(sb3, ours, tmp_path):
    def both():
        envs = sb3.common.env_util.make_vec_env(make, 2, seed=0)
        envs = sb3.common.vec_env.VecNormalize(envs, norm_obs=False)
        return agent_of(sb3, "PPO", envs), table()

    (agent, online), (again, map_again), curve = both(), both(), Curve()
    agent.learn(128, callback=ours.LearnMap(online))
    ours.save(tmp_path / "run.npz", agent, online, curve=Curve(numbers=np.arange(3)))
    ours.restore(tmp_path / "run.npz", again, map_again, curve=curve)
    assert curve.numbers.tolist() == [0, 1, 2]
    assert np.array_equal(map_again.values(PLACES), online.values(PLACES))
    assert again.num_timesteps == 128
    assert again.get_vec_normalize_env().ret_rms.var == agent.get_vec_normalize_env().ret_rms.var
    for name, tensor in agent.policy.state_dict().items():
        assert (again.policy.state_dict()[name] == tensor).all()


@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_an_agent_is_not_saved_without_its_map(sb3, ours, tmp_path, algorithm):
    online, path, agent = table(), tmp_path / "run.npz", agent_of(sb3, algorithm)
    for checkpoints in (ours.Checkpoints(path), ours.Checkpoints(path, table())):
        both = [ours.LearnMap(online), checkpoints]
        refused(ArgumentError, "online", agent.learn, 10, callback=both)
    refused(ArgumentError, "online", ours.restore, path, agent)
    assert (agent.num_timesteps, path.exists()) == (0, False)
    sac = sb3.SAC("MlpPolicy", gymnasium.make("Pendulum-v1"), device="cpu", buffer_size=10)
    refused(ArgumentError, "agent", sac.learn, 5, callback=ours.Checkpoints(path))


def test_a_checkpoint_holds_nothing_that_was_not_learned_from(sb3, ours, tmp_path, monkeypatch):
    """A PPO that is killed before it learns from its second rollout continues after the first, and
    with other random numbers than those of its beginning."""
    learn, times = sb3.PPO.train, []

    def interrupted(agent):
        times.append(agent.num_timesteps)
        if len(times) == 2:
            raise KeyboardInterrupt
        learn(agent)

    agent, path = agent_of(sb3, "PPO"), tmp_path / "run.npz"
    monkeypatch.setattr(sb3.PPO, "train", interrupted)
    refused(KeyboardInterrupt, None, agent.learn, 64, ours.Checkpoints(path, seconds=1e-9))
    resumed = agent_of(sb3, "PPO")
    first = [int(resumed.action_space.sample()) for _ in range(20)]
    ours.restore(path, resumed)
    assert (times, resumed.num_timesteps, resumed._n_updates) == ([32, 64], 32, 1)
    assert [int(resumed.action_space.sample()) for _ in range(20)] != first
