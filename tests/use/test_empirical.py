"""The map of transitions that were seen so far: by hand, and against the exact column."""

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo.online.table import Seen, mean_step_of, solve_seen

LAM = 20.0


def seen_everything(mdp, times=1):
    """Every outcome of every action in every state that is not terminal, once each."""
    state, action = np.nonzero(
        np.broadcast_to(~mdp.terminal[:, None], (mdp.n_states, mdp.n_actions))
    )
    after = mdp.outcomes.next_state[state, action, 0]
    over = mdp.terminal[after]
    value = np.where(over, mdp.reward[after], 0.0)
    return Seen(state, action, after, mdp.reward[state], over, value, np.full(state.size, times))


@pytest.mark.parametrize("optimism", [0.0, None])
def test_the_map_of_everything_is_the_exact_column(optimism):
    mdp = GridWorld.load("four-rooms").mdp
    v = solve_seen(seen_everything(mdp, 3), mdp.default_policy, LAM, optimism)
    assert np.abs(v - exact.log_column(mdp, LAM)).max() < 1e-9


def test_an_untried_action_counts_as_a_terminal_state_of_the_given_value():
    """One state, two actions: the first stays there at cost 1, the second was never tried. Then
    e = 1/2 exp(-1/2) e + 1/2 exp(-3/2), with lam 2 and an optimism of -3."""
    seen = Seen(*(np.array([0]) for _ in range(3)), np.array([-1.0]), np.array([False]), np.zeros(1),
                np.array([7]))  # fmt: skip
    v = solve_seen(seen, np.array([[0.5, 0.5]]), 2.0, -3.0)
    assert v == pytest.approx([np.log(0.5 * np.exp(-1.5) / (1 - 0.5 * np.exp(-0.5)))])
    assert solve_seen(seen, np.array([[0.5, 0.5]]), 2.0, None) == pytest.approx([0.0])


def test_frequencies_of_outcomes_count():
    """From state 0 three of four steps reach the terminal state 1, worth -2, and one stays:
    e = exp(-1/lam) (3/4 exp(-2/lam) + 1/4 e) with one action and lam 1."""
    seen = Seen(np.array([0, 0]), np.array([0, 0]), np.array([1, 0]), np.array([-1.0, -1.0]),
                np.array([True, False]), np.array([-2.0, 0.0]), np.array([3, 1]))  # fmt: skip
    v = solve_seen(seen, np.ones((2, 1)), 1.0, 0.0)
    e = 0.75 * np.exp(-3.0) / (1 - 0.25 * np.exp(-1.0))
    assert v == pytest.approx([np.log(e), -2.0])
    assert mean_step_of(v, seen) == pytest.approx(abs(np.log(e) + 2.0))
