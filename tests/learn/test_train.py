"""The training program: both ways to evaluate a batch, and lanes that do not disturb each other."""

from dataclasses import replace

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import GridWorld, collect
from drogo.learn import Config, batches, networks, train
from drogo.learn.plan import make_plan
from drogo.learn.problem import cap_from_data, make_problem
from drogo.learn.train import Batch, Hyper

WORLD = GridWorld.parse("#######\n#S..x.#\n#.#...#\n#...xG#\n#######")
HYPER = Hyper(jnp.float32(1e-3), jnp.float32(0.7), jnp.float32(np.inf))


def data_of(kind):
    env = gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation=kind)
    return collect(env, 3000, seed=0)


@pytest.mark.parametrize("kind", ["coordinates", "pixels"])
def test_rows_of_a_table_equal_their_observations(kind):
    """Features made once for all images, or anew for those of a batch."""
    data = data_of(kind)
    network = networks.build(
        networks.choose(data.observations), data.observations, 2, 0.5, jax.random.key(0)
    )
    rows = jnp.array([3, 0, 3, 7])
    some = network.values(network.some(network.of_table(data.observations), rows))
    assert jnp.allclose(some, network(jnp.asarray(data.observations[np.asarray(rows)])), atol=1e-6)


OBJECTIVES = ("gdo", "log_gdo", "natural_gdo", "drogo")
CASES = [
    *(("coordinates", objective, False) for objective in OBJECTIVES),
    *(("state", objective, True) for objective in OBJECTIVES),
    ("pixels", "drogo", True),
    ("pixels", "gdo", False),
]


@pytest.mark.parametrize(("kind", "objective", "target"), CASES)
def test_table_and_samples_give_the_same_gradient(kind, objective, target):
    """Once per distinct observation, or once per sample of the batch: one sum."""
    config = Config(objective=objective)
    data = data_of(kind).with_absorbing_terminals(0.001)
    make = lambda seed: networks.build(  # noqa: E731
        networks.choose(data.observations), data.observations, 2, 0.5, jax.random.key(seed)
    )
    network, other = make(0), make(1)
    epochs = batches.Epochs(len(data), 200)
    first, second = (batches.draw_indices(epochs, [3], 0, 1, stream)[0, 0] for stream in (0, 1))
    even = jnp.full(200, 1 / 200)
    by_sample = Batch(jnp.asarray(first), even, jnp.asarray(second), even)
    weights = [
        jnp.asarray(batches.draw_weights(epochs, data, [3], 0, 1, stream)[0, 0])
        for stream in (0, 1)
    ]
    by_table = Batch(None, weights[0], None, weights[1])
    params, static = eqx.partition(network, eqx.is_array)

    def gradient(batch, whole):
        plan = replace(make_plan(data, config), whole=whole)
        problem = make_problem(data, config, plan)
        features = network.features(problem.observations) if whole else None

        def loss(params):
            net = eqx.combine(params, static)
            there = other if target else net
            return train.batch_loss(config, net, there, problem, batch, HYPER, features)

        return jax.tree.leaves(jax.jit(jax.grad(loss))(params))

    for a, b in zip(gradient(by_sample, False), gradient(by_table, True), strict=True):
        assert np.allclose(a, b, rtol=2e-4, atol=2e-6)


def test_an_epoch_is_one_pass_and_a_seed_has_its_own():
    epochs = batches.Epochs(100, 10)
    taken = batches.draw_indices(epochs, [0, 1], 0, 10, 0)
    assert taken.shape == (10, 2, 10)
    for k in range(2):
        assert sorted(taken[:, k].ravel()) == list(range(100))
    assert not np.array_equal(taken[:, 0], taken[:, 1])
    assert not np.array_equal(taken, batches.draw_indices(epochs, [0, 1], 0, 10, 1))


