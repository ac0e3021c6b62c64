"""One stage: the map and the policy from the same steps."""

import numpy as np
import pytest

from drogo import ArgumentError, GridWorld, exact
from drogo.agents import one_stage, q_learning
from drogo.mdp import MDP
from drogo.use.online.empirical import Seen, mean_step_of, solve_seen

LAM = 20.0
SMALL = """
step-limit: 30

######
#S..G#
#.x..#
######
"""


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


def run(world, **options):
    lanes = options.pop("lanes", 3)
    return one_stage(
        world.mdp, weight=np.full(lanes, 0.5), step_size=np.full(lanes, 1.0), seed=np.arange(lanes),
        step_limit=world.step_limit, low_reward=world.low_reward, every=50, **options,
    )  # fmt: skip


@pytest.mark.slow
def test_without_a_map_and_a_replay_it_is_q_learning():
    world = GridWorld.parse(SMALL)
    plain = q_learning(
        world.mdp, potential=np.zeros((3, world.mdp.n_states)), weight=np.zeros(3),
        step_size=np.ones(3), seed=np.arange(3), step_limit=world.step_limit, steps=1000, every=50,
        low_reward=world.low_reward,
    )  # fmt: skip
    ours = run(world, map="none", sweeps=0, steps=1000)
    assert np.array_equal(ours.q, plain.q)
    assert np.array_equal(ours.returns, plain.returns)
    assert np.array_equal(ours.low_reward_visits, plain.low_reward_visits)


@pytest.mark.parametrize("how", ["solve", "backups"])
def test_a_map_of_its_own_steps_finds_the_best_return_and_becomes_the_column(how):
    world = GridWorld.parse(SMALL)
    runs = run(world, map=how, steps=1500, sweeps=5)
    assert np.isfinite(runs.steps_to_optimal).all()
    assert (runs.tried[:, -1] > 0.9).all()
    everything = runs.tried[:, -1] == 1
    assert everything.any()
    assert (runs.cosine[everything, -1] > 0.9999).all()


@pytest.mark.parametrize("how", ["solve", "backups"])
def test_without_optimism_there_is_no_map_before_a_terminal_state(how):
    runs = run(GridWorld.load("four-rooms"), map=how, optimism=None, steps=100, keep_maps=True)
    assert not runs.found.any()
    assert np.nanmax(np.abs(runs.maps)) == 0


def test_it_takes_fewer_steps_than_without_a_map():
    world = GridWorld.load("four-rooms")
    ours = run(world, steps=2000, sweeps=1)
    plain = run(world, steps=2000, map="none", sweeps=0)
    assert np.isfinite(ours.steps_to_optimal).all()
    assert not np.isfinite(plain.steps_to_optimal).any()


def test_a_world_of_chance_is_solved_too():
    """Two actions that reach the goal with probabilities 0.9 and 0.1, and else stay."""
    stay, goal = np.array([[0.1, 0.9], [0, 0]]), np.array([[0.9, 0.1], [0, 0]])
    mdp = MDP.from_arrays([goal, stay], [-1.0, 0.0], [1], start=0)
    runs = one_stage(mdp, weight=np.full(2, 0.5), step_size=np.full(2, 0.1), seed=np.arange(2),
                     step_limit=50, steps=1000, every=50, lam=2.0)  # fmt: skip
    assert (runs.q[:, 0].argmax(axis=1) == 1).all()
    assert runs.tried[:, -1] == pytest.approx(1.0)


def test_what_cannot_be_done_is_an_error():
    world = GridWorld.parse(SMALL)
    for wrong in ({"map": "magic"}, {"map_every": 7}, {"lam": 0.0}, {"sweeps": -1}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            run(world, steps=100, **wrong)
