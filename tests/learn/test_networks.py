"""The paper's layers, two ways to compute one convolution, and networks of a state and a goal."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from drogo import Column, Drogo, GridWorld, Paper
from drogo.errors import ArgumentError
from drogo.learn import CNN, MLP, PairMLP, Quasimetric, Table, convolution
from drogo.learn.architectures import build_network
from drogo.learn.networks import DenseNetwork, Inputs, Pairs, dense, union_length
from raising import raises
from small_data import WORLD, data_of

KEY = jax.random.key(0)


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
    """By the accelerator's own convolution, by matrix products of patches, and with each distinct
    piece of a table computed once: the same values, the same gradient."""
    world = GridWorld.load("grid-task").observations("pixels")[::7].astype(np.float32)
    images = world if shape is None else np.float32(np.random.default_rng(0).random((3, *shape, 2)))
    make = partial(convolution.ConvolutionalNetwork, images.shape[1:], KEY)
    ways = [make(by_patches=flag) for flag in (False, True)]
    windows = ways[1].of_table(images)
    assert shape is not None or windows.patches.shape[1] < images[..., 0].size / 8
    weights = jax.random.normal(KEY, (len(images),))

    @eqx.filter_jit
    def value_and_slope(network, features):
        def loss(network):
            values = network.values(features)
            return weights @ values, values

        return eqx.filter_grad(loss, has_aux=True)(network)

    tables = (*(network.features(jnp.asarray(images)) for network in ways), windows)
    results = [value_and_slope(*pair) for pair in zip((*ways, ways[1]), tables, strict=True)]
    for other in results[1:]:
        for one, two in zip(*map(jax.tree.leaves, (results[0], other)), strict=True):
            assert np.allclose(one, two, atol=1e-4)


def test_a_convolution_by_hand():
    """All weights 1, no bias: each place sums its neighbourhood, with 0 outside the image."""
    random = convolution.Convolution(1, 1, KEY)
    ones = eqx.tree_at(lambda c: (c.weight, c.bias), random, (jnp.ones((3, 3, 1, 1)), jnp.zeros(1)))
    out = ones.of_images(jnp.ones((3, 4, 1, 1)))
    assert np.allclose(out[:, :, 0, 0], [[4, 6, 6, 4], [6, 9, 9, 6], [4, 6, 6, 4]])
    patches = jnp.arange(18.0).reshape(2, 9)
    assert ones.of_patches(patches).ravel().tolist() == [36.0, 117.0]


def test_fourier_features_by_hand():
    features = DenseNetwork(1, 2, KEY).features(jnp.array([[0.25]]))[0]
    assert np.allclose(features, [0.25, np.sqrt(0.5), 1.0, np.sqrt(0.5), 0.0], atol=1e-6)


def layer_of(weight, bias):
    random = eqx.nn.Linear(*weight.shape[::-1], key=KEY)
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
        for method in (Drogo(), Paper()):
            assert isinstance(Column().network(data_of(WORLD, kind, 500), method), network)
    for build, *rest in ((built, CNN()), (built, Quasimetric(), 4), (Table().inputs,)):
        with raises(ArgumentError, "network"):
            build(*rest[:1], np.zeros((3, 2), np.float32), *rest[1:])


# Networks of a state and a goal


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


def test_a_quasimetric_by_hand():
    """Components [2, 3] + [0, 1] = 2 and [1, 1] + [1, 4] = 3. Half of the largest and half of the
    mean are 2.75. Back: [3, 3] + [1, 1] = 0 and [0, 1] + [4, 4] = 1, so 0.75."""
    network = built(Quasimetric(4, 1, 0, components=2, length=2), np.zeros((2, 4), np.float32))
    identity = layer_of(jnp.eye(4), jnp.zeros(4))
    network = eqx.tree_at(lambda network: network.layers, network, (identity,))
    table = jnp.array([[2.0, 0.0, 1.0, 1.0], [3.0, 1.0, 0.0, 4.0]])
    np.testing.assert_allclose(all_pairs(network, table), [[0, -2.75], [-0.75, 0]], atol=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=30)
def test_a_quasimetric_for_all_parameters(seed, size):
    rng = np.random.default_rng(seed)

    def random(leaf):
        if not eqx.is_inexact_array(leaf):
            return leaf
        return jnp.asarray(size * rng.normal(size=leaf.shape), dtype=leaf.dtype)

    example = np.zeros((3, 3), np.float32)
    network = jax.tree.map(random, built(Quasimetric(16, 1, 2, 3, 5), example))
    v = np.asarray(all_pairs(network, rng.normal(size=(9, 3)).astype(np.float32)), dtype=float)
    assert (np.diag(v) == 0).all()
    assert (v <= 0).all()
    assert (v[:, None, :] >= v[:, :, None] + v[None, :, :] - 1e-5 * np.abs(v).max()).all()


def test_pairs_from_tables_and_side_by_side():
    features = jax.random.normal(KEY, (7, 3))
    state, goal = jnp.array([0, 4, 6, 2]), jnp.array([5, 5, 1, 2])
    example = np.zeros((3, 3), np.float32)
    assert (all_pairs(built(PairMLP(16, 1, negative=True), example), features) < 0).all()
    for architecture in (PairMLP(16, 1, 0), Quasimetric(16, 1, 0, 3, 4)):
        values = eqx.filter_jit(built(architecture, example).values)
        from_tables = values(Pairs(features, features, state, goal))
        side_by_side = values(Pairs(features[state], features[goal]))
        np.testing.assert_allclose(from_tables, side_by_side, atol=1e-6)
