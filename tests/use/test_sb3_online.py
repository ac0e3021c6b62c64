"""Maps that are learned while agents of a real Stable-Baselines3 train."""

import os
import signal
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest

import needs
from drogo import ArgumentError, BadCheckpoint, GridWorld, OnlineMap, OnlineTable, exact
from drogo.use import RND, OwnValue
from drogo.use.online.compiled import put_together

SMALL = """
step-limit: 40

######
#S..G#
#.x..#
######
"""
WORLD = GridWorld.parse(SMALL)
DQN_OPTIONS = {"learning_starts": 50, "train_freq": 4, "buffer_size": 300, "batch_size": 16}


def make(kind="coordinates"):
    return gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation=kind)


@pytest.fixture(scope="module")
def sb3():
    """Imported by the first test that needs it, not by every process that collects the tests."""
    needs.module("torch").set_num_threads(1)
    return needs.module("stable_baselines3")


@pytest.fixture(scope="module")
def ours(sb3):
    from drogo.use import sb3 as module

    return module


def spaces(env):
    return env.observation_space, env.action_space


def dqn(sb3, ours, shaping, env=None, kind=None, **options):
    replay = {"replay_buffer_class": ours.ShapedReplayBuffer,
              "replay_buffer_kwargs": {"shaping": shaping}}  # fmt: skip
    return (kind or sb3.DQN)(
        "MlpPolicy", env or make(), seed=0, device="cpu", **DQN_OPTIONS, **replay, **options
    )


def test_a_dqn_draws_shaped_rewards_and_keeps_its_own(sb3, ours):
    online = OnlineTable(*spaces(make()), every=20, discount=0.99)
    agent = dqn(sb3, ours, online, gamma=0.99)
    agent.learn(600, callback=ours.LearnMap(online))
    assert online.steps == 600
    assert online.found
    v = online.values(WORLD.observations("coordinates"))
    assert v == pytest.approx(exact.log_column(WORLD.mdp, 20.0), abs=0.3)  # perhaps not all tried
    drawn = agent.replay_buffer.sample(64)
    before, after, over = (
        part.numpy() for part in (drawn.observations, drawn.next_observations, drawn.dones)
    )
    phi = online.potential
    shaping = 0.99 * np.where(over[:, 0] > 0, 0.0, phi(after)) - phi(before)
    original = 2 * drawn.rewards.numpy()[:, 0] - shaping
    assert np.isin(original.round(3), [-1.0, -20.0]).all()
    assert set(np.unique(agent.replay_buffer.rewards)) <= {-1.0, -20.0, 0.0}
    episodes = [episode["r"] for episode in agent.ep_info_buffer]
    assert min(episodes) >= -800  # what the agent logs is its own reward
    assert agent.logger.name_to_value["map/steps"] == 600


