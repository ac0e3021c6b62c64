"""Tabular options: solved, discovered from what was seen, and learned with; numbers by hand."""

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo.errors import ArgumentError
from drogo_paper.agents import Cycle, discover, representations
from drogo_paper.agents.options import best_values, solve_option, sum_along
from drogo_paper.agents.representations import Memory, empirical_mdp, log_perron, make_vectors
from raising import refused

CHAIN = np.array([[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]])
"""Five states in a row; left and right, and a blocked move stays."""
VALLEY = np.array([2.0, 0.0, -1.0, 0.0, 8.0])
HALL = GridWorld.parse("#######\n#S...G#\n#######").without_goals()
CORRIDOR = GridWorld.parse("######\n#S..G#\n######")
RIGHT, DOWN, LEFT = range(3)
HALVING = 1 / np.log(2)
NEVER = 0.9999  # of two numbers: explores with epsilon 1, and takes the last choice that there is


def test_an_option_crosses_a_valley():
    """The numbers of `use/test_options.py`."""
    option = solve_option(CHAIN, VALLEY, discount=0.5)
    assert option.value.tolist() == [0, 2, 5, 8, 0]
    assert option.action[1:4].tolist() == [0, 1, 1]  # left, right, right
    assert option.ends.tolist() == [True, False, False, False, True]
    patient = solve_option(CHAIN, VALLEY, discount=0.9)
    # -2 - 0.9 + 0.81 + 0.729 * 8 = 3.742 from state 0.
    np.testing.assert_allclose(patient.value, [3.742, 6.38, 8.2, 8, 0])
    assert patient.ends.tolist() == [False] * 4 + [True]
    # The right summit is out of reach in the second run, in which nobody went right from 3.
    tried = np.ones((2, 5, 2), dtype=bool)
    tried[1, 3, 1] = False
    both = solve_option(CHAIN, np.stack([VALLEY, VALLEY]), discount=0.5, tried=tried)
    assert both.value.tolist() == [[0, 2, 5, 8, 0], [0, 2, 2, 0, 0]]
    refused(ArgumentError, "values", solve_option, CHAIN, np.array([0.0, np.nan, 0.0, 0.0, 0.0]))
    refused(ArgumentError, "discount", solve_option, CHAIN, VALLEY, discount=1.0)


