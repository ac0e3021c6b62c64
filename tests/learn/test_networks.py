"""The paper's layers, convolutions, networks of a state and a goal, and their inputs."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import drogo
from drogo import Column, Drogo, Regression, Transitions, fit, load
from drogo.errors import ArgumentError, DataError
from drogo.exact.columns import solve_edges
from drogo.learn import CNN, MLP, Optimiser, PairMLP, Quasimetric, Table, batches, convolution
from drogo.learn.architectures import build_network
from drogo.learn.networks import DenseNetwork, Inputs, Pairs, dense, fit_inputs, union_length
from raising import refused
from small_data import SMALL, WORLD, data_of, line

KEY = jax.random.key(0)
N = 6
FAR = 1e8 + np.arange(N, dtype=np.float64)[:, None]
FEW = Drogo(updates=20, batch_size=100, action_values=False)


def built(architecture, table, outputs="scalar"):
    return build_network(architecture, table, Inputs(), outputs, KEY)


def test_the_papers_layers():
    def shapes(layers):
        return [layer.weight.shape for layer in layers]

    mlp = built(MLP(frequencies=0), np.zeros((3, 2), np.float32))
    assert shapes(mlp.layers) == [(128, 2), (128, 128), (128, 128), (128, 128), (1, 128)]
    size = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(mlp, eqx.is_array)))
    assert size == 3 * 128 + 3 * (128 * 128 + 128) + 129
    cnn = built(CNN(), np.zeros((3, 13, 13, 3), np.float32))
    assert shapes(cnn.convolutions) == [(3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 64)]
    assert shapes(cnn.layers) == [(128, 3 * 3 * 64), (1, 128)]  # 13 -> 6 -> 3
    many = np.zeros((3, 17), np.float32)  # numbers that are no coordinates have no features
    assert shapes(built(MLP(width=8, depth=1), many, 4).layers) == [(8, 17), (4, 8)]


@pytest.mark.parametrize("shape", [(4, 4), (5, 9), (7, 10), None])
def test_three_ways_to_convolve(shape):
    """By `lax.conv`, by patches, and by each distinct piece once: the same values and gradient."""
    world = drogo.GridWorld.load("grid-task").observations("pixels")[::7].astype(np.float32)
    images = world if shape is None else np.float32(np.random.default_rng(0).random((3, *shape, 2)))
    make = partial(convolution.ConvolutionalNetwork, images.shape[1:], KEY)
    ways = [make(by_patches=flag) for flag in (False, True)]
    windows = ways[1].of_table(images)
    assert shape is not None or windows.patches.shape[1] < images[..., 0].size / 8
    weights = jax.random.normal(KEY, (len(images),))

    def loss(network, features):
        values = network.values(features)
        return weights @ values, values

    value_and_slope = eqx.filter_jit(eqx.filter_grad(loss, has_aux=True))
    tables = (*(network.features(jnp.asarray(images)) for network in ways), windows)
    results = [value_and_slope(*pair) for pair in zip((*ways, ways[1]), tables, strict=True)]
    for other in results[1:]:
        for one, two in zip(*map(jax.tree.leaves, (results[0], other)), strict=True):
            assert np.allclose(one, two, atol=1e-4)


def test_convolutions_and_fourier_features_by_hand():
    """All weights 1, no bias: each place sums its neighbourhood, with 0 outside the image."""
    ones = layer_of(jnp.ones((3, 3, 1, 1)), jnp.zeros(1), convolution.Convolution(1, 1, KEY))
    out = ones.of_images(jnp.ones((3, 4, 1, 1)))
    assert np.allclose(out[:, :, 0, 0], [[4, 6, 6, 4], [6, 9, 9, 6], [4, 6, 6, 4]])
    assert ones.of_patches(jnp.arange(18.0).reshape(2, 9)).ravel().tolist() == [36.0, 117.0]
    features = DenseNetwork(1, 2, KEY).features(jnp.array([[0.25]]))[0]
    assert np.allclose(features, [0.25, np.sqrt(0.5), 1.0, np.sqrt(0.5), 0.0], atol=1e-6)


def layer_of(weight, bias, random=None):
    random = random or eqx.nn.Linear(*weight.shape[::-1], key=KEY)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), random, (weight, bias))


@pytest.mark.parametrize("array", [np.array, jnp.array])
def test_units_with_a_leak_by_hand(array):
    weights, biases = ([[2.0], [-1.0]], [[3.0, 10.0]]), ([1.0, 0.0], [0.5])  # 2 x + 1 and -x
    layers = list(map(layer_of, map(array, weights), map(array, biases)))
    x = array([[-2.0], [1.0]])  # -3 and 2, of which the first is off; 3 and -1
    assert np.allclose(dense(layers, x), [[20.5], [9.5]])
    assert np.allclose(dense(layers, x, 0.1), [[20.5 - 0.9], [9.5 - 1.0]])


def test_networks_that_suit_observations_and_do_not():
    suits = {"state": Table, "one-hot": MLP, "coordinates": MLP, "pixels": CNN}
    for kind, network in suits.items():
        for method in (Drogo(), drogo.Paper()):
            assert isinstance(Column().network(data_of(WORLD, kind, 500), method), network)
    for build, *rest in ((built, CNN()), (built, Quasimetric(), 4), (Table().inputs,)):
        refused(ArgumentError, "network", build, *rest[:1], np.zeros((3, 2), np.float32), *rest[1:])


def union_by_hand(left, right):
    """The length of the union of the intervals [x, max(x, y)], point by point."""
    points = np.unique(np.concatenate([left, right]))
    middle = (points[1:] + points[:-1]) / 2
    inside = (middle[:, None] > left) & (middle[:, None] < np.maximum(left, right))
    return (np.diff(points) * inside.any(axis=1)).sum()


@pytest.mark.parametrize("length", [1, 2, 7])
def test_unions_of_many_intervals(length):
    rng = np.random.default_rng(length)
    left, right = rng.integers(-8, 9, (2, 200, length)).astype(np.float32)
    in_order = jnp.asarray(np.take_along_axis(right, left.argsort(axis=1), 1))
    by_hand = [union_by_hand(*pair) for pair in zip(left, right, strict=True)]
    np.testing.assert_array_equal(union_length(jnp.sort(left, axis=1), in_order), by_hand)
    assert union_by_hand(np.array([0.0, 1, 2]), np.array([1.5, 0.5, 3])) == 2.5  # [0, 1.5], [2, 3]


@eqx.filter_jit
def all_pairs(network, inputs):
    features, n = network.features(inputs), len(inputs)
    state, goal = jnp.divmod(jnp.arange(n * n), n)
    return network.values(Pairs(features, features, state, goal)).reshape(n, n)


def test_a_quasimetric_by_hand_and_pairs_side_by_side():
    """Components [2, 3] + [0, 1] = 2 and [1, 1] + [1, 4] = 3. Half of the largest and half of the
    mean are 2.75. Back: [3, 3] + [1, 1] = 0 and [0, 1] + [4, 4] = 1, so 0.75."""
    network = built(Quasimetric(4, 1, 0, components=2, length=2), np.zeros((2, 4), np.float32))
    identity = layer_of(jnp.eye(4), jnp.zeros(4))
    network = eqx.tree_at(lambda network: network.layers, network, (identity,))
    table = jnp.array([[2.0, 0.0, 1.0, 1.0], [3.0, 1.0, 0.0, 4.0]])
    np.testing.assert_allclose(all_pairs(network, table), [[0, -2.75], [-0.75, 0]], atol=1e-6)
    features, example = jax.random.normal(KEY, (7, 3)), np.zeros((3, 3), np.float32)
    state, goal = jnp.array([0, 4, 6, 2]), jnp.array([5, 5, 1, 2])
    assert (all_pairs(built(PairMLP(16, 1, negative=True), example), features) < 0).all()
    for architecture in (PairMLP(16, 1, 0), Quasimetric(16, 1, 0, 3, 4)):
        values = eqx.filter_jit(built(architecture, example).values)
        from_tables = values(Pairs(features, features, state, goal))
        side_by_side = values(Pairs(features[state], features[goal]))
        np.testing.assert_allclose(from_tables, side_by_side, atol=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=30)
def test_a_quasimetric_for_all_parameters(seed, size):
    rng, example = np.random.default_rng(seed), np.zeros((3, 3), np.float32)
    params, rest = eqx.partition(built(Quasimetric(16, 1, 2, 3, 5), example), eqx.is_inexact_array)
    random = jax.tree.map(lambda part: jnp.float32(size * rng.normal(size=part.shape)), params)
    network = eqx.combine(random, rest)
    v = np.asarray(all_pairs(network, rng.normal(size=(9, 3)).astype(np.float32)), dtype=float)
    assert (np.diag(v) == 0).all()
    assert (v <= 0).all()
    assert (v[:, None, :] >= v[:, :, None] + v[None, :, :] - 1e-5 * np.abs(v).max()).all()


def walk(observations):
    """A random walk along a line whose last place is terminal, at a cost of 1 per step."""
    state = np.tile(np.arange(N - 1), 2)
    after = np.clip(state + np.repeat([-1, 1], N - 1), 0, N - 1)
    return Transitions.from_table(observations, state, after, -np.ones(state.size), after == N - 1)


@pytest.mark.parametrize("streamed", [False, True])
def test_far_coordinates_are_distinguished(monkeypatch, streamed):
    """In single precision 1e8 + k is the same number for k up to 3. Streamed data are read batch by
    batch, and a solution keeps a single observation of them."""
    if streamed:
        monkeypatch.setattr(batches, "BYTES_ON_DEVICE", 0)
        monkeypatch.setattr(batches, "BYTES_IN_RESULT", 0)
    truth = solve_edges(walk(FAR).edges, 20.0)
    optimiser = Optimiser(step_size=3e-3)
    result = fit(walk(FAR), Column(), Drogo(updates=1200), network=MLP(32), optimiser=optimiser)
    assert np.abs(result(FAR)[0] - truth)[:-1].max() < 0.02
    potential = result.potential()
    assert potential.at(FAR[2]) == pytest.approx(potential(FAR[2:3])[0])
    if not streamed:
        assert np.allclose(result(FAR), result.v, atol=1e-5)
        refused(ArgumentError, None, result.value_fn)


def test_inputs_are_normalised_or_not_and_prepared_and_finished():
    refused(DataError, None, fit, walk(FAR), Column(), Drogo(), network=MLP(normalise=False))
    assert fit_inputs(FAR / 1e8 * np.arange(N)[:, None], normalise=False) == Inputs()
    coordinates = np.linspace(-0.5, 0.5, 10, dtype=np.float32)[:, None]
    tiny = np.array([[0.0, 0.9], [0.01, -0.9]], dtype=np.float32)
    for table in (np.eye(5, dtype=np.float32), coordinates, tiny):
        assert (fit_inputs(table, normalise=True).shift is None) == (table is not tiny)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (7, 3, 3, 1)).astype(np.uint8)
    for table, by_pixel in ((images, True), (images, False), (rng.normal(5, 1, (9, 2)), False)):
        inputs = fit_inputs(table, normalise=True, by_pixel=by_pixel)
        finished = inputs.finish(jnp.asarray(inputs.prepare(table)))
        assert np.allclose(finished, inputs(table), atol=1e-6)
    # A table whose features were computed beforehand leaves no row for the device.
    inputs = fit_inputs(rng.normal(size=(7, 3, 3, 1)), normalise=True, by_pixel=True)
    assert inputs.prepare(np.zeros((0, 3, 3, 1))).shape == (0, 9)


@pytest.mark.parametrize("first", [-2, 10**12])
def test_state_numbers_may_be_negative_or_huge(first, tmp_path):
    left = np.tile(first + np.arange(4), 4)
    data = Transitions.from_arrays(left, left + 1, -np.ones(16), left == first + 3)
    result, states = fit(data, Column(2.0), Regression(updates=300)), first + np.arange(5)
    expected = pytest.approx(-np.arange(4, -1, -1) / 2, abs=0.01)  # every step costs 1
    result.save(tmp_path / "fit.npz")
    assert (result.v[0], result.status) == (expected, ("converged",))
    assert load(tmp_path / "fit.npz")(states)[0] == expected
    assert result.potential(normalised=False).at(states[0]) == pytest.approx(-2.0, abs=0.01)
    refused(DataError, None, result, states + 7)
    if first > 0:  # JAX without double precision has no such numbers
        refused(ArgumentError, None, result.value_fn)
        return
    assert np.isnan(result.value_fn()(jnp.array([first + 7]))).all()
    assert result.value_fn()(jnp.asarray(states)) == expected


def test_pixels_that_never_change_are_left_out(tmp_path):
    small = np.array([[[[9], [0]]], [[[9], [40]]], [[[9], [200]]]], dtype=np.uint8)
    inputs = fit_inputs(small, normalise=True, by_pixel=True)
    assert (float(inputs.shift[0]), int(inputs.chosen[0])) == (80.0, 1)
    assert float(inputs.scale[0]) == pytest.approx(1 / 200)
    assert np.allclose(inputs(small), [[-0.4], [-0.2], [0.6]])
    assert fit_inputs(small[:1], normalise=True, by_pixel=True).chosen is None
    images = np.zeros((40, 20, 30, 3), dtype=np.uint8)
    images[np.arange(40), 5 + np.arange(40) % 5, 3 + np.arange(40) % 18] = 255
    left = np.repeat(np.arange(1, 40), 100)
    data = Transitions.from_table(images, left, left - 1, np.full(3900, -1.0), left == 1)
    result = fit(data, Column(), Drogo(updates=20, batch_size=1000), network=MLP())
    assert len(result.learner.inputs.chosen) == 3 * 40  # every image has a pixel of its own
    assert np.allclose(result(images)[:, 1:], result.v[:, 1:], atol=1e-5)
    assert np.allclose(result.value_fn()(jnp.asarray(images)), result.v[0], atol=1e-5)
    result.save(tmp_path / "fit.npz")
    assert np.array_equal(load(tmp_path / "fit.npz")(images), result(images))


def test_streamed_equals_gathered_and_a_sample_is_kept(monkeypatch, tmp_path):
    """The same batches, read from a file or gathered on the device: the same network."""
    data, path = line(2000), tmp_path / "o.bin"
    gathered = fit(data, Column(5.0), FEW, network=SMALL)
    data.observations.tofile(path)
    mapped = np.memmap(path, np.float32, mode="r", shape=data.observations.shape)
    monkeypatch.setattr(batches, "BYTES_ON_DEVICE", 1)
    monkeypatch.setattr(batches, "BYTES_PER_CHUNK", 20_000)
    streamed = fit(replace(data, observations=mapped), Column(5.0), FEW, network=SMALL)
    assert np.allclose(streamed.v, gathered.v, atol=1e-5)
    two_batches = drogo.NaturalGDO(updates=2)
    refused(ArgumentError, "method", fit, line(), Column(5.0), two_batches, network=SMALL)
    monkeypatch.undo()
    monkeypatch.setattr(batches, "BYTES_IN_RESULT", 400)
    result = fit(line(2000), Column(5.0), FEW, network=SMALL)
    assert len(result.observations) in (100, 101)
    assert f"{len(result.observations)} of " in result.notes[-1]
    assert result.v.shape == (1, len(result.observations))
    assert np.isfinite(result.potential()(line(2000).observations[:5])).all()