def test_a_ppo_learns_from_rollouts_that_are_shaped_before_its_advantages(sb3, ours):
    seen = {}

    class Look(sb3.common.callbacks.BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            buffer = self.model.rollout_buffer
            seen.update(rewards=buffer.rewards.copy(), returns=buffer.returns.copy(),
                        observations=buffer.observations.copy())  # fmt: skip

    online = OnlineTable(*spaces(make()), every=10, discount=0.9)
    envs = sb3.common.env_util.make_vec_env(make, 4, seed=0)
    agent = sb3.PPO("MlpPolicy", envs, n_steps=32, batch_size=32, gamma=0.9, gae_lambda=1.0,
                    seed=0, device="cpu", n_epochs=1)  # fmt: skip
    agent.learn(512, callback=[ours.LearnMap(online), Look()])
    assert online.steps == 512
    # Inside an episode, the next observation is the next row.
    before, after = seen["observations"][:-1], seen["observations"][1:]
    phi = online.potential
    flat = 0.9 * phi(after.reshape(-1, 2)) - phi(before.reshape(-1, 2))
    ordinary = 2 * seen["rewards"][:-1].ravel() - flat
    matches = np.isin(ordinary.round(3), [-1.0, -20.0])
    assert matches.mean() > 0.8  # not where an episode began
    assert not np.allclose(seen["returns"], seen["rewards"])


@pytest.mark.slow
def test_behind_a_vec_normalize_the_map_sees_what_the_environment_gave(sb3, ours):
    normalise, several = sb3.common.vec_env.VecNormalize, sb3.common.env_util.make_vec_env

    def train(online, **options):
        envs = normalise(several(make, 2, seed=0), **options)
        agent = sb3.PPO(
            "MlpPolicy", envs, n_steps=64, batch_size=32, seed=0, device="cpu", n_epochs=1
        )
        agent.learn(256, callback=ours.LearnMap(online))

    table = OnlineTable(*spaces(make()), every=10)
    with pytest.raises(ArgumentError, match="norm_obs=False"):
        train(table)
    train(table, norm_obs=False)
    assert set(table._index) <= {row.tobytes() for row in WORLD.observations("coordinates")}
    assert set(table.seen().reward.round(9)) <= {-1.0, -20.0}
    network = OnlineMap(*spaces(make()), width=8, learning_starts=100, updates=0.1)
    train(network)
    assert network.updates > 0
    assert put_together(network._parts)[1].low.tolist() == [
        -0.5,
        -0.5,
    ]  # what was seen is in the space


@pytest.mark.parametrize("rival", ["RND", "own value"])
@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_rivals_in_the_same_harness(sb3, ours, rival, algorithm):
    env = make()
    shaping = RND(env.observation_space, width=16) if rival == "RND" else OwnValue(weight=0.1)
    if algorithm == "DQN":
        agent = dqn(sb3, ours, shaping)
    else:
        agent = sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=32, seed=0, device="cpu")
    agent.learn(200, callback=ours.LearnMap(shaping))
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
    bonus = [rnd.shaped(np.zeros(8), part, part, None).mean() for part in (often, never)]
    assert bonus[1] > 5 * bonus[0]


def test_wrong_use_is_a_clear_error(sb3, ours):
    online = OnlineTable(*spaces(make()))
    plain = sb3.DQN("MlpPolicy", make(), seed=0, device="cpu", **DQN_OPTIONS)
    with pytest.raises(ArgumentError, match="ShapedReplayBuffer"):
        plain.learn(10, callback=ours.LearnMap(online))
    with pytest.raises(ArgumentError, match="callback"):
        dqn(sb3, ours, online).learn(100)
    with pytest.raises(ArgumentError, match="optimize_memory_usage"):
        sb3.DQN("MlpPolicy", make(), optimize_memory_usage=True, device="cpu", **DQN_OPTIONS,
                replay_buffer_class=ours.ShapedReplayBuffer,
                replay_buffer_kwargs={"shaping": online,
                                      "handle_timeout_termination": False})  # fmt: skip
    other = OnlineTable(gymnasium.spaces.Box(0, 1, (3,), np.float32), make().action_space)
    with pytest.raises(ArgumentError, match="shape"):
        dqn(sb3, ours, other).learn(100, callback=ours.LearnMap(other))


def test_a_map_of_another_agent_is_a_clear_error(sb3, ours):
    env = make()
    nine = OnlineTable(env.observation_space, gymnasium.spaces.Discrete(9))
    with pytest.raises(ArgumentError, match="9 actions"):
        dqn(sb3, ours, nine).learn(60, callback=ours.LearnMap(nine))
    online = OnlineTable(*spaces(env), discount=0.9)
    with pytest.raises(ArgumentError, match="discount is 0.99"):
        dqn(sb3, ours, online).learn(60, callback=ours.LearnMap(online))
    sac = sb3.SAC("MlpPolicy", gymnasium.make("Pendulum-v1"), device="cpu", buffer_size=10,
                  replay_buffer_class=ours.ShapedReplayBuffer,
                  replay_buffer_kwargs={"shaping": OwnValue()})  # fmt: skip
    with pytest.raises(ArgumentError, match="a SAC has no value"):
        sac.learn(5, callback=ours.LearnMap(sac.replay_buffer.shaping))


