"""The wrappers, under the real Gymnasium, also of goal environments."""

import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import strategies as st

from drogo import GoalShaping, GridWorld, Potential, PotentialShaping, VectorPotentialShaping, exact
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.potential import mix, shaping_reward
from raising import refused
from small_world import CORRIDOR, RIGHT, WORLD, make, reaching

PHI = Potential.from_states(
    WORLD.observations("coordinates"), exact.log_column(WORLD.mdp, 20.0) - 1.0
)
"""The potential is -1 at the goal, where the two treatments of terminal states then differ."""


@hypothesis.given(seed=st.integers(0, 2**31))
@hypothesis.settings(max_examples=20)
@pytest.mark.parametrize("terminal", ["zero", "keep"])
def test_the_shaping_rewards_of_an_episode_depend_on_its_first_and_last_state_alone(terminal, seed):
    """Their discounted sum is discount^T phi(s_T) - phi(s_0). So the best policy is unchanged where
    terminal states count as 0 (Ng et al. 1999)."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=4) * 5
    world = gymnasium.make("drogo/GridWorld-v0", world=CORRIDOR, observation="state")
    env = PotentialShaping(world, lambda batch: phi[batch], discount=0.9, terminal=terminal)
    state, _ = env.reset(seed=seed)
    total, worth, is_over = phi[state], 1.0, False
    while not is_over:
        state, reward, terminated, truncated, info = env.step(rng.integers(4))
        assert reward == pytest.approx(info["reward_original"] + info["shaping"])
        total, worth = total + worth * info["shaping"], 0.9 * worth
        is_over = terminated or truncated
    last = 0.0 if terminated and terminal == "zero" else phi[state]
    assert total == pytest.approx(worth * last)


@pytest.mark.parametrize(
    ("weight", "terminal", "expected"),
    [(None, "zero", -1 + 0.99 * 0 - -2.0), (0.25, "zero", -0.75 + 0.25 * 2.0),
     (None, "keep", -1 + 0.99 * -3.0 + 2.0), (1.0, "keep", 0.99 * -3.0 + 2.0)],
)  # fmt: skip
def test_rewards_by_hand(weight, terminal, expected):
    """A corridor of one step: phi is -2 at the start and -3 at the goal."""
    env = gymnasium.make("drogo/GridWorld-v0", world=GridWorld.parse("####\n#SG#\n####"), observation="state")  # fmt: skip
    phi = Potential(lambda batch: -2.0 - batch)
    shaped = PotentialShaping(env, phi, weight, 0.99, terminal=terminal)
    shaped.reset(seed=0)
    _, reward, terminated, _, info = shaped.step(0)
    assert terminated
    assert (reward, info["reward_original"]) == (pytest.approx(expected), -1)
    assert info["shaping"] == pytest.approx(0.99 * (-3.0 if terminal == "keep" else 0) + 2.0)
    assert info["state"] == 1


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_a_truncated_step_counts_in_full():
    """And the wrapper passes the checker of Gymnasium, and is recorded in the specification."""
    shaped = PotentialShaping(make(step_limit=1), PHI, 1.0, 0.9)
    observation, _ = shaped.reset(seed=0)
    following, reward, terminated, truncated, _ = shaped.step(3)
    assert (terminated, truncated) == (False, True)
    assert reward == pytest.approx(0.9 * PHI([following])[0] - PHI([observation])[0])
    check_env(PotentialShaping(make(), PHI), skip_render_check=True)
    assert shaped.spec.additional_wrappers[-1].kwargs["weight"] == 1.0


def one_by_one(actions, **options):
    """The rewards of a single environment, episode after episode."""
    env = PotentialShaping(make(step_limit=7), PHI, **options)
    env.reset(seed=3)
    rewards = []
    for action in actions:
        _, reward, terminated, truncated, _ = env.step(int(action))
        rewards.append(reward)
        if terminated or truncated:
            env.reset()
    return np.array(rewards)


@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.parametrize("kind", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
@pytest.mark.parametrize("terminal", ["zero", "keep"])
def test_same_step_resets(kind, terminal):
    options = {"weight": 0.5, "discount": 0.9, "terminal": terminal}
    actions = np.random.default_rng(0).integers(4, size=(30, 2))
    envs = kind([lambda: make(step_limit=7)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = VectorPotentialShaping(envs, PHI, **options)
    envs.reset(seed=[3, 3])
    rewards = np.array([envs.step(row)[1] for row in actions])
    envs.close()
    expected = [one_by_one(column, **options) for column in actions.T]
    np.testing.assert_allclose(rewards.T, expected, atol=1e-6)


def test_resets_by_the_user_and_on_the_next_step():
    envs = gymnasium.vector.SyncVectorEnv([lambda: make(step_limit=2)] * 2, autoreset_mode=AutoresetMode.DISABLED)  # fmt: skip
    envs = VectorPotentialShaping(envs, PHI, 1.0, 0.9)
    envs.reset(seed=[1, 1])
    for _ in range(2):
        observations, rewards, *_ = envs.step(np.array([3, 3]))
    start, _ = envs.reset(options={"reset_mask": np.array([True, True])})
    observations, rewards, *_ = envs.step(np.array([0, 0]))
    np.testing.assert_allclose(rewards, 0.9 * PHI(observations) - PHI(start), atol=1e-6)
    options = {"weight": None, "discount": 0.9}
    actions = np.random.default_rng(0).integers(4, size=(40, 1))
    envs = gymnasium.vector.SyncVectorEnv([lambda: make(step_limit=7)])
    envs = VectorPotentialShaping(envs, PHI, **options)
    envs.reset(seed=[3])
    paid, is_over = np.zeros((40, 3)), np.zeros(41, dtype=bool)
    for k, row in enumerate(actions):
        _, reward, terminated, truncated, infos = envs.step(row)
        paid[k] = reward[0], infos["shaping"][0], infos["reward_original"][0]
        is_over[k + 1] = terminated[0] or truncated[0]
    is_reset = is_over[:-1]
    assert is_reset.any()
    assert not paid[is_reset].any()
    expected = one_by_one(actions[~is_reset, 0], **options)
    np.testing.assert_allclose(paid[~is_reset, 0], expected, atol=1e-6)


def parts(**options):
    """An environment with observations of two parts, the second of which is always 1."""
    env = make(**options)
    both = gymnasium.spaces.Tuple((env.observation_space, gymnasium.spaces.Discrete(2)))
    return gymnasium.wrappers.TransformObservation(env, lambda seen: (seen, 1), both)


def test_a_view_for_observations_with_parts():
    """Also of the last observation of an episode: a reset on the same step."""
    refused(ArgumentError, "view", PotentialShaping, parts(), PHI)
    shapes = []

    def view(both):
        shapes.append((both[0].shape, np.shape(both[1])))
        return both[0]

    shaped, plain = PotentialShaping(parts(), PHI, view=view), PotentialShaping(make(), PHI)
    for env in (shaped, plain):
        env.reset(seed=0)
    assert shaped.step(3)[1] == plain.step(3)[1]
    kind = {"autoreset_mode": AutoresetMode.SAME_STEP}
    envs = gymnasium.vector.SyncVectorEnv([lambda: parts(step_limit=1)], **kind)
    envs = VectorPotentialShaping(envs, PHI, view=view)
    envs.reset(seed=[0])
    envs.step(np.array([3]))
    assert shapes == [((2,), ())] * 2 + [((1, 2), (1,))] * 3


@pytest.mark.parametrize("wrapper", [PotentialShaping, VectorPotentialShaping])
@pytest.mark.parametrize(
    ("options", "argument"),
    [({"weight": 1.5}, "weight"), ({"weight": float("nan")}, "weight"),
     ({"discount": 1.01}, "discount"), ({"terminal": "none"}, "terminal"),
     ({"potential": Potential(len, discount=0.9)}, "discount"),
     ({"potential": Potential(len, shape=(3,))}, "potential")],
)  # fmt: skip
def test_wrong_use(wrapper, options, argument, unchecked):
    env = make() if wrapper is PotentialShaping else gymnasium.vector.SyncVectorEnv([make])
    refused(ArgumentError, argument, wrapper, env, **{"potential": PHI, **options})
    refused(ArgumentTypeError, "potential", wrapper, env, np.zeros(104))
    nan = wrapper(env, lambda batch: np.full(len(batch), np.nan))
    refused(ArgumentError, None, nan.reset, seed=0)


def test_the_shaping_reward_of_a_step_and_the_mix_of_two_rewards():
    """0.9 * 5 - 3 = 1.5; in a terminal state 0.9 * 0 - 3 = -3, unless its potential is kept."""
    assert shaping_reward(3.0, 5.0, False, discount=0.9) == pytest.approx(1.5)
    assert shaping_reward(3.0, 5.0, True, discount=0.9) == -3
    assert shaping_reward(3.0, 5.0, True, discount=0.9, terminal="keep") == pytest.approx(1.5)
    batch = (np.array([3.0, 3.0]), np.array([5.0, np.inf]), np.array([False, True]))
    assert shaping_reward(*batch, discount=0.9) == pytest.approx([1.5, -3])
    last = {"discount": 0.9, "terminal": "last"}
    refused(ArgumentError, "terminal", shaping_reward, 3.0, 5.0, True, **last)
    # 0.75 * -1 + 0.25 * 2 = -0.25; without a weight -1 + 2 = 1.
    assert (mix(-1.0, 2.0, 0.25), mix(-1.0, 2.0, None)) == (-0.25, 1)
    assert mix(np.array([-1.0, 0.0]), np.array([2.0, 4.0]), 0.5).tolist() == [0.5, 2]


def distance(observations, goals):
    """A potential that can be worked out by hand: minus ten for each cell between."""
    return -10.0 * np.abs(np.asarray(observations, float) - np.asarray(goals, float))


def test_rewards_of_the_goal_of_the_episode_and_of_others_and_their_errors():
    env = GoalShaping(reaching(), distance, weight=0.5, discount=0.9)
    env.reset(seed=0, options={"goal": 2})
    _, reward, _, _, info = env.step(RIGHT)  # from 0 to 1: phi rises from -20 to -10
    assert (info["reward_original"], info["shaping"]) == (-1.0, 0.9 * -10 + 20)
    assert reward == 0.5 * -1 + 0.5 * 11
    # Had the goal been 1 the step would have ended in it, and had it been 3 phi would be -20.
    others = env.compute_reward(np.array([1, 1]), np.array([1, 3]), [info, info])
    assert others.tolist() == [0.5 * 10, 0.5 * -1 + 0.5 * (0.9 * -20 + 30)]
    assert env.compute_reward(np.int64(1), np.int64(2), info) == reward
    env = GoalShaping(reaching(), distance, discount=0.9)
    refused(gymnasium.error.ResetNeeded, None, env.step, RIGHT)
    env.reset(seed=0, options={"goal": 1})
    env.step(RIGHT)
    env.reset(seed=0, options={"goal": 2})
    for _ in range(2):
        _, reward, over, _, info = env.step(RIGHT)
    assert over
    assert env.compute_reward(np.int64(2), np.int64(2), info) == reward
    # With the goal 0 the step from 1 to 2 cost 1 or 20, and phi rose from -10 to nothing.
    assert env.compute_reward(np.int64(2), np.int64(0), info) == info["cost"] + 10
    refused(ArgumentError, "env", GoalShaping, gymnasium.make("CartPole-v1"), distance)
    env = GoalShaping(reaching(), lambda seen, goals: np.full(len(seen), np.nan))
    env.reset(seed=0)
    refused(ArgumentError, "value", env.step, RIGHT)
    compute = GoalShaping(reaching(), distance).compute_reward
    refused(ArgumentError, "info", compute, np.array([1]), np.array([2]), [{}])


@pytest.mark.slow
def test_hindsight_of_stable_baselines3_samples_shaped_rewards(sb3):
    negative_distance = lambda seen, goals: -np.abs(seen - goals).sum(axis=1)  # noqa: E731
    env = GoalShaping(reaching("coordinates"), negative_distance, 0.5, discount=0.9)
    hindsight = {"replay_buffer_class": sb3.HerReplayBuffer,
                 "replay_buffer_kwargs": {"copy_info_dict": True, "n_sampled_goal": 4}}  # fmt: skip
    agent = sb3.DQN("MultiInputPolicy", env, learning_starts=60, gamma=0.9, seed=0, **hindsight)
    agent.learn(80)
    sample = agent.replay_buffer.sample(64)
    before, goal = (sample.observations[k].numpy() for k in ("achieved_goal", "desired_goal"))
    after = sample.next_observations["achieved_goal"].numpy()
    arrived = (after == goal).all(axis=1)
    over = arrived | (sample.dones.numpy()[:, 0] > 0)
    next_phi = np.where(over, 0.0, negative_distance(after, goal))
    shaping = 0.9 * next_phi - negative_distance(before, goal)
    cost = np.where(np.isclose(before[:, 0], 0.5 - 2 / 5), -20.0, -1.0)
    at_goal = np.isclose(after[:, 0], CORRIDOR.observations("coordinates")[3, 0])
    cost = np.where(arrived, 0.0, cost + np.where(at_goal, -200.0, 0.0))
    assert sample.rewards.numpy()[:, 0] == pytest.approx(0.5 * cost + 0.5 * shaping, abs=1e-4)
