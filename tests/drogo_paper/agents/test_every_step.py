"""The steps until the return is the final one, from a log of changes of the greedy policy."""

import numpy as np
import pytest

from drogo import GridWorld
from drogo.errors import ArgumentError
from drogo_paper.agents import Training, q_learning
from drogo_paper.agents.every_step import Walk, last_different
from raising import refused

LEFT, RIGHT = 1, 2
CORRIDOR = Walk(
    next_state=np.array([[0, 1], [0, 2], [2, 2]]),
    reward=np.array([[-1.0, -1.0], [-1.0, -1.0], [0.0, 0.0]]),
    terminal=np.array([False, False, True]),
    start=0,
    step_limit=5,
)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([(0, RIGHT), (1, RIGHT), (0, LEFT), (0, RIGHT), (1, RIGHT)], 4),
        ([(0, RIGHT), (1, RIGHT), (0, LEFT), (0, LEFT)], 3),  # the final return is -5
        ([(0, RIGHT), (1, LEFT), (1, RIGHT), (0, RIGHT)], 3),
        ([(1, LEFT), (0, LEFT), (1, RIGHT)], 1),  # state 1 cannot be left to the goal at once
    ],
)
def test_the_last_step_with_another_return(log, expected):
    """From 0 to 2 takes two steps, and five where a step leads back again and again."""
    state, bits = map(np.array, zip(*log, strict=True))
    assert last_different(CORRIDOR, state, bits, np.random.default_rng(0)) == expected


def test_ties_are_broken_at_random():
    """With both actions equally good, one episode in two takes more than two steps."""
    best = np.array([[False, True], [True, True], [True, True]])
    assert CORRIDOR.returns(best)[:2] == (-5.0, -2.0)
    rng = np.random.default_rng(0)
    assert {CORRIDOR.sample(best, rng) for _ in range(50)} == {-5.0, -4.0, -2.0}
    state, bits = np.zeros(200, dtype=int), np.full(200, RIGHT)
    state[50], bits[50] = 1, RIGHT  # a tie until then
    assert 40 < last_different(CORRIDOR, state, bits, rng) <= 51


def test_it_agrees_with_evaluations_after_every_step():
    world = GridWorld.parse("#######\n#S...G#\n#.x...#\n#######")
    training = Training(20, steps=2000, every=1, every_step=True)
    runs = q_learning(
        world.mdp, training, potential=np.zeros((8, world.n_states)), weight=np.zeros(8),
        step_size=np.repeat([0.3, 1.0], 4), seed=np.arange(8),
    )  # fmt: skip
    different = runs.returns != runs.returns[:, -1:]
    expected = [np.flatnonzero(row)[-1] + 2 for row in different]  # row k is after step k + 1
    away = np.abs(runs.until_final - expected)
    # With a step size of 1 there are ties, which are broken by other random numbers.
    assert (away[:4].max(), away.max() <= 2) == (0, True)
    arrived = runs.arrived[:, -1]
    assert (runs.steps_to_optimal[arrived] == runs.until_final[arrived]).all()
    refused(ArgumentError, "mdp", Walk.of, GridWorld.load("four-rooms-multigoal").mdp, 10)