def test_until_a_goal_is_found_the_map_explores_for_an_agent(sb3, ours, tmp_path):
    """All actions are the map's, so that everything is tried soon. A saved agent acts with its own
    network, and has no map in it."""
    online = OnlineTable(*spaces(make()), every=1)
    agent = dqn(sb3, ours, online, kind=ours.ExploringDQN)
    agent.learn(300, callback=ours.LearnMap(online))
    assert agent.explorer is online
    assert online.found
    seen = WORLD.observations("coordinates")
    agent._last_obs = np.repeat(seen[:1], 60, axis=0)  # where training goes on

    def drawn():
        return agent._sample_action(0, n_envs=60)[0]

    untold = OnlineTable(*spaces(make()))
    agent.explorer = untold  # in which nothing is found: all actions are equal
    assert set(drawn()) == {0, 1, 2, 3}
    agent.explorer = online  # from now on its actions replace the random ones alone
    promised = online.logits(seen[:1])[0].argmax()
    agent.exploration_rate = 1.0
    assert (drawn() == promised).sum() > 40
    agent.exploration_rate = 0.0
    assert (drawn() == agent.predict(seen[0], deterministic=True)[0]).all()
    agent.save(tmp_path / "agent.zip")
    again = ours.ExploringDQN.load(tmp_path / "agent.zip")
    assert again.explorer is None
    assert again.replay_buffer.shaping is None
    actions = [model.predict(seen, deterministic=True)[0].tolist() for model in (agent, again)]
    assert actions[0] == actions[1]


@pytest.mark.filterwarnings("ignore:no terminal state")
@pytest.mark.parametrize("kind", ["DQN", "ExploringDQN"])
def test_a_saved_agent_holds_no_map_and_goes_on_with_that_of_a_user(sb3, ours, tmp_path, kind):
    online, kind = OnlineTable(*spaces(make())), getattr(ours, kind)
    agent = dqn(sb3, ours, online, kind=kind)
    agent.learn(12, callback=ours.LearnMap(online))
    agent.save(tmp_path / "agent.zip")
    stored = sb3.common.save_util.load_from_zip_file(tmp_path / "agent.zip")[0]
    assert stored["replay_buffer_kwargs"] == {"shaping": None}
    again, other = kind.load(tmp_path / "agent.zip", env=make()), OnlineTable(*spaces(make()))
    again.learn(8, callback=ours.LearnMap(other), reset_num_timesteps=False)
    assert again.replay_buffer.shaping is other
    assert (agent.replay_buffer.shaping, other.steps) == (online, 8)


def test_training_on_without_the_callback_is_told_once(sb3, ours):
    online = OnlineTable(*spaces(make()))
    agent = dqn(sb3, ours, online)
    with pytest.warns(UserWarning, match="no terminal state"):
        agent.learn(8, callback=ours.LearnMap(online))
    with pytest.warns(UserWarning, match="does not learn any more") as told:
        agent.learn(12, reset_num_timesteps=False)
    assert len(told) == 1


def test_several_steps_at_once_are_a_clear_error(sb3, ours):
    online = OnlineTable(*spaces(make()))
    with pytest.warns(UserWarning, match="n_steps=3"):
        agent = dqn(sb3, ours, online, n_steps=3)
    with pytest.raises(ArgumentError, match="n_steps is 3; a shaped replay draws single steps"):
        agent.learn(8, callback=ours.LearnMap(online))


def test_frames_stacked_around_a_normalisation_are_a_clear_error(sb3, ours):
    vec_env = sb3.common.vec_env
    normalised = vec_env.VecNormalize(vec_env.DummyVecEnv([make]))
    envs = vec_env.VecFrameStack(normalised, 3)
    online = OnlineMap(*spaces(envs))
    agent = sb3.PPO("MlpPolicy", envs, n_steps=64, device="cpu")
    with pytest.raises(ArgumentError, match="VecNormalize outermost"):
        agent.learn(64, callback=ours.LearnMap(online))


