"""Option discovery: tables and vectors by hand, walks, and what exact vectors lead to."""

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo.errors import ArgumentError
from drogo_paper.agents.discovery import Cycle, discover
from drogo_paper.agents.representations import (
    ExactDefault,
    ExactSuccessor,
    LearnedDefault,
    LearnedSuccessor,
    Memory,
    empirical_mdp,
    log_perron,
)
from raising import raises

CORRIDOR = GridWorld.parse("#######\n#S...G#\n#######").without_goals()
RIGHT, DOWN, LEFT = 0, 1, 2
HALVING = 1 / np.log(2)


def memory(path, actions=()):
    """The steps of one run on a path along the corridor."""
    tried = np.zeros((1, 5, 4), dtype=bool)
    for state, action in actions:
        tried[0, state, action] = True
    path = np.array([path])
    return Memory(CORRIDOR, tried, path[:, :-1], path[:, 1:])


def test_a_pass_of_the_successor_representation():
    """0 -> 1 -> 0 with step size 1/2 and discount 1/2, forwards.

    Row 0 goes half of the way to (1, 0); row 1 to (1/4, 1), half of it: (1/8, 1/2).
    """
    vectors = LearnedSuccessor(0.5, 1, discount=0.5)
    (e,) = vectors.update(memory([0, 1, 0]))
    assert vectors.table[0, :2, :2].tolist() == [[0.5, 0], [0.125, 0.5]]
    # The symmetric part has 1/2 on its diagonal and 1/16 beside: both states are equal.
    np.testing.assert_allclose(e, [-np.sqrt(0.5)] * 2 + [0, 0, 0], atol=1e-12)


def test_a_pass_of_the_default_representation_goes_back():
    """From 1 to 0 first: row 1 goes half of the way from (0, 1) to (1/2) (1, 1), to (1/4, 3/4).
    Then row 0, from (1, 0) to (1/2) (1 + 1/4, 3/4) = (5/8, 3/8): to (13/16, 3/16)."""
    vectors = LearnedDefault(0.5, 1, lam=HALVING)
    (e,) = vectors.update(memory([0, 1, 0]))
    np.testing.assert_allclose(vectors.table[0, :2, :2], [[13 / 16, 3 / 16], [1 / 4, 3 / 4]])
    values, both = np.linalg.eigh([[13 / 16, 7 / 32], [7 / 32, 3 / 4]])
    expected = np.log(np.abs(both[:, values.argmax()]))
    np.testing.assert_allclose(e[:2], expected / np.linalg.norm(expected))
    assert e[2:].tolist() == [0, 0, 0]  # never updated: the largest
    assert vectors.inaccurate == 0


def test_exact_vectors_of_what_was_seen():
    given = [(0, action) for action in range(4)] + [(1, RIGHT), (1, LEFT)]
    seen = memory([0], given)
    mdp, visited = empirical_mdp(CORRIDOR, seen.tried[0])
    P = np.array([[0.75, 0.25, 0], [0.5, 0, 0.5], [0, 0, 0]])
    assert (visited.tolist(), mdp.terminal.tolist()) == ([0, 1, 2], [False, False, True])
    assert (mdp.P.toarray() == P).all()
    sr, z = np.linalg.inv(np.eye(3) - 0.5 * P), np.linalg.inv(2 * np.eye(3) - P)
    top, of_z = (np.abs(np.linalg.eigh((M + M.T) / 2)[1][:, -1]) for M in (sr, z))
    (e,) = ExactSuccessor(0.5).update(seen)
    np.testing.assert_allclose(e, [*-top, 0, 0], atol=1e-10)
    (e,) = ExactDefault(HALVING, optimistic=False).update(seen)
    np.testing.assert_allclose(e, [*np.log(of_z), 0, 0], atol=1e-9)


def test_actions_that_were_not_tried_attract():
    """All was tried in 0, half in 1: exp(v) = (3/4 exp(v) + 1/4 exp(v_1))/2 in state 0."""
    given = [(0, action) for action in range(4)] + [(1, DOWN), (1, LEFT)]
    (e,) = ExactDefault(HALVING).update(memory([0], given))
    assert np.exp(e[0] - e[1]) == pytest.approx(0.125 / (1 - 0.375))
    assert e[1] > e[0]


LEARNED = [lambda: LearnedDefault(0.1, 2), lambda: LearnedSuccessor(0.1, 2)]


@pytest.mark.parametrize("make", [*LEARNED, ExactSuccessor, ExactDefault])
def test_a_seed_does_not_depend_on_others(make):
    cycle = Cycle(4, steps=10, p_option=0.3)
    alone, both = (discover(CORRIDOR, make(), cycle, seeds=seeds) for seeds in ([2], [1, 2]))
    np.testing.assert_array_equal(alone.visited[0], both.visited[1])
    np.testing.assert_array_equal(alone.reward[0], both.reward[1])
    (option,) = both.options
    assert option.action.shape == (2, 5)
    assert both.inaccurate == 0


def test_options_are_followed_to_their_end():
    """One that leads right is begun at once, and walks to the end of the corridor."""

    class Right(ExactDefault):
        def update(self, memory):
            return np.tile(np.arange(5.0), (len(memory.state), 1))

    walks = discover(CORRIDOR, Right(), Cycle(9, steps=30, p_option=1.0), seeds=(1, 2))
    (option,) = walks.options
    assert option.ends.tolist() == [[False] * 4 + [True]] * 2
    assert option.action[:, :4].tolist() == [[RIGHT] * 4] * 2
    assert walks.visited[:, -1].tolist() == [1, 1]
    with raises(ArgumentError, "world"):
        discover(GridWorld.load("grid-task"), None, Cycle(1), seeds=[1])


def test_the_positive_eigenvector_of_a_matrix():
    """Entry by entry the exact one, down to e^-180; or 0 in one of two equal parts."""
    for name in ("grid-task", "grid-maze"):
        mdp = GridWorld.load(name).mdp
        z, log_eigenvector = exact.default_representation(mdp, 1.3), exact.log_eigenvector
        log_e, spread = log_perron((z + z.T) / 2)
        np.testing.assert_allclose(log_e, log_eigenvector(mdp, 1.3, "representation"), atol=1e-6)
        assert spread < 1e-6
    assert log_perron(np.eye(2))[0].tolist() == [0, -np.inf]
    with raises(ArgumentError):
        log_perron(np.array([[1.0, -1.0], [0.0, 1.0]]))
