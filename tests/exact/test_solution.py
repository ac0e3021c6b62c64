"""Status, errors and wrong use of `exact`."""

import numpy as np
import pytest

from drogo import MDP, GridWorld, exact
from random_mdps import random_mdp

FOUR_ROOMS = GridWorld.load("four-rooms").mdp


def test_solution_knows_its_accuracy():
    solution = exact.solve(FOUR_ROOMS, 20.0, "transition")
    assert solution.status == "converged"
    assert solution.residual < 1e-12
    assert solution.bracket[0] <= solution.eigenvalue <= solution.bracket[1]
    assert np.exp(2 * solution.log_e).sum() == pytest.approx(1)
    column = exact.solve(FOUR_ROOMS, 20.0)
    assert column.eigenvalue is None
    assert column.bracket is None
    assert column.log_e[FOUR_ROOMS.terminal] == 0


def test_formulations_differ_as_in_appendix_a():
    """With a zero row and a large lambda the vector is no longer largest at the goal."""
    goal = int(np.flatnonzero(FOUR_ROOMS.terminal)[0])
    for definition in ("transition", "representation"):
        absorbing = exact.log_eigenvector(FOUR_ROOMS, 20.0, definition)
        zero_row = exact.log_eigenvector(FOUR_ROOMS, 20.0, definition, terminal="zero-row")
        small = exact.log_eigenvector(FOUR_ROOMS, 1.3, definition, terminal="zero-row")
        assert absorbing.argmax() == goal
        assert zero_row.argmax() != goal
        assert small.argmax() == goal


def test_right_eigenvector_may_vanish_in_terminal_states():
    e = exact.log_eigenvector(FOUR_ROOMS, 20.0, "right", terminal="zero-row")
    assert np.isneginf(e[FOUR_ROOMS.terminal]).all()
    assert np.isfinite(e[~FOUR_ROOMS.terminal]).all()


def test_terminal_rewards_are_in_units_of_reward():
    text = "goal H: -50\n\n#####\n#G.H#\n#####"
    mdp = GridWorld.parse(text).mdp
    v = exact.log_column(mdp, 20.0)
    assert v[0] == 0
    assert v[2] == pytest.approx(-2.5)
    # exp(0.05) e = e/2 + 1/4 + exp(-2.5)/4
    assert v[1] == pytest.approx(np.log((0.25 + np.exp(-2.5) / 4) / (np.exp(0.05) - 0.5)))
    assert np.array_equal(exact.log_column(mdp, 20.0, terminal_reward=[0.0, -50.0]), v)
    replaced = exact.solve(mdp, 20.0, terminal_reward=[-10.0, 3.0]).log_e
    assert replaced[[0, 2]].tolist() == [-0.5, 0.15]


def test_parts_without_a_transition_between_them():
    P = np.zeros((4, 4))
    P[0, 1] = P[2, 3] = 1.0
    mdp = MDP.from_arrays(P, [-1.0, 0.0, -1.0, 0.0], [1, 3])
    assert np.allclose(exact.log_column(mdp, 1.0), [-1, 0, -1, 0])
    with pytest.raises(ValueError, match="2 parts with no transition between them"):
        exact.log_eigenvector(mdp, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lam": 0.0}, "lam is 0.0; it must be a positive number"),
        ({"lam": float("nan")}, "lam is nan"),
        ({"lam": 1.0, "definition": "left"}, "choose one of column, transition"),
        ({"lam": 1.0, "definition": "right", "delta": -1.0}, "delta is -1.0"),
        ({"lam": 1.0, "terminal": "open"}, "choose one of absorbing, zero-row"),
        ({"lam": 1.0, "terminal_reward": np.zeros(3)}, "each of the 1 terminal state"),
        ({"lam": 1.0, "terminal_reward": [np.nan]}, "one finite value for each"),
        ({"lam": 1.0, "definition": "right", "terminal_reward": [0.0]}, "for definition='column'"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact.solve(FOUR_ROOMS, **arguments)
    with pytest.raises(ValueError, match=r"discount is 1.0; it must lie in \(0, 1\)"):
        exact.successor_eigenvector(FOUR_ROOMS, 1.0)


@pytest.mark.usefixtures("unchecked")
def test_whole_numbers_beyond_those_of_numpy():
    at_float = exact.log_column(FOUR_ROOMS, 2.0**70)
    np.testing.assert_array_equal(exact.log_column(FOUR_ROOMS, 2**70), at_float)
    with pytest.raises(ValueError, match="lam is .*; it must be a positive number"):
        exact.log_column(FOUR_ROOMS, -(2**80))
    with pytest.raises(ValueError, match="delta is 1000.*; it must be a finite number"):
        exact.solve(FOUR_ROOMS, 20.0, delta=10**400)
    with pytest.raises(ValueError, match="terminal_reward is not an array of numbers"):
        exact.log_column(FOUR_ROOMS, 20.0, [10**400])


def test_column_is_no_eigenvector():
    with pytest.raises(ValueError, match="use exact.log_column"):
        exact.log_eigenvector(FOUR_ROOMS, 20.0, "column")


def test_an_inaccurate_answer_is_never_returned_in_silence():
    solution = exact.solve(FOUR_ROOMS, 20.0)
    worse = type(solution)(**{**vars(solution), "residual": 1e-3})
    assert worse.status == "inaccurate"
    with pytest.raises(exact.NotConverged, match="residual is 1.0e-03"):
        worse.checked()


def test_a_dense_matrix_of_a_large_world_is_refused():
    mdp = GridWorld.parse("\n".join(["#" * 82, *["#" + "." * 79 + "G#"] * 80, "#" * 82])).mdp
    with pytest.raises(ValueError, match="6400 states is refused"):
        exact.default_representation(mdp, 20.0)


def test_terminal_states_with_different_rewards_have_no_positive_right_eigenvector():
    mdp = random_mdp(0, 8, terminals=2)
    uneven = MDP.from_arrays(
        mdp.P, np.where(mdp.terminal, [0.0] * 7 + [-1.0], mdp.reward), mdp.terminal
    )
    with pytest.raises(ValueError, match="different rewards"):
        exact.log_eigenvector(uneven, 0.05, "right", terminal="zero-row")


def test_terminal_states_that_hardly_see_each_other_are_reported():
    """Three terminal states overlap by e^-70: their eigenvalues agree to all digits of a double."""
    mdp = random_mdp(0, 5, terminals=3, actions=1)
    solution = exact.solve(mdp, 0.2, "representation")
    assert solution.status == "inaccurate"
    low, high = solution.bracket
    assert low <= solution.eigenvalue * (1 + 1e-9)
    assert high >= solution.eigenvalue * (1 - 1e-9)
    with pytest.raises(exact.NotConverged, match="hardly see each other"):
        exact.log_eigenvector(mdp, 0.2, "representation")
    assert np.isfinite(exact.log_column(mdp, 0.2)).all()