def test_what_an_exploring_agent_predicts_is_its_own(sb3, ours):
    """As a `DQN`, which turns the axes of images around, and draws by its exploration rate."""
    vec_env = sb3.common.vec_env
    turned = vec_env.VecTransposeImage(vec_env.DummyVecEnv([Pictures]))
    online = OnlineTable(*spaces(turned))
    agent = dqn(sb3, ours, online, env=Pictures(), kind=ours.ExploringDQN)
    with pytest.warns(UserWarning, match="no terminal state"):
        agent.learn(3, callback=ours.LearnMap(online))
    picture, agent.exploration_rate = Pictures().reset(seed=0)[0], 0.0
    own = agent.predict(picture, deterministic=True)[0]
    assert not online.found
    assert {int(agent.predict(picture)[0]) for _ in range(20)} == {int(own)}


@pytest.mark.slow
def test_a_replay_that_was_saved_gets_its_map_back(sb3, ours, tmp_path):
    online = OnlineMap(*spaces(make()), width=8, learning_starts=20)
    agent = dqn(sb3, ours, online)
    agent.learn(80, callback=ours.LearnMap(online))
    agent.save_replay_buffer(tmp_path / "replay.pkl")
    agent.load_replay_buffer(tmp_path / "replay.pkl")
    assert agent.replay_buffer.shaping is None
    agent.learn(20, callback=ours.LearnMap(online), reset_num_timesteps=False)
    assert agent.replay_buffer.shaping is online


class Pictures(gymnasium.ObservationWrapper):
    """The state of a grid world as an image that SB3 takes for one."""

    def __init__(self):
        super().__init__(make())
        self.observation_space = gymnasium.spaces.Box(0, 255, (36, 40, 3), np.uint8)

    def observation(self, observation):
        return np.broadcast_to((255 * (observation[0] + 0.5)).astype(np.uint8), (36, 40, 3)).copy()


@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_images_whose_axes_are_exchanged(sb3, ours, algorithm):
    vec_env = sb3.common.vec_env
    made = OnlineTable(*spaces(Pictures()))
    turned = vec_env.VecTransposeImage(vec_env.DummyVecEnv([Pictures]))
    right = OnlineTable(turned.observation_space, turned.action_space)

    def learn(online):
        env = vec_env.DummyVecEnv([Pictures])
        if algorithm == "DQN":
            agent = dqn(sb3, ours, online, env=env)
        else:
            env = vec_env.VecNormalize(env, norm_obs=False)
            agent = sb3.PPO("MlpPolicy", env, n_steps=32, batch_size=16, n_epochs=1, device="cpu")
        agent.learn(64, callback=ours.LearnMap(online))

    with pytest.raises(ArgumentError, match="VecTransposeImage"):
        learn(made)
    learn(right)
    assert right.steps == 64


def test_an_interrupted_rollout_leaves_nothing_behind(sb3, ours):
    class Stop(sb3.common.callbacks.BaseCallback):
        def _on_step(self):
            return self.num_timesteps != 10

    online = OnlineTable(*spaces(make()), every=10)
    agent = sb3.PPO(
        "MlpPolicy", make(), n_steps=32, batch_size=16, n_epochs=1, device="cpu", seed=0
    )
    learns = ours.LearnMap(online)
    with pytest.warns(UserWarning, match="in 10 steps"):
        agent.learn(32, callback=[learns, Stop()])
    agent.learn(64, callback=learns)
    assert online.steps == 74


@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_all_ends_are_worth_what_a_user_says(sb3, ours, algorithm):
    env = make()
    online = OnlineTable(*spaces(env), reward=-1.0, every=10)
    if algorithm == "DQN":
        agent = dqn(sb3, ours, online)
    else:
        agent = sb3.PPO("MlpPolicy", env, n_steps=64, n_epochs=1, seed=0, device="cpu")
    with pytest.warns(UserWarning, match="no terminal state worth 0"):
        agent.learn(
            300, callback=ours.LearnMap(online, terminal_reward=lambda step: 2 * step.reward)
        )
    seen = online.seen()
    assert seen.terminated.any()
    assert set(seen.terminal_reward[seen.terminated]) <= {-2.0, -40.0}


