"""The paper's layers, and two ways to compute one convolution."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import GridWorld
from drogo.config import Config
from drogo.learn import convolution, networks
from drogo.learn.build import build, choose
from drogo.learn.inputs import Inputs, fit_inputs

KEY = jax.random.key(0)


def size(module):
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(module, eqx.is_array)))


def test_mlp_has_the_papers_layers():
    mlp = networks.MLP(2, 0, KEY)
    assert [layer.weight.shape for layer in mlp.layers] == [
        (128, 2), (128, 128), (128, 128), (128, 128), (1, 128)
    ]  # fmt: skip
    assert size(mlp) == 3 * 128 + 3 * (128 * 128 + 128) + 129


def test_cnn_has_the_papers_layers():
    cnn = convolution.CNN((13, 13, 3), KEY)
    assert [c.weight.shape for c in cnn.convolutions] == [
        (3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 64)
    ]  # fmt: skip
    assert cnn.layers[0].weight.shape == (128, 3 * 3 * 64)  # 13 -> 6 -> 3


@pytest.mark.parametrize("shape", [(4, 4), (5, 9)])
def test_patches_equal_convolution(shape):
    images = jax.random.normal(KEY, (5, *shape, 3))
    fast = convolution.CNN((*shape, 3), KEY, by_patches=True)
    plain = convolution.CNN((*shape, 3), KEY, by_patches=False)
    assert np.allclose(eqx.filter_jit(fast)(images), eqx.filter_jit(plain)(images), atol=1e-5)
    slope = eqx.filter_jit(lambda network, i: jax.grad(lambda i: network(i).sum())(i))
    assert np.allclose(slope(fast, images), slope(plain, images), atol=1e-5)


@pytest.mark.parametrize("name", ["grid-task"])
def test_distinct_windows_equal_whole_images(name):
    """Each distinct piece of a table computed once: the same values, the same gradient."""
    images = GridWorld.load(name).observations("pixels")[::7]
    cnn = convolution.CNN(images.shape[1:], KEY, by_patches=True)
    windows = cnn.of_table(images)
    assert windows.patches.shape[1] < images[..., 0].size / 8
    params, static = eqx.partition(cnn, eqx.is_array)
    weights = jax.random.normal(KEY, (len(images),))

    def loss(params, features):
        return weights @ eqx.combine(params, static).values(features)

    whole = eqx.filter_jit(cnn.features)(jnp.asarray(images))
    values = eqx.filter_jit(cnn.values)
    assert np.allclose(values(windows), values(whole), atol=1e-5)
    slope = jax.jit(jax.grad(loss))
    gradients = [jax.tree.leaves(slope(params, f)) for f in (windows, whole)]
    for one, other in zip(*gradients, strict=True):
        assert np.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 4), (5, 9), (7, 10)])
def test_windows_of_any_size(shape):
    images = np.random.default_rng(0).random((3, *shape, 2)).astype(np.float32)
    cnn = convolution.CNN((*shape, 2), KEY, by_patches=True)
    values = eqx.filter_jit(cnn.values)(cnn.of_table(images))
    assert np.allclose(values, eqx.filter_jit(cnn)(jnp.asarray(images)), atol=1e-5)


def test_a_convolution_by_hand():
    """All weights 1, no bias: each place sums its neighbourhood, walls outside counting 0."""
    random = convolution.Convolution(1, 1, KEY)
    ones = eqx.tree_at(lambda c: (c.weight, c.bias), random, (jnp.ones((3, 3, 1, 1)), jnp.zeros(1)))
    image = jnp.ones((3, 4, 1, 1))
    wanted = [[4, 6, 6, 4], [6, 9, 9, 6], [4, 6, 6, 4]]
    for out in (ones.of_images(image), ones.of_patches(convolution._patches(image))):
        assert np.allclose(out[:, :, 0, 0], wanted)


def test_fourier_features_by_hand():
    mlp = networks.MLP(1, 2, KEY)
    features = mlp.features(jnp.array([[0.25]]))[0]
    wanted = [0.25, np.sin(np.pi / 4), np.sin(np.pi / 2), np.cos(np.pi / 4), np.cos(np.pi / 2)]
    assert np.allclose(features, wanted, atol=1e-6)


@pytest.mark.parametrize("array", [np.array, jnp.array])
def test_units_with_a_leak_by_hand(array):
    layers = [
        networks.Layer(array([[2.0], [-1.0]]), array([1.0, 0.0])),  # 2 x + 1 and -x
        networks.Layer(array([[3.0, 10.0]]), array([0.5])),
    ]
    x = array([[-2.0], [1.0]])  # -3 and 2, of which the first is off; 3 and -1
    assert np.allclose(networks.dense(layers, x), [[20.5], [9.5]])
    assert np.allclose(networks.dense(layers, x, 0.1), [[20.5 - 0.9], [9.5 - 1.0]])
    mlp = build(Config(network="mlp", leak=0.1), np.zeros((3, 2), np.float32), Inputs(), KEY)
    assert mlp.leak == 0.1


def test_choice_by_shape():
    world = GridWorld.load("grid-task")
    kinds = {kind: choose(world.observations(kind)) for kind in
             ("state", "one-hot", "coordinates", "pixels")}  # fmt: skip
    assert kinds == {"state": "table", "one-hot": "mlp", "coordinates": "mlp", "pixels": "cnn"}


def test_width_and_depth():
    table = np.zeros((3, 2), np.float32)
    mlp = build(Config(network="mlp", width=8, depth=2), table, Inputs(), KEY)
    assert [layer.weight.shape for layer in mlp.layers] == [(8, 2), (8, 8), (1, 8)]
    images = np.zeros((3, 4, 4, 1), np.float32)
    cnn = build(Config(network="cnn", width=8, depth=2), images, Inputs(), KEY)
    assert [layer.weight.shape for layer in cnn.layers] == [(8, 64), (8, 8), (1, 8)]


@pytest.mark.parametrize("kind", ["coordinates", "pixels"])
def test_rows_of_a_table_equal_their_observations(kind):
    """Features made once for a whole table, or anew for the observations of a batch."""
    table = GridWorld.parse("#######\n#S..x.#\n#.#...#\n#...xG#\n#######").observations(kind)
    network = build(Config(network=choose(table)), table, Inputs(), KEY)
    rows = jnp.array([3, 0, 3, 7])
    features = network.of_table(table)
    some = eqx.filter_jit(lambda n, f: n.values(n.take(f, rows)))(network, features)
    direct = eqx.filter_jit(network)(jnp.asarray(table[np.asarray(rows)]))
    assert np.allclose(some, direct, atol=1e-6)


def test_wrong_networks():
    vectors = np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="needs images"):
        build(Config(network="cnn"), vectors, Inputs(), KEY)
    with pytest.raises(ValueError, match="needs state numbers"):
        fit_inputs(vectors, normalise=False, by_state=True)
