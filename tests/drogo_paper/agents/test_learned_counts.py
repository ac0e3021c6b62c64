"""Norms that a network learns: targets by hand, and the norms of the exact representation."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import needs
from drogo.errors import ArgumentError, DataError
from drogo.online import StepBatch
from drogo_paper.agents.learned_counts import BonusWrapper, LearnedCounts, Psi, random_features
from raising import refused

HALVING = 1 / np.log(2)
"""With this lambda, a reward of -1 halves."""
CHAIN = gymnasium.spaces.Box(0, 1, (3,), np.float32)
TWO = gymnasium.spaces.Discrete(2)
REWARD = np.array([-1.0, -0.5, -2.0])
NEXT = np.array([[0, 1], [0, 2], [1, 2]])
"""Left and right in a chain of three states. The last one ends to its right."""


def counts(**options):
    return LearnedCounts(CHAIN, TWO, **{"features": np.asarray, "lam": HALVING, **options})


def all_steps():
    state, action = np.divmod(np.arange(6), 2)
    one_hot, ended = np.eye(3, dtype=np.float32), (state == 2) & (action == 1)
    return one_hot[state], action, REWARD[state], one_hot[NEXT[state, action]], ended


def test_targets_and_random_features_by_hand():
    """Before anything is learned, the row of a pair is one-hot.

    From state 0 to state 1 at -1: a half of (00) and of the mean of (10) and (11). After an end
    nothing follows."""
    psi = Psi(2, 2, 8, 1, jax.random.key(0))
    phi, after = jnp.eye(2)[jnp.array([0, 0])], jnp.eye(2)[jnp.array([1, 1])]
    ended, factor = jnp.array([False, True]), jnp.array([0.5, 0.5])
    wanted = psi.targets(StepBatch(phi, jnp.array([0, 0]), factor, after, ended, jnp.zeros(2)))
    # Blocks are actions, and in them are states: (00, 10) and (01, 11).
    assert wanted[0].tolist() == [[0.5, 0.25], [0, 0.25]]
    assert wanted[1].tolist() == [[0.5, 0], [0, 0]]
    # Inner products are about exp(-d^2 / 2), with d in units of the resolution: 1 and 5 of them.
    features = random_features(gymnasium.spaces.Box(0, 255, (2,), np.uint8), 5000, resolution=0.1)
    phi = features(np.array([[0, 0], [25.5, 0], [0, 127.5], [0, 0]]))
    np.testing.assert_allclose(phi @ phi[0], [1, np.exp(-0.5), np.exp(-12.5), 1], atol=0.04)


def test_with_one_feature_for_each_pair_norms_are_those_of_the_default_representation():
    """Z over the six pairs of the chain, with a uniform choice of action after each, by inversion."""
    after, pair = NEXT.ravel()[:5], np.arange(5)  # nothing follows the last pair
    P = np.zeros((6, 6))
    P[pair, 2 * after] = P[pair, 2 * after + 1] = 0.5
    Z = np.linalg.inv(np.diag(2.0 ** -np.repeat(REWARD, 2)) - P)
    exact = np.log(np.linalg.norm(Z, axis=1)).reshape(3, 2)
    learned = counts(depth=0, step_size=0.02, updates_per_step=100.0, batch_size=16, weight=3.0)
    learned.observe(*all_steps())
    assert learned.log_norms(np.eye(3)) == pytest.approx(np.zeros((3, 2)), abs=1e-6)  # all is new
    for _ in range(2):
        learned.observe(*all_steps())
        learned.train()
    norms = learned.log_norms(np.eye(3))
    np.testing.assert_allclose(norms, exact, atol=0.02)
    assert norms.ravel().argsort().tolist() == exact.ravel().argsort().tolist()
    # Divided by their running size, the bonuses of what is known are -weight in the mean.
    bonus = learned.bonus(*all_steps()[:2])
    np.testing.assert_allclose(bonus / bonus.mean(), exact.ravel() / exact.mean(), rtol=0.02)
    assert bonus.mean() == pytest.approx(-3.0, rel=0.1)


def test_what_was_not_done_stays_new_and_earns_a_bonus():
    learned = counts(depth=0, step_size=0.02, updates_per_step=40.0)
    steps = [part[:2] for part in all_steps()]
    for _ in range(2):
        learned.observe(*steps)
        learned.train()
    norms = learned.log_norms(np.eye(3))
    assert norms[0].max() < -0.3
    assert np.abs(norms[2]).max() < 0.1  # of a linear map, only its constant has changed
    rewards = learned.shaped([0.0, 0.0], np.eye(3)[[0, 2]], np.eye(3)[:2], [False] * 2, [0, 0])
    assert rewards[0] < -0.5 < rewards[1]
    env = gymnasium.make("drogo/FourRooms-v0", observation="coordinates")
    learned = LearnedCounts(env.observation_space, env.action_space, features=16, width=8)
    wrapped = BonusWrapper(env, learned)
    wrapped.reset(seed=0)
    for _ in range(12):
        _, reward, _, _, info = wrapped.step(np.int64(0))
    assert learned.steps == 12
    assert info["bonus"] < 0  # the step has been taken before
    assert reward == pytest.approx(info["reward_original"] + info["bonus"])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_agents_of_sb3_train_on_it(algorithm):
    needs.module("torch").set_num_threads(1)
    sb3 = needs.module("stable_baselines3")
    from drogo.integrations.sb3 import LearnMap

    env = gymnasium.make("drogo/FourRooms-v0", observation="coordinates")
    learned = LearnedCounts(env.observation_space, env.action_space, features=16, width=8)
    options = {"learning_starts": 50} if algorithm == "DQN" else {"n_steps": 64, "batch_size": 32}
    agent = getattr(sb3, algorithm)("MlpPolicy", env, seed=0, device="cpu", **options)
    agent.learn(128, callback=LearnMap(learned))
    assert learned.steps == 128
    assert agent.logger.name_to_value["map/size"] > 0
    if algorithm == "DQN":
        assert set(np.unique(agent.replay_buffer.rewards)) <= {-1.0, -20.0, 0.0}
        assert agent.replay_buffer.sample(32).rewards.numpy().min() < -1  # with the bonus
    refused(ArgumentError, "observation_space", counts().attach, agent)


def test_errors_of_learned_counts():
    one, two = np.eye(3)[:1], np.eye(3)[1:2]
    refused(ArgumentError, "action", counts().shaped, [0.0], one, one, [False])
    refused(ArgumentError, "observations", counts().log_norms, np.zeros((1, 2)))
    refused(ArgumentError, "lam", counts, lam=0.0)
    refused(ArgumentError, "observation_space", LearnedCounts, TWO, TWO)
    refused(ArgumentError, "action_space", LearnedCounts, CHAIN, CHAIN)
    refused(DataError, "best", counts().observe, one, [0], [1.0], two, [False])