def test_a_budget_without_a_terminal_state_is_told(sb3, ours):
    online = OnlineTable(*spaces(make()))
    with pytest.warns(UserWarning, match="no terminal state worth 0 or more was seen in 4 steps"):
        dqn(sb3, ours, online).learn(3, callback=ours.LearnMap(online))


RUN = """
import sys
import gymnasium
from stable_baselines3 import DQN
from drogo import GridWorld, OnlineMap
from drogo.use.sb3 import LearnMap, ShapedReplayBuffer
from drogo.use.sb3_files import Checkpoints

world = GridWorld.parse('''%s''')
env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="coordinates")
online = OnlineMap(env.observation_space, env.action_space, width=16, learning_starts=50, capacity=500,
                   updates=1.0, train_every=1)
agent = DQN("MlpPolicy", env, seed=0, device="cpu", learning_starts=50, train_freq=4, buffer_size=300,
            batch_size=16, replay_buffer_class=ShapedReplayBuffer,
            replay_buffer_kwargs={"shaping": online})
agent.learn(10**8, callback=[LearnMap(online), Checkpoints(sys.argv[1], online, seconds=0.2)])
"""


@pytest.mark.slow
def test_killed_and_resumed_the_map_and_the_agent_go_on_together(sb3, ours, tmp_path):
    from drogo.use.sb3_files import restore

    path = tmp_path / "run.npz"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.Popen([sys.executable, "-c", RUN % SMALL, str(path)], env=env)
    began = time.monotonic()
    while not path.exists() and killed.poll() is None and time.monotonic() - began < 120:
        time.sleep(0.05)
    time.sleep(0.5)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    options = {
        "width": 16,
        "learning_starts": 50,
        "capacity": 500,
        "updates": 1.0,
        "train_every": 1,
    }
    online = OnlineMap(*spaces(make()), **options)
    agent = dqn(sb3, ours, online)
    restore(path, agent, online)
    steps, updates = agent.num_timesteps, online.updates
    assert online.steps == steps > 50
    assert agent.replay_buffer.pos > 0 or agent.replay_buffer.full
    agent.learn(40, reset_num_timesteps=False, callback=ours.LearnMap(online))
    assert agent.num_timesteps == online.steps == steps + 40
    assert online.updates == updates + 40
    warmer = OnlineMap(*spaces(make()), **options, lam=3.0)
    with pytest.raises(BadCheckpoint, match="differs in"):
        restore(path, dqn(sb3, ours, warmer), warmer)
    before = {name: tensor.clone() for name, tensor in agent.policy.state_dict().items()}
    other = OnlineMap(*spaces(make()), **options)
    three = sb3.common.env_util.make_vec_env(make, 3)
    replay = {"replay_buffer_class": ours.ShapedReplayBuffer,
              "replay_buffer_kwargs": {"shaping": other}}  # fmt: skip
    for changed, env in (({"buffer_size": 1000}, make()), ({"gamma": 0.9}, make()), ({}, three)):
        settings = {**DQN_OPTIONS, **changed, **replay}
        wrong = sb3.DQN("MlpPolicy", env, seed=1, device="cpu", **settings)
        with pytest.raises(BadCheckpoint, match="differs in (replay|discount|environments)"):
            restore(path, wrong, other)
        assert (wrong.num_timesteps, other.steps) == (0, 0)
    assert all((tensor == before[name]).all() for name, tensor in agent.policy.state_dict().items())
    with pytest.raises(BadCheckpoint, match="differs in agent"):
        restore(path, sb3.PPO("MlpPolicy", make(), device="cpu"), online)


