"""Wrappers whose map learns from the steps that pass through them, under the real Gymnasium."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from drogo import GridWorld, OnlineShaping, OnlineTable, VectorOnlineShaping, exact
from drogo.errors import ArgumentError, ArgumentTypeError
from raising import refused
from small_world import BOX, FOUR, WORLD, make

COLUMN = exact.log_column(WORLD.mdp, 20.0)
LAVA = GridWorld.parse("goal H: -200\nstep-limit: 9\n\n#####\n#S.H#\n#####")


def test_the_wrapper_learns_from_what_passes_through_it_and_copies_it():
    env = OnlineShaping(make(), OnlineTable(BOX, FOUR, every=1, discount=0.9, weight=None))
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    for _ in range(600):
        phi = env.online.potential(observation[None])[0]
        observation, reward, over, cut, info = env.step(rng.integers(4))
        after = 0.0 if over else env.online.potential(observation[None])[0]
        assert reward == pytest.approx(info["reward_original"] + 0.9 * after - phi)
        if over or cut:
            observation, _ = env.reset()
    assert env.online.values(WORLD.observations("coordinates")) == pytest.approx(COLUMN)

    class Line(gymnasium.Env):
        observation_space, action_space = BOX, FOUR

        def reset(self, *, seed=None, options=None):
            self.place = np.full(2, -0.5, np.float32)
            return self.place, {}

        def step(self, action):
            self.place += 0.25
            return self.place, -1.0, bool(self.place[0] > 0.4), False, {}

    env = OnlineShaping(Line(), OnlineTable(BOX, FOUR, every=1))
    env.reset()
    for _ in range(4):
        env.step(0)
    seen = env.online.seen()
    assert (seen.state != seen.next_state).all()
    assert seen.state.size == 4


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vectors_in_all_reset_modes(mode):
    """Whatever the mode, the map sees real steps alone: it is that of the world."""
    envs = gymnasium.vector.SyncVectorEnv([make] * 3, autoreset_mode=mode)
    envs = VectorOnlineShaping(envs, OnlineTable(BOX, FOUR, every=1))
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    for _ in range(400):
        _, rewards, over, cut, infos = envs.step(rng.integers(4, size=3))
        assert np.isfinite(rewards).all()
        assert set(infos["reward_original"].tolist()) <= {-1.0, -20.0, 0.0}
        if mode == AutoresetMode.DISABLED and (over | cut).any():
            envs.reset(options={"reset_mask": over | cut})
    assert envs.online.values(WORLD.observations("coordinates")) == pytest.approx(COLUMN)

    # Lava is no goal.
    def lava():
        return gymnasium.make("drogo/GridWorld-v0", world=LAVA, observation="coordinates")

    envs = gymnasium.vector.SyncVectorEnv([lava], autoreset_mode=mode)
    envs = VectorOnlineShaping(envs, OnlineTable(BOX, FOUR, every=1))
    envs.reset(seed=0)
    ended = [bool(envs.step(np.zeros(1, int))[2].any()) for _ in range(2)]  # to the right
    assert any(ended)
    assert not envs.online.found
    assert envs.online.seen().terminal_reward.tolist() == [0, -200]
    assert envs.online.seen().reward == pytest.approx(np.full(2, -1.0))


class Lake(gymnasium.Env):
    """A hole and a goal, of which only the goal pays."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return int(action) + 1, float(action), True, False, {}


class Hurried(gymnasium.Env):
    """An action ends the episode, and pays less the later; others stay at the only place. After five
    steps the episode is cut off there."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return 0, {}

    def step(self, action):
        self.time += 1
        return int(action), action * (1 - 0.1 * self.time), bool(action), self.time == 5, {}


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_the_time_of_episodes_is_known_although_they_begin_where_others_were_cut_off(mode):
    online = OnlineTable(Hurried.observation_space, Hurried.action_space)
    env = gymnasium.vector.SyncVectorEnv([Hurried] * 3, autoreset_mode=mode) if mode else Hurried()
    env = (VectorOnlineShaping if mode else OnlineShaping)(env, online)
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(4, size=(200, 3)) == 0
    for row in actions.astype(int):
        over = np.any(env.step(row if mode else row[0])[2:4], axis=0)
        if not mode and over:
            env.reset()
        elif mode == AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
    pairs = online.judging.tally.pairs
    assert {time for time, _ in pairs} == set(range(5))
    assert all(pay == pytest.approx(0.9 - 0.1 * time) for time, pay in pairs)


@pytest.mark.parametrize("is_vector", [False, True])
def test_terminal_states_are_distinguished_by_a_function_of_the_last_step(is_vector):
    online = OnlineTable(Lake.observation_space, Lake.action_space, reward=-1.0, every=1)
    kind, env = (OnlineShaping, Lake()) if not is_vector else (VectorOnlineShaping, None)
    env = env or gymnasium.vector.SyncVectorEnv([Lake])
    env = kind(env, online, terminal_reward=lambda step: 0.0 if step.reward > 0 else -50.0)
    for action in (0, 1):
        env.reset()
        env.step(np.array([action]) if is_vector else action)
        assert online.found == bool(action)
    assert sorted(online.seen().terminal_reward) == [-50, 0]


def test_wrong_arguments_are_named(unchecked):
    lake = OnlineTable(Lake.observation_space, Lake.action_space)
    refused(ArgumentError, "terminal_reward", OnlineShaping, Lake(), lake, terminal_reward=np.nan)
    refused(ArgumentTypeError, "online", OnlineShaping, Lake(), lambda observations: 0)
    pole, two = gymnasium.make("CartPole-v1"), gymnasium.spaces.Discrete(2)
    pixels = OnlineTable(gymnasium.spaces.Box(0, 255, (4,), np.uint8), two)
    for online in (pixels, OnlineTable(BOX, two)):
        refused(ArgumentError, "observation_space", OnlineShaping, pole, online)
    other = OnlineTable(pole.observation_space, FOUR)
    refused(ArgumentError, "action_space", OnlineShaping, pole, other)
