"""The wrappers, under the real Gymnasium."""

import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import strategies as st

from drogo import GridWorld, Potential, PotentialShaping, VectorPotentialShaping, exact
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.potential import mix, shaping_reward
from raising import raises
from small_world import CORRIDOR, WORLD, make

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
    assert reward == pytest.approx(expected)
    assert info["reward_original"] == -1
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
    with raises(ArgumentError, "view"):
        PotentialShaping(parts(), PHI)
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
def test_wrong_use(wrapper, options, argument):
    env = make() if wrapper is PotentialShaping else gymnasium.vector.SyncVectorEnv([make])
    with raises(ArgumentError, argument):
        wrapper(env, **{"potential": PHI, **options})


def test_a_vector_is_no_potential_nor_a_function_that_returns_nan(unchecked):
    with raises(ArgumentTypeError, "potential"):
        PotentialShaping(make(), np.zeros(104))
    with raises(ArgumentError):
        PotentialShaping(make(), lambda batch: np.full(len(batch), np.nan)).reset(seed=0)


def test_the_shaping_reward_of_a_step():
    """0.9 * 5 - 3 = 1.5; in a terminal state 0.9 * 0 - 3 = -3, unless its potential is kept."""
    assert shaping_reward(3.0, 5.0, False, discount=0.9) == pytest.approx(1.5)
    assert shaping_reward(3.0, 5.0, True, discount=0.9) == -3
    assert shaping_reward(3.0, 5.0, True, discount=0.9, terminal="keep") == pytest.approx(1.5)
    batch = (np.array([3.0, 3.0]), np.array([5.0, np.inf]), np.array([False, True]))
    assert shaping_reward(*batch, discount=0.9) == pytest.approx([1.5, -3])
    with raises(ArgumentError, "terminal"):
        shaping_reward(3.0, 5.0, True, discount=0.9, terminal="last")


def test_the_mix_of_two_rewards():
    """0.75 * -1 + 0.25 * 2 = -0.25; without a weight -1 + 2 = 1."""
    assert mix(-1.0, 2.0, 0.25) == -0.25
    assert mix(-1.0, 2.0, None) == 1
    assert mix(np.array([-1.0, 0.0]), np.array([2.0, 4.0]), 0.5).tolist() == [0.5, 2]
