"""Solved exactly and fitted to a network; values of actions; what converged then means."""

import gymnasium
import numpy as np
import pytest

import needs
from drogo import MDP, GridWorld, Transitions, collect, exact, fit, load, sweep
from drogo.config import configure

WORLD = GridWorld.parse("#######\n#S..x.#\n#.#...#\n#...xG#\n#######")
SMALL = {"width": 32, "depth": 2}


def data_of(kind, n=2000, **arguments):
    env = gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation=kind)
    return collect(env, n, seed=0, **arguments)


@pytest.mark.parametrize("lam", [0.4, 20.0])
@pytest.mark.parametrize("objective", ["drogo", "q"])
def test_direct_is_the_default_and_right_at_every_lam(lam, objective):
    """Rewards of -20 at lam 0.4 make exp(-r/lam) = exp(50)."""
    truth = exact.log_column(WORLD.mdp, lam)
    result = fit(data_of("coordinates"), lam=lam, objective=objective, truth={"column": truth})
    assert result.config.direct
    assert result.status == ("converged",)
    assert np.abs(result.v[0] - truth).max() < max(0.1, 1e-3 * np.ptp(truth))
    assert result.history["error"][-1] == pytest.approx(np.abs(result.v - truth).max(), abs=1e-9)
    assert result.updates < result.config.updates  # it stopped when it was right


@pytest.mark.parametrize(("reward", "lam"), [(-0.01, 20.0), (-1.0, 1000.0)])
def test_a_map_that_is_shallower_than_the_tolerance_is_learned_too(reward, lam):
    """A walk to the right: v = r/lam times the number of steps, and at most 0.004 deep."""
    states = np.tile(np.arange(4), 25)
    over = states == 3
    data = Transitions.from_arrays(states, states + 1, np.full(100, reward), over)
    result = fit(data, lam=lam)
    assert result.status == ("converged",)
    expected = reward / lam * np.arange(4, -1, -1)
    assert np.abs(result.v[0] - expected).max() <= 0.05 * np.ptp(expected)
    assert fit(data, lam=lam, updates=1).status == ("max_updates",)


def test_at_an_enormous_lam_nothing_is_learned_and_nothing_claimed():
    truth = {"column": exact.log_column(WORLD.mdp, 1e30)}
    result = fit(data_of("state"), lam=1e30, updates=5, truth=truth)
    assert result.status == ("max_updates",)
    assert np.abs(result.history["cosine_column"]).max() <= 1 + 1e-12
    with pytest.raises(ValueError, match=r"lam is 1e\+300; it must be less than 1e38"):
        fit(data_of("state"), lam=1e300)


def test_an_exponent_that_overflows_is_named():
    with pytest.raises(ValueError, match="exp.-r / lam. overflows single precision: the lowest"):
        fit(data_of("state"), preset="paper", lam=0.01)


def test_what_is_off_by_more_than_the_tolerance_has_not_converged():
    result = fit(data_of("coordinates"), updates=3, **SMALL)
    assert result.status == ("max_updates",)
    assert result.history["error"][-1] > 0.1
    moved = fit(data_of("state"), preset="fast", updates=3)
    assert moved.status == ("max_updates",)


def test_states_that_lead_nowhere_are_not_verified():
    """States 2 and 3 only lead to each other: no data tell their values."""
    state = np.tile([0, 1, 2, 3], 3)
    next_state = np.tile([1, 4, 3, 2], 3)
    data = Transitions.from_table(np.arange(5), state, next_state, -np.ones(12), next_state == 4)
    result = fit(data, lam=2.0)
    assert result.v[0, [0, 1, 4]] == pytest.approx([-1.0, -0.5, 0.0], abs=0.02)
    assert result.status == ("unverified",)


def test_continuous_states_are_not_verified():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (2000, 1)).astype(np.float32)
    action = rng.integers(0, 2, 2000)
    y = (x + np.where(action, 0.1, -0.1)[:, None]).astype(np.float32)
    data = Transitions.from_arrays(x, y, np.full(2000, -1.0), y[:, 0] >= 0.9, action=action)
    config = configure(data)
    assert (config.objective, config.direct) == ("q", False)
    assert config.updates == 3000  # few data are not learned by heart
    assert configure(data, settings={"updates": 7}).updates == 7
    result = fit(data, updates=400, batch_size=200, **SMALL)
    assert result.status[0] in ("unverified", "max_updates")
    high, low = result(np.array([[0.8], [0.2]], dtype=np.float32))[0]
    assert high > low
    with pytest.raises(ValueError, match="only where states repeat"):
        fit(data, direct=True)


