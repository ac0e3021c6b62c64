"""Maps of tasks that never end, against their exact solutions."""

import numpy as np
import pytest

from drogo import MDP, Transitions, exact, fit
from drogo.errors import ArgumentError, DataError
from drogo.learn import fit_continuing
from drogo.worlds.continuing import river_swim

SETTINGS = {"updates": 600, "network": "table"}


def ring(n=5):
    """Two steps on or one step back around a ring, whose states pay 1, 0, -1 ...; every step once."""
    state, action = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    next_state = (state + np.where(action == 0, 2, -1)) % n
    reward = 1.0 - np.arange(n)
    P = np.zeros((2, n, n))
    P[action, state, next_state] = 1.0
    columns = (np.tile(part, 3) for part in (state, next_state, reward[state]))
    data = Transitions.from_table(
        np.arange(n), *columns, np.zeros(6 * n), action=np.tile(action, 3), n_actions=2
    )
    return data, MDP.from_arrays(P, reward)


def test_a_ring_against_its_exact_solution():
    data, mdp = ring()
    result = fit_continuing(data, lam=2.0, reference=3, seeds=2, **SETTINGS)
    known = exact.perron(mdp, 2.0, reference=3)
    assert result.gain == pytest.approx(known.gain, abs=1e-12)
    assert np.abs(result.v - known.log_e).max() < 0.02
    assert result.status == ("converged", "converged")
    shares = result.policy(1).probabilities(np.arange(5))
    assert np.abs(shares - known.policy(mdp)).max() < 0.02
    assert np.isfinite(result.potential()(np.arange(5))).all()
    assert "gain" in repr(result)


def test_river_swim():
    """Its rewards belong to an action and what it led to, and are positive."""
    world, lam = river_swim(), 4000.0
    state, action, after = np.nonzero(world.probability)
    share = world.probability[state, action, after] / 2
    reward = world.reward[state, action, after]
    steps = exact.Steps(6, state, after, share, reward / lam)
    known = exact.perron_of_steps(steps, lam, reference=1)
    often = np.round(20 * share).astype(int)  # every share is a multiple of 1/20
    columns = (np.repeat(part, often) for part in (state, after, reward))
    data = Transitions.from_table(
        np.arange(6), *columns, np.zeros(often.sum()), action=np.repeat(action, often)
    )
    result = fit_continuing(data, lam=lam, reference=1, **SETTINGS)
    assert result.gain == pytest.approx(known.gain, rel=1e-12)
    assert np.abs(result.v[0] - known.log_e).max() < 0.02
    assert result.policy()(np.array([5])) == [0]  # at the far end, stay there


def test_what_cannot_be_learned():
    data, _ = ring()
    with pytest.raises(ArgumentError, match="reference is 9, which is none of the 5 observations"):
        fit_continuing(data, reference=9)
    with pytest.raises(ArgumentError, match="lam is -1"):
        fit_continuing(data, lam=-1.0)
    ends = Transitions.from_table(
        np.arange(2), [0, 0, 0, 0], [0, 1, 0, 1], [-1.0] * 4, [0, 1, 0, 1]
    )
    with pytest.raises(DataError, match="2 of the 4 transitions are terminated, so this task ends"):
        fit_continuing(ends)
    once = Transitions.from_table(np.arange(3), [0, 1], [1, 2], [1.0, 1.0], [0, 0])
    with pytest.raises(DataError, match="computed from states that repeat"):
        fit_continuing(once)
    left = Transitions.from_table(np.arange(2), [0, 1, 1, 1], [1, 1, 1, 1], [1.0] * 4, [0] * 4)
    with pytest.raises(DataError, match="the reference, is never come back to"):
        fit_continuing(left, reference=0)


def test_rewards_of_any_sign_with_an_end():
    """With g = exp(0.2)/2 and h = exp(-1)/2, x0 = g (x0 + x1) and x1 = h (x0 + 1), so that x1 is
    h / (1 - h g / (1 - g))."""
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    mdp = MDP.from_arrays(P, [0.2, -1.0, 0.0], [2])
    state = np.tile([0, 0, 1, 1], 4)
    next_state = np.tile([0, 1, 0, 2], 4)
    data = Transitions.from_table(
        np.arange(3), state, next_state, mdp.reward[state], next_state == 2
    )
    with pytest.warns(UserWarning, match="8 of 16 rewards are not negative. The vector is finite"):
        result = fit(data, lam=1.0, **SETTINGS)
    known = exact.log_column(mdp, 1.0)
    assert known[1] == pytest.approx(np.log(0.1839397 / (1 - 0.1839397 * 1.568724)), abs=1e-5)
    assert np.abs(result.v[0] - known).max() < 0.02
    assert result.status == ("converged",)
