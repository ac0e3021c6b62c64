"""Q-learning against a plain Python loop, and the quantities that are measured."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import MDP, GridWorld
from drogo.agents import Grid, compare, optimal_values, q_learning
from drogo.agents.comparison import greedy_path
from drogo.agents.q_learning import Runs
from drogo.agents.task import draw_random_numbers, make_task
from drogo.agents.value_iteration import fewest_steps
from drogo.errors import ArgumentError

WINDY = """
#######
#S.x.G#
#.#...#
#..x..#
#######
"""


draw = jax.jit(draw_random_numbers, static_argnums=2)


def reference(world, phi, weight, alpha, seed, steps, every, discount=0.99, epsilon=0.05):
    """Tabular Q-learning as a plain loop: action values, greedy returns and visits."""
    f = np.float32
    q = np.zeros((world.n_states, 4), f)
    start = int(world.start.argmax())
    state, taken, visits, returns = start, 0, 0, []
    for evaluation in range(steps // every):
        random = np.asarray(
            draw_random_numbers(jnp.uint32(seed), jnp.uint32(2 * evaluation), every)
        )
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
        random = np.asarray(
            draw(jnp.uint32(seed), jnp.uint32(2 * evaluation + 1), world.step_limit)
        )
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
    runs = q_learning(
        world.mdp,
        potential=np.tile(phi, (3, 1)),
        weight=np.full(3, weight),
        step_size=np.full(3, alpha),
        seed=seeds,
        step_limit=world.step_limit,
        low_reward=world.low_reward,
        steps=2600,
        progress=done.append,
    )
    assert done == [13, 26]
    for lane, seed in enumerate(seeds):
        q, returns, visits = reference(world, phi, weight, alpha, seed, 2600, 100)
        np.testing.assert_array_equal(runs.q[lane], q)
        np.testing.assert_array_equal(runs.returns[lane], returns)
        assert runs.low_reward_visits[lane] == visits


def test_a_lane_does_not_depend_on_the_others():
    world = GridWorld.load("four-rooms")
    rng = np.random.default_rng(0)
    settings = {
        "potential": rng.normal(size=(5, world.n_states)),
        "weight": np.array([0, 0.25, 0.5, 0.75, 1.0]),
        "step_size": np.array([0.1, 0.3, 1.0, 0.1, 0.3]),
        "seed": np.array([3, 3, 0, 7, 7]),
    }
    how = {"step_limit": 200, "steps": 2000, "low_reward": world.low_reward}
    together = q_learning(world.mdp, **settings, **how, threads=2)
    for k in range(5):
        alone = q_learning(
            world.mdp, **{name: part[k : k + 1] for name, part in settings.items()}, **how
        )
        np.testing.assert_array_equal(alone.returns[0], together.returns[k])
        np.testing.assert_array_equal(alone.q[0], together.q[k])


def test_learns_the_optimal_policy():
    """As many lanes and seeds as in the test above, so that nothing is compiled again."""
    world = GridWorld.load("four-rooms")
    runs = q_learning(
        world.mdp,
        potential=np.zeros((6, world.n_states)),
        weight=np.zeros(6),
        step_size=np.array([0.3, 0.2, 0.3, 0.3, 0.2, 0.3]),
        seed=np.array([0, 0, 1, 2, 2, 3]),
        step_limit=world.step_limit,
        steps=40_000,
        threads=2,
    )
    assert np.isfinite(runs.steps_to_optimal).all()
    start = int(world.start.argmax())
    assert (runs.returns[:, -1] == optimal_values(world.mdp)[start]).all()
    path = greedy_path(world.mdp, runs.q[0], world.step_limit)
    assert (path[0], world.terminal[path[-1]], path.size) == (start, True, 18)


def test_stochastic_worlds_and_many_starts():
    """A slippery chain that starts in 0 or 1 and ends in 2; the first action hardly moves."""
    onward = [[0.2, 0.8, 0], [0, 0.2, 0.8], [0, 0, 0]]
    hardly = [[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 0]]
    mdp = MDP.from_arrays([hardly, onward], [-1, -1, 0], [2], start=[0.5, 0.5, 0])
    runs = q_learning(
        mdp,
        potential=np.zeros((2, 3)),
        weight=np.zeros(2),
        step_size=np.full(2, 0.1),
        seed=np.arange(2),
        step_limit=50,
        steps=20_000,
        epsilon=0.2,
    )
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
    np.testing.assert_array_equal(
        Runs(returns, arrived, *rest).steps_to_optimal, [400, 400, np.inf]
    )


def test_an_episode_that_was_cut_is_not_optimal():
    """The way to the goal costs 42, and 20 steps that stay away from it cost 20."""
    world = GridWorld.parse("step-limit: 20\n\n#######\n#S.xxG#\n#######\n")
    runs = q_learning(
        world.mdp, potential=np.zeros((2, 5)), weight=np.zeros(2), step_size=np.ones(2),
        seed=np.arange(2), step_limit=20, steps=400, every=5,
    )  # fmt: skip
    assert (runs.returns > runs.best_return)[:, -1].all()
    assert not runs.arrived[:, -1].any()
    assert np.isinf(runs.steps_to_optimal).all()


def test_the_fewest_steps_of_a_best_policy():
    """The short way costs 22 and the long one 5; two ways of 2 steps are equally good."""
    world = GridWorld.parse("#####\n#SxG#\n#...#\n#####\n")
    assert fewest_steps(world.mdp)[int(world.start.argmax())] == 4
    chain = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 0]]
    mdp = MDP.from_arrays([chain], [-1, -1, 0], [2], start=0)
    np.testing.assert_array_equal(fewest_steps(mdp), [2, 1, 0])


@pytest.mark.parametrize("name", ["grid-task", "four-rooms", "grid-maze", "grid-room"])
def test_best_returns_of_the_worlds(name):
    world = GridWorld.load(name)
    expected = {"grid-task": -17, "four-rooms": -17, "grid-maze": -73, "grid-room": -74}
    assert optimal_values(world.mdp)[int(world.start.argmax())] == expected[name]


def test_discounted_values_by_hand():
    mdp = GridWorld.parse("######\n#S..G#\n######").mdp
    np.testing.assert_allclose(optimal_values(mdp, 0.5), [-1.75, -1.5, -1, 0])
    with pytest.raises(ValueError, match="discount is 1.5"):
        optimal_values(mdp, 1.5)


def test_compare_gives_every_setting():
    world = GridWorld.parse(WINDY)
    phi = np.zeros((2, world.n_states))
    grids = compare(
        world.mdp, {"none": None, "flat": phi}, seeds=2, step_limit=40, steps=1000, every=100
    )
    assert grids["none"].returns.shape == (3, 2, 10)
    assert grids["flat"].returns.shape == (12, 2, 10)
    assert sorted(set(grids["flat"].weight)) == [0.25, 0.5, 0.75, 1.0]
    # A flat potential with weight w only scales the reward: with step size 1, the same greedy runs.
    plain = grids["none"].returns[grids["none"].step_size == 1.0]
    half = grids["flat"].returns[(grids["flat"].step_size == 1.0) & (grids["flat"].weight == 0.5)]
    np.testing.assert_array_equal(plain, half)


@pytest.mark.parametrize(
    ("steps", "before", "chosen"),
    [
        ([[300, 500], [100, 200], [900, 100]], [-1, -1, -1], 1),
        ([[300, np.inf], [np.inf, np.inf], [900, 800]], [-1, -1, -1], 2),
        ([[300, np.inf], [np.inf, np.inf], [np.inf, 800]], [-9, -1, -2], 2),
    ],
)
def test_the_setting_that_is_reported(steps, before, chosen):
    """The first to be optimal with all seeds, or with most of them, or with the highest return."""
    reached = 100 * np.arange(1, 11) >= np.array(steps)[:, :, None]
    returns = np.where(reached, 0.0, np.array(before)[:, None, None])
    visits, q = np.zeros((3, 2), int), np.zeros((3, 2, 1, 1))
    best = np.zeros_like(returns)
    arrived = np.ones(returns.shape, bool)
    grid = Grid(returns, arrived, best, 100, visits, q, weight=np.ones(3), step_size=np.ones(3))
    np.testing.assert_array_equal(grid.steps_to_optimal, steps)
    assert grid.chosen == chosen


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": np.array([1.5])}, "weight is 1.5 in lane 0"),
        ({"weight": np.array([np.nan])}, "weight is nan in lane 0"),
        ({"step_size": np.array([0.0])}, "step_size is 0.0 in lane 0"),
        ({"step_size": np.array([np.nan])}, "step_size is nan in lane 0"),
        ({"steps": 150}, "steps is 150; it must be a multiple of every"),
        ({"potential": np.full((1, 14), np.nan)}, "not finite"),
        ({"potential": np.zeros((1, 3))}, "states"),
        ({"epsilon": 2.0}, "epsilon is 2.0"),
        ({"discount": -1.0}, "discount is -1.0"),
        ({"step_limit": 0}, "step_limit is 0"),
        ({"step_limit": 10**400}, "step_limit is 1000"),
        ({"seed": np.array([-1])}, "seed is -1 in lane 0"),
        ({"seed": np.array([2**32])}, "seed is 4294967296 in lane 0"),
        ({"seed": np.array([0.5])}, "seed is 0.5 in lane 0; give whole numbers"),
        ({"weight": np.float64(0.5)}, "weight has shape"),
        ({"step_size": [[1], [1, 2]]}, "step_size is not an array"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_use(change, message):
    world = GridWorld.parse(WINDY)
    settings = {
        "potential": np.zeros((1, world.n_states)),
        "weight": np.zeros(1),
        "step_size": np.ones(1),
        "seed": np.zeros(1, int),
        "step_limit": 40,
    }
    with pytest.raises(ValueError, match=message):
        q_learning(world.mdp, **{**settings, **change})


def test_a_mask_that_is_not_one_of_the_states():
    mdp = GridWorld.parse(WINDY).mdp
    for mask in (np.zeros(3, bool), np.zeros(mdp.n_states)):
        with pytest.raises(ArgumentError, match=r"low_reward is an array \(.*,\) of .*14 states"):
            make_task(mdp, mask, 0.9, 0.1)


def test_random_numbers_belong_to_the_seed():
    first, second = (
        np.asarray(draw_random_numbers(jnp.uint32(3), jnp.uint32(k), 50)) for k in (0, 1)
    )
    again = np.asarray(
        jax.jit(draw_random_numbers, static_argnums=2)(jnp.uint32(3), jnp.uint32(0), 50)
    )
    np.testing.assert_array_equal(first, again)
    assert not (first == second).any()