def test_q_learns_from_a_single_policy():
    """q by bootstrapping, on data of which 70 % go right: to the exact column of the world."""

    def mostly_right(observation, rng):
        return 0 if rng.random() < 0.7 else int(rng.integers(4))

    data = data_of("state", 4000, policy=mostly_right)
    settings = {"preset": "fast", "updates": 6000, "step_size": 0.02}
    result = fit(data, objective="q", **settings)
    assert result.status == ("converged",)
    assert np.abs(result.v[0] - exact.log_column(WORLD.mdp, 20.0)).max() < 0.05


def optimal_policy(lam):
    """d(a|s) exp(v(s')), normalised: the policy of the linearly solvable MDP by its formula."""
    v = exact.log_column(WORLD.mdp, lam)
    weights = np.exp(v[WORLD.next_state] - v[:, None])
    return weights / weights.sum(axis=1, keepdims=True)


def test_the_policy_of_action_values(tmp_path):
    data = data_of("coordinates")
    result = fit(data, lam=2.0, objective="q")
    result.save(tmp_path / "fit.npz")
    policy = load(tmp_path / "fit.npz").policy()
    found = policy.probabilities(data.observations)
    live = ~WORLD.terminal
    assert np.abs(found - optimal_policy(2.0))[live].max() < 0.03
    assert np.array_equal(policy(data.observations), found.argmax(axis=1))
    many = np.repeat(data.observations, 2000, axis=0)
    drawn, again = (policy.predict(many)[0] for _ in range(2))
    share = (drawn.reshape(-1, 2000, 1) == np.arange(4)).mean(axis=1)
    assert np.abs(share - found).max() < 0.06
    assert not np.array_equal(drawn, again)
    action, state = policy.predict(data.observations[0], "kept", deterministic=True)
    assert (action, state) == (found[0].argmax(), "kept")
    with pytest.raises(ValueError, match="Give a batch"):
        policy.probabilities(data.observations[0])
    with pytest.raises(ValueError, match="Use objective='q'"):
        fit(data, updates=2, **SMALL).policy()


def test_stable_baselines_evaluates_the_policy():
    evaluation = needs.module("stable_baselines3.common.evaluation")
    data = data_of("coordinates")
    policy = fit(data, lam=1.0, objective="q").policy()
    env = gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation="coordinates")
    with pytest.warns(UserWarning, match="Monitor"):
        mean, spread = evaluation.evaluate_policy(policy, env, n_eval_episodes=3)
    assert (mean, spread) == (-6.0, 0.0)  # six steps around the costly cells


def test_rewards_of_the_action():
    """Two ways from 0 to the end, at costs 1 and 3: exp(v) = (exp(-1/2) + exp(-3/2)) / 2."""
    action = np.tile([0, 1], 6)
    data = Transitions.from_table(
        np.arange(2), np.zeros(12, int), np.ones(12, int), np.where(action, -3.0, -1.0),
        np.ones(12), action=action,
    )  # fmt: skip
    value = np.log((np.exp(-0.5) + np.exp(-1.5)) / 2)
    for settings in ({}, {"objective": "q"}, {"preset": "fast", "step_size": 0.05}):
        assert fit(data, lam=2.0, **settings).v[0, 0] == pytest.approx(value, abs=0.02)


def test_what_direct_and_q_cannot_do():
    data = data_of("state")
    with pytest.raises(ValueError, match="each lam has a solution of its own"):
        sweep(data, grid={"lam": [1.0, 2.0]}, preset="direct")
    with pytest.raises(ValueError, match="only where states repeat"):
        fit(data, objective="natural_gdo", direct=True)
    names = ("state", "next_state", "reward", "terminated")
    without = Transitions.from_table(data.observations, *(getattr(data, name) for name in names))
    with pytest.raises(ValueError, match="have no discrete actions"):
        fit(without, objective="q")


def test_an_mdp_of_its_own_default_policy_is_kept():
    """The default policy of a world that knows one is that of its MDP, not the uniform one."""
    P = np.zeros((2, 3, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, 0, 0] = P[1, 1, 0] = 1.0
    mdp = MDP.from_arrays(P, [-1.0, -1.0, 0.0], [2], default_policy=[[0.9, 0.1]] * 3)

    class World(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(3)
        action_space = gymnasium.spaces.Discrete(2)
        step_limit = 10

        def __init__(self):
            self.mdp = mdp

        def all_observations(self):
            return np.arange(3)

    result = fit(collect(World(), 500, seed=0))
    assert np.abs(result.v[0] - exact.log_column(mdp, 20.0)).max() < 0.02


def test_many_states_have_finer_features():
    table = np.random.default_rng(0).random((5000, 2), dtype=np.float32)
    states = np.arange(10_000) % 4999
    data = Transitions.from_table(table, states, states + 1, -np.ones(10_000), states == 4998)
    config = configure(data)
    assert (config.direct, config.frequencies, config.updates) == (True, 64, 5000)
    assert configure(data, settings={"frequencies": 3}).frequencies == 3