def test_batches_depend_on_the_update_alone():
    epochs = batches.Epochs(105, 10)
    whole = batches.draw_indices(epochs, [4], 0, 37, 0)
    pieces = [
        batches.draw_indices(epochs, [4], a, b - a, 0) for a, b in ((0, 7), (7, 30), (30, 37))
    ]
    assert np.array_equal(whole, np.concatenate(pieces))


def test_weights_count_the_same_batches():
    data = data_of("state")
    epochs = batches.Epochs(len(data), 100)
    rows = batches.draw_indices(epochs, [2], 5, 3, 0)[:, 0]
    weights = batches.draw_weights(epochs, data, [2], 5, 3, 0)[:, 0]
    for drawn, shares in zip(rows, weights, strict=True):
        counted = np.bincount(data.edges.of_transition[drawn], minlength=shares.size)
        assert np.allclose(shares, counted / 100)


def test_cap_from_data_is_above_the_solution():
    from drogo import exact

    data = data_of("state")
    v = exact.log_column(WORLD.mdp, 20.0)
    edges = data.edges
    cap = cap_from_data(edges.state, -edges.reward / 20.0, edges.count)
    assert (v[edges.next_state] - v[edges.state]).max() < cap < 6


def test_emphasis_by_hand():
    """Two states: one violated by 0.4 (seen three times in four), one by 0.1."""
    data = data_of("state")
    problem = make_problem(data, Config(), make_plan(data, Config()))._replace(
        observations=jnp.zeros(2), state=jnp.array([0, 0, 1])
    )
    weights = jnp.array([0.5, 0.25, 0.25])
    slopes = jnp.array([0.5, 0.2, -0.1])  # of state 0: (0.5 * 0.5 + 0.25 * 0.2) / 0.75 = 0.4
    mean = 0.75 * 0.4 + 0.25 * 0.1
    expected = np.array([0.5, 0.25, 0.25]) * np.sqrt(np.array([0.4, 0.4, 0.1]) / mean)
    found = train.emphasised(weights, slopes, problem, 0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("full", "changes"), [(True, True), (False, False)])
def test_emphasis_is_for_whole_batches(full, changes):
    """On a sample the violation would be a noisy guess, and its weights would bend the solution."""
    data = data_of("state")
    network = networks.build("table", data.observations, 0, 0.0, jax.random.key(0))
    share = jnp.asarray(data.edges.count / len(data), dtype=jnp.float32)
    batch = Batch(None, share, None, share)

    def gradient(emphasis):
        config = Config(full_batches=full, emphasis=emphasis)
        problem = make_problem(data, config, make_plan(data, config))
        features = network.features(problem.observations)
        loss = lambda net: train.batch_loss(config, net, net, problem, batch, HYPER, features)  # noqa: E731
        return jax.tree.leaves(eqx.filter_grad(loss)(network))[0]

    assert (not np.allclose(gradient(0.0), gradient(0.5))) == changes


def test_ends_have_their_place_in_every_batch():
    """A tenth of each batch, with weights that undo it."""
    over = np.zeros(1000, dtype=bool)
    over[[5, 500, 999]] = True
    assert [group.taken for group in batches.make_groups(over, 20, 0.0)] == [20]
    groups = batches.make_groups(over, 20, 0.1)
    rows = batches.draw_rows(groups, [0, 1], 0, 300, batches.FIRST)
    weights = batches.weights_of(groups)
    assert rows.shape == (300, 2, 20)
    assert np.array_equal(over[rows].sum(axis=-1), np.full((300, 2), 2))
    assert weights.sum() == pytest.approx(1.0)
    often = np.zeros(1000)
    np.add.at(often, rows[:, 0], np.broadcast_to(weights, (300, 20)) / 300)
    assert often[over].sum() == pytest.approx(0.003, rel=1e-5)
    assert often[~over].sum() == pytest.approx(0.997, rel=1e-5)
    assert [group.taken for group in batches.make_groups(over, 200, 0.1)] == [197, 3]
    everything = batches.make_groups(np.ones(50, dtype=bool), 20, 0.1)
    assert [group.taken for group in everything] == [20]
