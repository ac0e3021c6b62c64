"""Q-learning against a plain Python loop, its measures (also after every step, from a log of changes of
the greedy policy), shaping with potentials, and one stage."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import MDP, GridWorld, exact
from drogo.errors import ArgumentError
from drogo.potential import mean_step
from drogo_paper.agents import Grid, MapSettings, Training, compare, one_stage, shaping_experiment
from drogo_paper.agents.every_step import Walk, last_different
from drogo_paper.agents.q_learning import Runs, fewest_steps, optimal_values, q_learning
from drogo_paper.agents.training import draw_random_numbers
from raising import raises, refused

WINDY = GridWorld.parse("#######\n#S.x.G#\n#.#...#\n#..x..#\n#######")
SMALL = GridWorld.parse("step-limit: 30\n\n######\n#S..G#\n#.x..#\n######")
draw = jax.jit(draw_random_numbers, static_argnums=2)
NEVER = np.inf
FIRST = ([[300, 500], [100, 200], [900, 100]], [-1, -1, -1], 1)
MOST = ([[300, NEVER], [NEVER, NEVER], [900, 800]], [-1, -1, -1], 2)
HIGHEST = ([[300, NEVER], [NEVER, NEVER], [NEVER, 800]], [-9, -1, -2], 2)
RUNS = {"weight": np.full(3, 0.5), "step_size": np.ones(3), "seed": np.arange(3)}
LEFT, RIGHT = 1, 2
CORRIDOR = Walk(
    next_state=np.array([[0, 1], [0, 2], [2, 2]]),
    reward=np.array([[-1.0, -1.0], [-1.0, -1.0], [0.0, 0.0]]),
    terminal=np.array([False, False, True]),
    start=0,
    step_limit=5,
)


def reference(world, potential, weight, step_size, seed, steps, every, discount=0.99, epsilon=0.05):
    """Tabular Q-learning as a plain loop: action values, greedy returns and visits."""
    f = np.float32
    q, start = np.zeros((world.n_states, 4), f), int(world.start.argmax())
    state, taken, visits, returns = start, 0, 0, []
    for evaluation in range(steps // every):
        random = np.asarray(draw(jnp.uint32(seed), jnp.uint32(2 * evaluation), every))
        for explore, choice, _, _ in random.T:
            action = int(choice * 4) if explore < f(epsilon) else int(q[state].argmax())
            following = int(world.next_state[state, action])
            terminal = world.terminal[following]
            shaping = float(f(discount)) * potential[following] - potential[state]
            shaped = f((1 - weight) * world.reward[state] + weight * shaping)
            target = shaped + f(discount) * (f(0) if terminal else q[following].max())
            q[state, action] = (1 - f(step_size)) * q[state, action] + f(step_size) * target
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


def test_agrees_with_a_plain_loop_step_for_step():
    """Whatever the other runs are, whose weights, step sizes, seeds and potentials differ."""
    world, done, scale = WINDY, [], np.arange(1, 7)[:, None]
    arrays = {"weight": np.repeat([0.0, 0.5, 1.0], 2), "step_size": np.tile([0.3, 1.0], 3),
              "seed": np.array([0, 1, 5, 7, 8, 8]),
              "potential": scale * np.linspace(-3, 0, world.n_states)}  # fmt: skip
    training = Training(world.step_limit, world.low_reward, steps=2600)
    runs = q_learning(world.mdp, training, **arrays, progress=done.append, threads=2)
    assert done == [13, 26]
    for run in range(6):
        one = {name: part[run] for name, part in arrays.items()}
        q, returns, visits = reference(world, **one, steps=2600, every=100)
        np.testing.assert_array_equal(runs.q[run], q)
        np.testing.assert_array_equal(runs.returns[run], returns)
        assert runs.low_reward_visits[run] == visits


def test_stochastic_worlds_and_many_starts():
    """A slippery chain that starts in 0 or 1 and ends in 2; the first action hardly moves."""
    onward = [[0.2, 0.8, 0], [0, 0.2, 0.8], [0, 0, 0]]
    hardly = [[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 0]]
    mdp = MDP.from_arrays([hardly, onward], [-1, -1, 0], [2], start=[0.5, 0.5, 0])
    arrays = {"weight": np.zeros(2), "step_size": np.full(2, 0.1), "seed": np.arange(2)}
    training = Training(50, steps=20_000, epsilon=0.2)
    runs = q_learning(mdp, training, potential=np.zeros((2, 3)), **arrays)
    # By hand: a step onward succeeds with probability 0.8 and takes 1.25 steps on average.
    np.testing.assert_allclose(optimal_values(mdp), [-2.5, -1.25, 0])
    assert (runs.q[:, :2].argmax(axis=2) == 1).all()
    assert runs.returns[:, 100:].mean() == pytest.approx(-1.875, abs=0.15)
    np.testing.assert_allclose(np.unique(runs.best_return), [-2.5, -1.25])


def test_steps_and_values_by_hand():
    returns = np.array([[-9.0, -5, -9, -5, -5], [-5, -5, -5, -5, -5], [-5, -5, -5, -5, -6]])
    arrived = np.ones((3, 5), bool)
    rest = (np.full((3, 5), -5.0), 100, np.zeros(3, int), np.zeros((3, 1, 1)))
    assert Runs(returns, arrived, *rest).steps_to_optimal.tolist() == [400, 100, np.inf]
    arrived[1, 2] = False
    assert Runs(returns, arrived, *rest).steps_to_optimal.tolist() == [400, 400, np.inf]
    # The short way costs 22 and the long one 5; two ways of 2 steps are equally good.
    world = GridWorld.parse("#####\n#SxG#\n#...#\n#####\n")
    assert fewest_steps(world.mdp)[world.start > 0] == 4
    mdp = MDP.from_arrays([[[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 0]]], [-1, -1, 0], [2], start=0)
    np.testing.assert_array_equal(fewest_steps(mdp), [2, 1, 0])
    mdp = GridWorld.parse("######\n#S..G#\n######").mdp
    np.testing.assert_allclose(optimal_values(mdp, 0.5), [-1.75, -1.5, -1, 0])


def test_compare_gives_every_setting():
    phis = {"none": None, "flat": np.zeros((2, WINDY.n_states))}
    grids = compare(WINDY.mdp, phis, Training(40, steps=1000), seeds=2)
    assert (grids["none"].returns.shape, grids["flat"].returns.shape) == ((3, 2, 10), (12, 2, 10))
    # A flat potential with weight w only scales the reward: with step size 1, the same greedy runs.
    plain = grids["none"].returns[grids["none"].step_size == 1.0]
    half = grids["flat"].returns[(grids["flat"].step_size == 1.0) & (grids["flat"].weight == 0.5)]
    np.testing.assert_array_equal(plain, half)


@pytest.mark.parametrize(("steps", "before", "chosen"), [FIRST, MOST, HIGHEST])
def test_the_setting_that_is_reported(steps, before, chosen):
    """The first to be optimal with all seeds, or with most of them, or with the highest return."""
    reached = 100 * np.arange(1, 11) >= np.array(steps)[:, :, None]
    returns = np.where(reached, 0.0, np.array(before)[:, None, None])
    rest = (np.zeros_like(returns), 100, np.zeros((3, 2), int), np.zeros((3, 2, 1, 1)))
    ones = {"weight": np.ones(3), "step_size": np.ones(3)}
    grid = Grid(returns, np.ones(returns.shape, bool), *rest, **ones)
    np.testing.assert_array_equal(grid.steps_to_optimal, steps)
    assert grid.chosen == chosen


def test_wrong_use(unchecked):
    mdp, one = WINDY.mdp, np.ones(1)
    arrays = {"weight": one, "step_size": one, "seed": np.zeros(1, int)}
    arrays["potential"] = np.zeros((1, WINDY.n_states))
    wrong = {"weight": 1.5, "step_size": 0.0, "potential": np.nan, "seed": 2**32}
    for name, value in wrong.items():
        with raises(ArgumentError, name):
            q_learning(mdp, Training(40), **{**arrays, name: np.full(arrays[name].shape, value)})
    wrong = {"steps": 150, "epsilon": 2.0, "discount": -1.0, "step_limit": 10**400}
    for name, value in wrong.items():
        refused(ArgumentError, name, Training, **{"step_limit": 40, name: value})
    training = Training(40, low_reward=np.zeros(WINDY.n_states))
    refused(ArgumentError, "low_reward", q_learning, mdp, training, **arrays)
    refused(ArgumentError, "discount", optimal_values, mdp, 1.5)
    for name, value in {"map": "magic", "map_every": 7, "lam": 0.0, "sweeps": -1}.items():
        refused(ArgumentError, name, run_one_stage, SMALL, steps=100, **{name: value})


def run_one_stage(world, steps, keep_maps=False, **settings):
    training = Training(world.step_limit, world.low_reward, steps, every=50)
    return one_stage(world.mdp, training, MapSettings(**settings), keep_maps=keep_maps, **RUNS)


@pytest.mark.slow
def test_without_a_map_and_a_replay_one_stage_is_q_learning():
    training = Training(SMALL.step_limit, SMALL.low_reward, steps=1000, every=50)
    unshaped = {**RUNS, "potential": np.zeros((3, SMALL.n_states)), "weight": np.zeros(3)}
    plain = q_learning(SMALL.mdp, training, **unshaped)
    ours = run_one_stage(SMALL, map="none", sweeps=0, steps=1000)
    for name in ("q", "returns", "low_reward_visits"):
        assert np.array_equal(getattr(ours, name), getattr(plain, name))


@pytest.mark.parametrize("how", ["solve", "backups"])
def test_a_map_of_its_own_steps(how):
    """It finds the best return and becomes the column. Without optimism, there is none before a
    terminal state."""
    runs = run_one_stage(SMALL, map=how, steps=1500, sweeps=5)
    assert np.isfinite(runs.steps_to_optimal).all()
    assert (runs.tried[:, -1] > 0.9).all()
    everything = runs.tried[:, -1] == 1
    assert everything.any()
    assert (runs.cosine[everything, -1] > 0.9999).all()
    short = {"optimism": None, "steps": 100, "keep_maps": True}
    runs = run_one_stage(GridWorld.load("four-rooms"), map=how, **short)
    assert not runs.solved.any()
    assert np.nanmax(np.abs(runs.maps)) == 0


def test_potentials_of_all_methods():
    world = GridWorld.load("four-rooms")
    learned = {"DR one-hot": np.stack([exact.log_column(world.mdp, lam) for lam in (20.0, 10.0)])}
    phis = shaping_experiment.potentials(world, learned, seeds=3, lam=20.0, discount=0.99)
    assert list(phis) == ["none", "SR", "SR distance", "DR exact", "DR one-hot"]
    assert phis["none"] is None
    for name in list(phis)[1:]:
        assert phis[name].shape == (3, 104)
        np.testing.assert_allclose(mean_step(phis[name], world.mdp.neighbours), 1)
        assert (phis[name].argmax(axis=1) == world.terminal.argmax()).all()
    np.testing.assert_allclose(phis["DR one-hot"][0], phis["DR exact"][0], rtol=1e-12)
    np.testing.assert_array_equal(phis["DR one-hot"][2], phis["DR one-hot"][0])
    options = {"lam": 20.0, "discount": 0.99, "terminal": "zero"}
    zero = shaping_experiment.potentials(world, {}, seeds=1, **options)
    assert (zero["SR"][:, world.terminal] == 0).all()
    assert (phis["SR"][:, world.terminal] != 0).all()
    # Two states and a terminal one in a row, moves left and right: the SR in plain NumPy.
    world = GridWorld.parse("#####\n#S.G#\n#####")
    P = np.array([[3, 1, 0], [1, 2, 1], [0, 0, 0]]) / 4
    sr = np.linalg.inv(np.eye(3) - 0.99 * P)
    values, vectors = np.linalg.eigh((sr + sr.T) / 2)
    e = np.abs(vectors[:, values.argmax()])
    potential = shaping_experiment.successor_potential(world.mdp)
    np.testing.assert_allclose(potential, -e, rtol=1e-9)
    distance = shaping_experiment.successor_distance(world.mdp)
    np.testing.assert_allclose(distance, -((e - e[2]) ** 2), rtol=1e-9)
    assert potential.argmax() == 2


@pytest.mark.slow
def test_shaping_helps_and_avoids_the_costly_cells(optimised):
    """A short run of the paper's question: exact DR against SR and nothing, in four-rooms."""
    world = GridWorld.load("four-rooms")
    phis = shaping_experiment.potentials(world, {}, seeds=4, lam=20.0, discount=0.99)
    training = Training(world.step_limit, world.low_reward, steps=20_000)
    rows = shaping_experiment.summarise(compare(world.mdp, phis, training, seeds=4))
    exactly, successor, none = (rows[name] for name in ("DR exact", "SR", "none"))
    steps = [row.steps_to_optimal.mean for row in (exactly, successor, none)]
    assert steps[0] < steps[1] < steps[2]
    assert exactly.low_reward_visits.mean < successor.low_reward_visits.mean
    assert exactly.apart["steps_to_optimal"]
    assert not successor.apart["steps_to_optimal"]


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
    arrays = {"weight": np.zeros(8), "step_size": np.repeat([0.3, 1.0], 4), "seed": np.arange(8)}
    runs = q_learning(world.mdp, training, potential=np.zeros((8, world.n_states)), **arrays)
    different = runs.returns != runs.returns[:, -1:]
    expected = [np.flatnonzero(row)[-1] + 2 for row in different]  # row k is after step k + 1
    away = np.abs(runs.until_final - expected)
    # With a step size of 1 there are ties, which are broken by other random numbers.
    assert (away[:4].max(), away.max() <= 2) == (0, True)
    arrived = runs.arrived[:, -1]
    assert (runs.steps_to_optimal[arrived] == runs.until_final[arrived]).all()
    refused(ArgumentError, "mdp", Walk.of, GridWorld.load("four-rooms-multigoal").mdp, 10)