def test_a_ppo_and_its_normalisation_are_restored(sb3, ours, tmp_path):
    from drogo.use.sb3_files import restore, save

    def made():
        envs = sb3.common.env_util.make_vec_env(make, 2, seed=0)
        envs = sb3.common.vec_env.VecNormalize(envs, norm_obs=False)
        online = OnlineTable(*spaces(make()), every=10)
        return sb3.PPO("MlpPolicy", envs, n_steps=32, batch_size=32, seed=0, device="cpu"), online

    agent, online = made()
    agent.learn(128, callback=ours.LearnMap(online))

    class Curve:
        numbers = np.arange(3.0)

        def arrays(self):
            return {"numbers": self.numbers}

        def continue_from(self, arrays):
            self.numbers = arrays["numbers"]

    save(tmp_path / "run.npz", agent, online, curve=Curve())
    again, map_again = made()
    curve = Curve()
    curve.numbers = np.zeros(0)
    restore(tmp_path / "run.npz", again, map_again, curve=curve)
    assert curve.numbers.tolist() == [0, 1, 2]
    seen = WORLD.observations("coordinates")
    assert np.array_equal(map_again.values(seen), online.values(seen))
    assert again.num_timesteps == 128
    assert again.get_vec_normalize_env().ret_rms.var == agent.get_vec_normalize_env().ret_rms.var
    for name, tensor in agent.policy.state_dict().items():
        assert (again.policy.state_dict()[name] == tensor).all()


@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_an_agent_is_not_kept_without_its_map(sb3, ours, tmp_path, algorithm):
    from drogo.use.sb3_files import Checkpoints, restore

    online, path = OnlineTable(*spaces(make())), tmp_path / "run.npz"
    if algorithm == "DQN":
        agent = dqn(sb3, ours, online)
        with pytest.raises(ArgumentError, match="shaped by a map, which is not the one given"):
            restore(path, agent)
    else:
        agent = sb3.PPO("MlpPolicy", make(), n_steps=64, device="cpu")
    for callbacks in ([ours.LearnMap(online), Checkpoints(path)],
                      [Checkpoints(path, OnlineTable(*spaces(make()))), ours.LearnMap(online)]):  # fmt: skip
        with pytest.raises(ArgumentError, match="shaped by a map, which is not the one given"):
            agent.learn(10, callback=callbacks)
    assert agent.num_timesteps == 0
    assert not path.exists()


def test_an_agent_of_several_optimisers_is_refused_before_it_trains(sb3, tmp_path):
    from drogo.use.sb3_files import Checkpoints

    sac = sb3.SAC("MlpPolicy", gymnasium.make("Pendulum-v1"), device="cpu", buffer_size=10)
    with pytest.raises(ArgumentError, match="SAC has several optimisers.* a DQN, a PPO or an A2C"):
        sac.learn(5, callback=Checkpoints(tmp_path / "run.npz"))
    assert sac.num_timesteps == 0


def test_a_checkpoint_holds_nothing_that_was_not_learned_from(sb3, ours, tmp_path, monkeypatch):
    """A PPO that is killed before it learns from its second rollout goes on after the first, and
    what it then draws is not what it drew at its beginning."""
    from drogo.use.sb3_files import Checkpoints, restore

    def made():
        return sb3.PPO("MlpPolicy", make(), n_steps=32, batch_size=32, n_epochs=1, seed=0)

    learn, times = sb3.PPO.train, []

    def interrupted(agent):
        times.append(agent.num_timesteps)
        if len(times) == 2:
            raise KeyboardInterrupt
        learn(agent)

    agent, path = made(), tmp_path / "run.npz"
    monkeypatch.setattr(sb3.PPO, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(64, callback=Checkpoints(path, seconds=1e-9))
    resumed = made()
    drawn = [int(resumed.action_space.sample()) for _ in range(20)]
    restore(path, resumed)
    assert times == [32, 64]
    assert resumed.num_timesteps == 32
    assert resumed._n_updates == 1
    assert [int(resumed.action_space.sample()) for _ in range(20)] != drawn
