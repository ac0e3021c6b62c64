"""How observations become the numbers that a network sees, and large tables of them."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from drogo import MDP, Column, Drogo, NaturalGDO, Regression, Transitions, exact, fit, load
from drogo.errors import ArgumentError, DataError
from drogo.learn import MLP, Optimiser, batches
from drogo.learn.networks import Inputs, fit_inputs
from raising import raises
from small_data import SMALL, line

N = 6
FAR = 1e8 + np.arange(N, dtype=np.float64)[:, None]
FEW = Drogo(updates=20, batch_size=100, action_values=False)


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
    P = (np.eye(N, k=1) + np.eye(N, k=-1)) / 2
    P[0, 0], P[-1] = 0.5, 0.0
    truth = exact.log_column(MDP.from_arrays(P, -1.0 * (np.arange(N) < N - 1), [N - 1]), lam=20.0)
    optimiser = Optimiser(step_size=3e-3)
    result = fit(walk(FAR), Column(), Drogo(updates=1200), network=MLP(32), optimiser=optimiser)
    assert np.abs(result(FAR)[0] - truth)[:-1].max() < 0.02
    potential = result.potential()
    assert potential.at(FAR[2]) == pytest.approx(potential(FAR[2:3])[0])
    if not streamed:
        assert np.allclose(result(FAR), result.v, atol=1e-5)
        with raises(ArgumentError):
            result.value_fn()


def test_inputs_that_need_to_be_normalised_and_do_not():
    with raises(DataError):
        fit(walk(FAR), Column(), Drogo(), network=MLP(normalise=False))
    wide = FAR / 1e8 * np.arange(N)[:, None]
    assert fit_inputs(wide, normalise=False) == Inputs()
    coordinates = np.linspace(-0.5, 0.5, 10, dtype=np.float32)[:, None]
    tiny = np.array([[0.0, 0.9], [0.01, -0.9]], dtype=np.float32)
    for table in (np.eye(5, dtype=np.float32), coordinates, tiny):
        assert (fit_inputs(table, normalise=True).shift is None) == (table is not tiny)


def test_prepared_and_finished_is_the_whole():
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
    with raises(DataError):
        result(states + 7)
    if first > 0:  # JAX without double precision has no such numbers
        with raises(ArgumentError):
            result.value_fn()
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


def test_streamed_equals_gathered(monkeypatch, tmp_path):
    """The same batches, read from a file or gathered on the device: the same network."""
    data, path = line(2000), tmp_path / "o.bin"
    gathered = fit(data, Column(5.0), FEW, network=SMALL)
    data.observations.tofile(path)
    mapped = np.memmap(path, np.float32, mode="r", shape=data.observations.shape)
    monkeypatch.setattr(batches, "BYTES_ON_DEVICE", 1)
    monkeypatch.setattr(batches, "BYTES_PER_CHUNK", 20_000)
    streamed = fit(replace(data, observations=mapped), Column(5.0), FEW, network=SMALL)
    assert np.allclose(streamed.v, gathered.v, atol=1e-5)


def test_large_data(monkeypatch):
    """A method that needs two batches is not streamed, and a solution keeps a sample."""
    data = line(2000)
    monkeypatch.setattr(batches, "BYTES_IN_RESULT", 400)
    result = fit(data, Column(5.0), FEW, network=SMALL)
    assert len(result.observations) in (100, 101)
    assert result.v.shape == (1, len(result.observations))
    assert np.isfinite(result.potential()(data.observations[:5])).all()
    monkeypatch.setattr(batches, "BYTES_ON_DEVICE", 1)
    with raises(ArgumentError, "method"):
        fit(line(), Column(5.0), NaturalGDO(updates=2), network=SMALL)
