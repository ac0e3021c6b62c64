"""Q-learning against a plain Python loop, and the quantities that are measured."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import MDP, GridWorld
from drogo.errors import ArgumentError
from drogo_paper.agents import Grid, Training, compare, optimal_values, q_learning
from drogo_paper.agents.q_learning import Runs, fewest_steps
from drogo_paper.agents.training import draw_random_numbers
from raising import raises

WINDY = "#######\n#S.x.G#\n#.#...#\n#..x..#\n#######"
draw = jax.jit(draw_random_numbers, static_argnums=2)


def reference(world, phi, weight, alpha, seed, steps, every, discount=0.99, epsilon=0.05):
    """Tabular Q-learning as a plain loop: action values, greedy returns and visits."""
    f = np.float32
    q = np.zeros((world.n_states, 4), f)
    start = int(world.start.argmax())
    state, taken, visits, returns = start, 0, 0, []
    for evaluation in range(steps // every):
        random = np.asarray(draw(jnp.uint32(seed), jnp.uint32(2 * evaluation), every))
        for explore, choice, _, _ in random.T:
            action = int(choice * 4) if explore < f(epsilon) else int(q[state].argmax())
            following = int(world.next_state[state, action])
            terminal = world.terminal[following]
            shaping = float(f(discount)) * phi[following] - phi[state]
            shaped = f((1 - weight) * world.reward[state] + weight * shaping)
            target = shaped + f(discount) * (f(0) if terminal else q[following].max())
            q[state, action] = (1 - f(alpha)) * q[state, action] + f(alpha) * target
            visits += world.low_reward[following]
            taken += 1
            over = terminal or taken >= world.step_limit
            state, taken = (start, 0) if over else (following, taken)
        phase = jnp.uint32(2 * evaluation + 1)
        random = np.asarray(draw(jnp.uint32(seed), phase, world.step_limit))
        greedy, earned = start, 0.0
        for choice in random[1]:
            best = np.flatnonzero(q[greedy] == q[greedy].max())
            earned += world.reward[greedy]
            greedy = int(world.next_state[greedy, best[int(choice * best.size)]])
            if world.terminal[greedy]:
                break
        returns.append(earned)
    return q, np.array(returns), visits


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_agrees_with_a_plain_loop_step_for_step(weight, alpha):
    world = GridWorld.parse(WINDY)
    phi = np.linspace(-3, 0, world.n_states)
    seeds, done = np.array([0, 1, 5]), []
    arrays = {"weight": np.full(3, weight), "step_size": np.full(3, alpha), "seed": seeds}
    training = Training(world.step_limit, world.low_reward, steps=2600)
    arrays |= {"potential": np.tile(phi, (3, 1)), "progress": done.append}
    runs = q_learning(world.mdp, training, **arrays)
    assert done == [13, 26]
    for run, seed in enumerate(seeds):
        q, returns, visits = reference(world, phi, weight, alpha, seed, 2600, 100)
        np.testing.assert_array_equal(runs.q[run], q)
        np.testing.assert_array_equal(runs.returns[run], returns)
        assert runs.low_reward_visits[run] == visits


def test_a_run_does_not_depend_on_the_others():
    world = GridWorld.load("four-rooms")
    settings = {"weight": np.array([0, 0.25, 1.0]), "step_size": np.array([0.1, 0.3, 1.0])}
    settings["potential"] = np.random.default_rng(0).normal(size=(3, world.n_states))
    settings["seed"] = np.array([3, 3, 7])
    training = Training(200, world.low_reward, steps=2000)
    together = q_learning(world.mdp, training, **settings, threads=2)
    for k in range(3):
        one = {name: part[k : k + 1] for name, part in settings.items()}
        alone = q_learning(world.mdp, training, **one)
        assert np.array_equal(alone.returns[0], together.returns[k])
        assert np.array_equal(alone.q[0], together.q[k])


def test_stochastic_worlds_and_many_starts():
    """A slippery chain that starts in 0 or 1 and ends in 2; the first action hardly moves."""
    onward = [[0.2, 0.8, 0], [0, 0.2, 0.8], [0, 0, 0]]
    hardly = [[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 0]]
    mdp = MDP.from_arrays([hardly, onward], [-1, -1, 0], [2], start=[0.5, 0.5, 0])
    runs = q_learning(
        mdp, Training(50, steps=20_000, epsilon=0.2), potential=np.zeros((2, 3)),
        weight=np.zeros(2), step_size=np.full(2, 0.1), seed=np.arange(2),
    )  # fmt: skip
    # By hand: a step onward succeeds with probability 0.8 and takes 1.25 steps on average.
    np.testing.assert_allclose(optimal_values(mdp), [-2.5, -1.25, 0])
    assert (runs.q[:, :2].argmax(axis=2) == 1).all()
    assert runs.returns[:, 100:].mean() == pytest.approx(-1.875, abs=0.15)
    np.testing.assert_allclose(np.unique(runs.best_return), [-2.5, -1.25])


def test_steps_to_optimal_counts_from_where_it_stays():
    returns = np.array([[-9.0, -5, -9, -5, -5], [-5, -5, -5, -5, -5], [-5, -5, -5, -5, -6]])
    arrived = np.ones((3, 5), bool)
    rest = (np.full((3, 5), -5.0), 100, np.zeros(3, int), np.zeros((3, 1, 1)))
    runs = Runs(returns, arrived, *rest)
    np.testing.assert_array_equal(runs.steps_to_optimal, [400, 100, np.inf])
    arrived[1, 2] = False
    assert Runs(returns, arrived, *rest).steps_to_optimal.tolist() == [400, 400, np.inf]


def test_discounted_values_and_the_fewest_steps_by_hand():
    """The short way costs 22 and the long one 5; two ways of 2 steps are equally good."""
    world = GridWorld.parse("#####\n#SxG#\n#...#\n#####\n")
    assert fewest_steps(world.mdp)[int(world.start.argmax())] == 4
    chain = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 0]]
    mdp = MDP.from_arrays([chain], [-1, -1, 0], [2], start=0)
    np.testing.assert_array_equal(fewest_steps(mdp), [2, 1, 0])
    mdp = GridWorld.parse("######\n#S..G#\n######").mdp
    np.testing.assert_allclose(optimal_values(mdp, 0.5), [-1.75, -1.5, -1, 0])


def test_compare_gives_every_setting():
    world = GridWorld.parse(WINDY)
    phi = np.zeros((2, world.n_states))
    grids = compare(world.mdp, {"none": None, "flat": phi}, Training(40, steps=1000), seeds=2)
    assert (grids["none"].returns.shape, grids["flat"].returns.shape) == ((3, 2, 10), (12, 2, 10))
    # A flat potential with weight w only scales the reward: with step size 1, the same greedy runs.
    plain = grids["none"].returns[grids["none"].step_size == 1.0]
    half = grids["flat"].returns[(grids["flat"].step_size == 1.0) & (grids["flat"].weight == 0.5)]
    np.testing.assert_array_equal(plain, half)


NEVER = np.inf
REPORTED = [
    ([[300, 500], [100, 200], [900, 100]], [-1, -1, -1], 1),
    ([[300, NEVER], [NEVER, NEVER], [900, 800]], [-1, -1, -1], 2),
    ([[300, NEVER], [NEVER, NEVER], [NEVER, 800]], [-9, -1, -2], 2),
]


@pytest.mark.parametrize(("steps", "before", "chosen"), REPORTED)
def test_the_setting_that_is_reported(steps, before, chosen):
    """The first to be optimal with all seeds, or with most of them, or with the highest return."""
    reached = 100 * np.arange(1, 11) >= np.array(steps)[:, :, None]
    returns = np.where(reached, 0.0, np.array(before)[:, None, None])
    rest = (np.zeros_like(returns), 100, np.zeros((3, 2), int), np.zeros((3, 2, 1, 1)))
    ones = {"weight": np.ones(3), "step_size": np.ones(3)}
    grid = Grid(returns, np.ones(returns.shape, bool), *rest, **ones)
    np.testing.assert_array_equal(grid.steps_to_optimal, steps)
    assert grid.chosen == chosen


@pytest.mark.usefixtures("unchecked")
def test_wrong_use():
    mdp, one = GridWorld.parse(WINDY).mdp, np.ones(1)
    arrays = {
        "potential": np.zeros((1, 14)),
        "weight": one,
        "step_size": one,
        "seed": np.zeros(1, int),
    }
    for name, value in {
        "weight": 1.5,
        "step_size": 0.0,
        "potential": np.nan,
        "seed": 2**32,
    }.items():
        with raises(ArgumentError, name):
            q_learning(mdp, Training(40), **{**arrays, name: np.full(arrays[name].shape, value)})
    for name, value in {
        "steps": 150,
        "epsilon": 2.0,
        "discount": -1.0,
        "step_limit": 10**400,
    }.items():
        with raises(ArgumentError, name):
            Training(**{"step_limit": 40, name: value})
    with raises(ArgumentError, "low_reward"):
        q_learning(mdp, Training(40, low_reward=np.zeros(14)), **arrays)
    with raises(ArgumentError, "discount"):
        optimal_values(mdp, 1.5)