def test_a_summit_that_cannot_be_stayed_on_and_sums_along_a_path():
    """A triangle whose moves never stay. As published, going on for ever from the summit loses
    1 and gains 1, later: V = -1 + 0.9 (1 + 0.9 V), so V = -0.1/0.19. With an end, it is 0."""
    world = (np.array([[1, 2], [0, 2], [0, 1]]), np.array([1.0, 0.0, 0.0]))
    endless, ending = (solve_option(*world, discount=0.9, may_end=end) for end in (False, True))
    assert endless.value[0] == pytest.approx(-0.1 / 0.19)
    assert endless.value[1] == pytest.approx(1 - 0.9 * 0.1 / 0.19)
    np.testing.assert_allclose(ending.value, [0, 1, 1])
    assert endless.ends.tolist() == ending.ends.tolist() == [True, False, False]
    # 0 -> 1 -> 2 -> 2 with gains 1, 2 and 3: four steps from 0, halved each time.
    total, reached = sum_along(np.array([[1, 2, 2]]), np.array([[1.0, 2.0, 3.0]]), 0.5, 2)
    assert total[0].tolist() == [1 + 2 / 2 + 3 / 4 + 3 / 8, 2 + 3 / 2 + 3 / 4 + 3 / 8, 5.625]
    assert reached.tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("may_end", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
def test_the_best_of_all_policies(may_end, discount):
    rng, shape = np.random.default_rng(3), (3, 4, 12)  # actions, runs and states
    moves = rng.integers(12, size=(12, 3))
    gain, goes_on = rng.normal(size=shape), rng.random(shape) < 0.7
    options = {"discount": discount, "tolerance": 1e-11, "may_end": may_end}
    q, value = best_values(moves, gain, goes_on, **options), np.zeros(shape[1:])
    for _ in range(4000):
        ahead = np.stack([value[:, after] for after in moves.T])
        swept = gain + np.where(goes_on, discount * ahead, 0.0)
        value = np.maximum(swept.max(axis=0), 0.0 if may_end else -np.inf)
    np.testing.assert_allclose(q, swept, atol=1e-9)


def memory(path, actions=()):
    """The steps of one run on a path along the hall."""
    tried = np.zeros((1, 5, 4), dtype=bool)
    for state, action in actions:
        tried[0, state, action] = True
    return Memory(HALL, tried, np.array([path[:-1]], dtype=int), np.array([path[1:]], dtype=int))


def test_passes_of_both_representations():
    """0 -> 1 -> 0 with step size 1/2 and discount 1/2, forwards: row 0 goes half of the way to (1, 0),
    and row 1 to (1/4, 1), so to (1/8, 1/2)."""
    vectors = representations.LearnedSuccessor(0.5, 1, discount=0.5)
    (e,) = vectors.update(memory([0, 1, 0]))
    assert vectors.table[0, :2, :2].tolist() == [[0.5, 0], [0.125, 0.5]]
    # The symmetric part has 1/2 on its diagonal and 1/16 beside: both states are equal.
    np.testing.assert_allclose(e, [-np.sqrt(0.5)] * 2 + [0, 0, 0], atol=1e-12)
    # From 1 to 0 first: row 1 goes half of the way from (0, 1) to (1/2) (1, 1), to (1/4, 3/4).
    # Then row 0, from (1, 0) to (1/2) (1 + 1/4, 3/4) = (5/8, 3/8): to (13/16, 3/16).
    vectors = representations.LearnedDefault(0.5, 1, lam=HALVING)
    (e,) = vectors.update(memory([0, 1, 0]))
    np.testing.assert_allclose(vectors.table[0, :2, :2], [[13 / 16, 3 / 16], [1 / 4, 3 / 4]])
    values, both = np.linalg.eigh([[13 / 16, 7 / 32], [7 / 32, 3 / 4]])
    expected = np.log(np.abs(both[:, values.argmax()]))
    np.testing.assert_allclose(e[:2], expected / np.linalg.norm(expected))
    assert e[2:].tolist() == [0, 0, 0]  # never updated: the largest
    assert vectors.inaccurate == 0


def test_exact_vectors_of_what_was_seen_and_of_a_matrix():
    everything = [(0, action) for action in range(4)]
    seen = memory([0], [*everything, (1, RIGHT), (1, LEFT)])
    mdp, visited = empirical_mdp(HALL, seen.tried[0])
    P = np.array([[0.75, 0.25, 0], [0.5, 0, 0.5], [0, 0, 0]])
    assert (visited.tolist(), mdp.terminal.tolist()) == ([0, 1, 2], [False, False, True])
    assert (mdp.P.toarray() == P).all()
    sr, z = np.linalg.inv(np.eye(3) - 0.5 * P), np.linalg.inv(2 * np.eye(3) - P)
    top, of_z = (np.abs(np.linalg.eigh((M + M.T) / 2)[1][:, -1]) for M in (sr, z))
    (e,) = representations.ExactSuccessor(0.5).update(seen)
    np.testing.assert_allclose(e, [*-top, 0, 0], atol=1e-10)
    (e,) = representations.ExactDefault(HALVING, optimistic=False).update(seen)
    np.testing.assert_allclose(e, [*np.log(of_z), 0, 0], atol=1e-9)
    # All was tried in 0, half in 1: exp(v) = (3/4 exp(v) + 1/4 exp(v_1))/2 in state 0.
    seen = memory([0], [*everything, (1, DOWN), (1, LEFT)])
    (e,) = representations.ExactDefault(HALVING).update(seen)
    assert np.exp(e[0] - e[1]) == pytest.approx(0.125 / (1 - 0.375))
    assert e[1] > e[0]
    # Entry by entry the exact one, down to e^-180; or 0 in one of two equal parts.
    for name in ("grid-task", "grid-maze"):
        mdp = GridWorld.load(name).mdp
        z = exact.default_representation(mdp, 1.3)
        log_e, spread = log_perron((z + z.T) / 2)
        np.testing.assert_allclose(
            log_e, exact.solve(mdp, 1.3, "representation").checked().log_e, atol=1e-6
        )
        assert spread < 1e-6
    assert log_perron(np.eye(2))[0].tolist() == [0, -np.inf]
    refused(ArgumentError, None, log_perron, np.array([[1.0, -1.0], [0.0, 1.0]]))


@pytest.mark.parametrize("kind", ["race", "ceo", "untried", "ceo-exact"])
def test_a_seed_does_not_depend_on_others(kind):
    def run(seeds):
        options = {"step_size": 0.1, "passes": 2, "lam": 1.3, "discount": 0.99}
        vectors, cycle = make_vectors(kind, **options), Cycle(4, steps=10, p_option=0.3)
        return discover(HALL, vectors, cycle, seeds=seeds)

    alone, both = run([2]), run([1, 2])
    np.testing.assert_array_equal(alone.visited[0], both.visited[1])
    np.testing.assert_array_equal(alone.reward[0], both.reward[1])
    (option,) = both.options
    assert option.action.shape == (2, 5)
    assert both.inaccurate == 0


def test_options_are_followed_to_their_end():
    """One that leads right is begun at once, and walks to the end of the hall."""

    class Right(representations.ExactDefault):
        def update(self, memory):
            return np.tile(np.arange(5.0), (len(memory.state), 1))

    assert discover(HALL, Right(), Cycle(1, steps=5), seeds=2).visited.shape[0] == 2
    walks = discover(HALL, Right(), Cycle(9, steps=30, p_option=1.0), seeds=(1, 2))
    (option,) = walks.options
    assert option.ends.tolist() == [[False] * 4 + [True]] * 2
    assert option.action[:, :4].tolist() == [[RIGHT] * 4] * 2
    assert walks.visited[:, -1].tolist() == [1, 1]
    with_goals = GridWorld.load("grid-task")
    refused(ArgumentError, "world", discover, with_goals, None, Cycle(1), seeds=[1])
