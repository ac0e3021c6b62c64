"""`Soft`: the risk-neutral map, exact and learned, and what it does that `Column` does not."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import drogo
from drogo import MDP, Column, Drogo, GridWorld, Regression, Soft, exact, fit, load, solve
from drogo.errors import ArgumentError, ArgumentTypeError, DataError, NotConverged
from drogo.exact.soft import soft_values
from drogo.learn import Optimiser
from raising import refused
from small_data import CHAIN, FAST, ROOM, SMALL, data_of, line, table_of, world_env

# From 0, action 0 leads to 1 and from there to the end 2. Action 1 leads there at once, or to the
# end 3, which is worth -10, as often as not.
STATE, ACTION = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 0, 1])
AFTER, REWARD = np.array([1, 1, 2, 3, 2, 2]), np.array([-1.0, -1.0, -1.0, -1.0, -2.0, -2.0])
RISK = table_of(
    STATE, AFTER, REWARD, AFTER > 1, terminal_reward=np.where(AFTER == 3, -10.0, 0.0), action=ACTION
)
# At lam 2: q(0, 0) = -1/2 - 1, and q(0, 1) = -1/2 - 5/2.
Q = np.array([-1.5, -3.0])
V = [np.log(np.exp(Q).mean()), -1.0, 0.0, -5.0]
SHARES = np.exp(Q) / np.exp(Q).sum()


def risky_mdp():
    P = np.zeros((2, 4, 4))
    np.add.at(P, (ACTION, STATE, AFTER), [0.5, 0.5, 0.5, 0.5, 1.0, 1.0])
    return MDP.from_arrays(P, [-1.0, -2.0, 0.0, -10.0], [2, 3])


def test_two_states_worked_out_by_hand(tmp_path):
    for source in (RISK, risky_mdp()):
        solution = solve(source, Soft(2.0))
        assert solution.v[0] == pytest.approx(V, abs=1e-14)
        assert (solution.status, solution.n_actions) == (("converged",), 2)
        assert 1e-16 < solution.error[0] < 1e-12
        assert solution.action_values[0] == pytest.approx(Q - np.log(2), abs=1e-14)
        solution.save(tmp_path / "soft.npz", overwrite=True)
        for one in (solution, load(tmp_path / "soft.npz")):
            shares = one.policy().probabilities(np.arange(4))
            assert shares == pytest.approx(np.array([SHARES, *[[0.5, 0.5]] * 3]), abs=1e-14)
            assert one.potential(normalised=False)(np.arange(4)) == pytest.approx(V)
            refused(ArgumentError, None, one.policy().probabilities, np.array([4]))
    assert solve(RISK, Column(2.0)).v[0, 0] > V[0] + 0.3  # the lucky half counts alone


@pytest.mark.parametrize("method", [Regression(), Drogo(), Drogo(batch_size=6)])
def test_it_is_learned_with_values_of_actions(method):
    """The sampled loss is unbiased: batches of 6 see one outcome of the risky action or the other."""
    result = fit(RISK, Soft(2.0), method, optimiser=Optimiser(step_size=0.02))
    assert result.status == ("converged",)
    assert result.error == pytest.approx(np.abs(result.v[0] - V).max(), abs=1e-9)
    assert result.policy().probabilities(np.zeros(1, int))[0] == pytest.approx(SHARES, abs=0.02)
    risky = fit(RISK, Column(2.0), Regression(action_values=True)).policy()
    assert risky(np.zeros(1, int)) == 1
    assert not any("several outcomes" in note for note in result.notes)


def test_it_is_column_where_each_action_has_one_outcome(tmp_path):
    for name in ("grid-task", "four-rooms", "grid-maze", "grid-room"):
        mdp = GridWorld.load(name).mdp
        for lam in (0.01, 1.3, 20.0, 1e3):
            truth = exact.log_column(mdp, lam)
            assert np.abs(soft_values(mdp, lam).checked().log_e - truth).max() < 1e-10
    data, truth = data_of(ROOM, "state", 2000), exact.log_column(ROOM.mdp, 2.0)
    assert np.abs(solve(data, Soft(2.0)).v[0] - truth).max() < 1e-10
    method, path = Drogo(updates=40), tmp_path / "checkpoint.npz"
    first = fit(data, Soft(2.0), method, checkpoint=path)
    first.save(tmp_path / "fit.npz")
    method = replace(first.method, updates=4000)
    result = fit(data, Soft(2.0), method, continue_from=load(tmp_path / "fit.npz"))
    assert (first.status, result.status) == (("max_updates",), ("converged",))
    assert np.abs(result.v[0] - truth).max() < 0.1
    assert result.value_fn(0)(data.observations) == pytest.approx(result.v[0], abs=1e-3)
    both = fit(data, Soft(lam=[2.0, 5.0]), Drogo(updates=40))
    assert np.allclose(both[2.0,].v, first.v, atol=1e-4)
    assert not np.allclose(both[5.0,].v, first.v, atol=0.1)
    paid = replace(data, reward=np.where(data.state == 3, 0.3, data.reward), outcome=None)
    # Nothing bounds values from above.
    assert fit(paid, Soft(2.0), Drogo()).status == ("converged",)
    few = Drogo(updates=300, batch_size=200)
    assert fit(line(), Soft(2.0), few, network=SMALL).status[0] in ("unverified", "max_updates")


def test_what_is_not_sure_to_end_lies_below_everything():
    """State 2 leads to itself for ever. From 0, action 0 leads there once in ten times and is not
    taken: with g = exp(-2)/2, v(0) is log(g exp(v(3))), and v(3) that of exp(-2)/2 + g exp(v(0))."""
    state = np.array([0] * 10 + [0] * 4 + [2, 2, 3, 3])
    after = np.array([1] * 9 + [2] + [3] * 4 + [2, 2, 1, 0])
    action = np.array([0] * 10 + [1] * 4 + [0, 1, 0, 1])
    data = table_of(state, after, -1.0, after == 1, action=action)
    g = np.exp(-2) / 2
    three = np.log(g / (1 - g * g))
    expected = [np.log(g) + three, 0.0, three]
    exactly = solve(data, Soft(0.5))
    assert exactly.v[0, [0, 1, 3]] == pytest.approx(expected, abs=1e-13)
    assert np.isneginf(exactly.v[0, 2])
    assert exactly.status == ("unverified",)
    for method in (Regression(), Drogo()):
        result = fit(data, Soft(0.5), method, optimiser=FAST)
        assert result.status == ("converged",)
        assert result.v[0, [0, 1, 3]] == pytest.approx(expected, abs=0.05)
        assert result.v[0, 2] < min(expected) - 10
        assert result.policy().probabilities(np.zeros(1, int))[0, 0] < 1e-3
        assert len(result.notes) == 1
    # An action that was never seen is not preferred, and the others are taken as often as before.
    seen = fit(replace(RISK, n_actions=3, default=None), Soft(2.0), Drogo(), optimiser=FAST)
    assert seen.status == ("unverified",)
    assert seen.v[0] == pytest.approx(V, abs=0.02)
    assert seen.policy().probabilities(np.zeros(1, int))[0] == pytest.approx([*SHARES, 0], abs=0.01)


def test_an_outcome_that_was_never_left_is_worth_less_than_all_that_is_known():
    """From 0, action 0 leads to the end 3 half of the time, else to 2, which is never left. The
    lowest value that is known is that of 1, which is -2 at lam 1; that of 2 is lower by 10."""
    action = np.array([0, 0, 1, 1, 0, 1])
    data = table_of([0, 0, 0, 0, 1, 1], [3, 2, 1, 1, 3, 3], [-1.0, -1.0, -1.0, -1.0, -2.0, -2.0],
                    [True, False, False, False, True, True], action=action)  # fmt: skip
    q = np.array([-1 + (-2 - 10) / 2, -3])
    expected = [np.log(np.exp(q).mean()), -2.0, -12.0, 0.0]
    exactly = solve(data, Soft(1.0))
    assert exactly.v[0] == pytest.approx(expected, abs=1e-12)
    for solution in (exactly, fit(data, Soft(1.0)), fit(data, Soft(1.0), Drogo())):
        assert solution.v[0] == pytest.approx(expected, abs=0.1)
        assert solution.policy().probabilities(np.zeros(1, int))[0, 0] < 0.03
        assert (solution.status, len(solution.notes)) == (("unverified",), 1)
    # Nothing is known of 2 by `Column` either, whose value is given.
    assert fit(data, Column(1.0)).status == ("unverified",)


def test_rewards_of_any_sign_and_ends_without_value():
    """A step that pays r and comes back half of the time: exp(v) = exp(r)/2 / (1 - exp(r)/2)."""
    P = np.zeros((2, 2, 2))
    P[[0, 1], 0, [0, 1]] = 1.0
    for r in (-1.0, 0.3, 0.69):
        gain = np.exp(r) / 2
        values = soft_values(MDP.from_arrays(P, [r, 0.0], [1]), 1.0).checked()
        assert values.log_e == pytest.approx([np.log(gain / (1 - gain)), 0.0], abs=1e-12)
    for r in (0.7, 100.0):
        refused(NotConverged, None, solve, MDP.from_arrays(P, [r, 0.0], [1]), Soft(1.0))
    worthless = MDP.from_arrays(risky_mdp().transitions, [-1.0, -2.0, 0.0, -1e308], [2, 3])
    values = soft_values(worthless, 1e-3)  # the risky action may lead to minus infinity
    assert values.log_e == pytest.approx([-3000 - np.log(2), -2000, 0.0, -np.inf])
    assert np.isneginf(values.actions[0, 1])
    refused(ArgumentError, "lam", solve, CHAIN.mdp, Soft(1e-320))
    P = [[[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]  # nothing is sure to end
    lost = table_of([0, 0, 1], [1, 2, 1], -1.0, [False, True, False], action=np.zeros(3, int))
    for source in (MDP.from_arrays(P, [-1.0, -1.0, 0.0], [2]), lost):
        solution = solve(source, Soft(1.0))
        assert solution.v.tolist() == [[-np.inf, -np.inf, 0.0]]
        assert solution.status == ("unverified",)


def test_refusals():
    known, steps = data_of(CHAIN), table_of([0, 1], [1, 2], -1.0, [False, True])
    for call in (fit, solve):
        refused(ArgumentError, "data", call, steps, Soft())
        refused(DataError, "terminated", call, known[~known.terminated], Soft())
    for method in (drogo.Paper(), Drogo(scaled=False), Drogo(action_values=False), drogo.GDO()):
        refused(ArgumentError, "method", fit, known, Soft(), method)
    # Nothing says whether the values are finite.
    gains = replace(line(), reward=np.ones(len(line())), outcome=None)
    refused(DataError, "reward", fit, gains, Soft())
    spaces = gymnasium.spaces.Box(0, 1, (3,)), gymnasium.spaces.Discrete(2)
    refused(ArgumentTypeError, "problem", drogo.OnlineMap, *spaces, Soft())
    learned = fit(known, Soft(), Regression(updates=1))
    error = refused(ArgumentError, "solution", drogo.certify, learned, world_env(CHAIN))
    assert "drogo.solve" in str(error)


def test_on_slippery_ice_it_takes_the_way_round_the_holes():
    """Value iteration on success reaches the goal in 74.0 % of episodes of 100 steps."""
    mdp = MDP.from_gymnasium(env := gymnasium.make("FrozenLake-v1"))
    P, goal = np.stack([part.toarray() for part in mdp.transitions]), list(mdp.states).index(15)

    def success(policy):
        step = np.einsum("sa,ast->st", policy.probabilities(np.array(mdp.states)), P)
        at, arrived = mdp.start, 0.0
        for _ in range(100):
            at = at @ step
            arrived, at = arrived + at[goal], at * ~mdp.terminal
        return arrived

    rows = [(s, a, *outcome[1:]) for s, way in env.unwrapped.P.items() if not mdp.terminal[
        list(mdp.states).index(s)] for a, ways in way.items() for outcome in ways]  # fmt: skip
    state, action, after, reward, over = map(np.array, zip(*rows, strict=True))
    data = table_of(state, after, reward, over, terminal_reward=None, action=action)
    for solution in (solve(mdp, Soft(0.1)), solve(data, Soft(0.1))):
        assert success(solution.policy()) == pytest.approx(0.740, abs=5e-4)
    assert success(fit(data, Soft(0.1), Drogo()).policy()) > 0.735
    column = fit(data, Column(0.1), Regression(action_values=True))
    assert success(column.policy()) < 0.1
    assert any("drogo.Soft" in note for note in column.notes)
