"""How observations become the numbers that a network sees."""

import jax.numpy as jnp
import numpy as np
import pytest

from drogo import MDP, ArgumentError, DataError, Transitions, exact, fit, load
from drogo.learn import plan
from drogo.learn.inputs import Inputs, fit_inputs

N = 6


def walk(observations):
    """A random walk along a line whose last place is terminal, at a cost of 1 per step."""
    state = np.tile(np.arange(N - 1), 2)
    step = np.repeat([-1, 1], N - 1)
    next_state = np.clip(state + step, 0, N - 1)
    return Transitions.from_table(
        observations, state, next_state, -np.ones(state.size), next_state == N - 1
    )


def truth():
    P = np.zeros((N, N))
    for k in range(N - 1):
        P[k, max(k - 1, 0)] += 0.5
        P[k, k + 1] += 0.5
    terminal = np.arange(N) == N - 1
    return exact.log_column(MDP.from_arrays(P, -1.0 * ~terminal, terminal), lam=20.0)


FAR = 1e8 + np.arange(N, dtype=np.float64)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
def test_far_coordinates_are_told_apart(monkeypatch, streamed):
    """In single precision 1e8 + k is the same number for k up to 3."""
    if streamed:  # the result then keeps a single observation
        monkeypatch.setattr(plan, "BYTES_ON_DEVICE", 0)
        monkeypatch.setattr(plan, "BYTES_IN_RESULT", 0)
    result = fit(walk(FAR), preset="fast", updates=1500, step_size=3e-3, width=32)
    assert np.abs(result(FAR)[0] - truth())[:-1].max() < 0.01
    assert result.potential().at(FAR[2]) == pytest.approx(result.potential()(FAR[2:3])[0])
    if not streamed:
        assert np.allclose(result(FAR), result.v, atol=1e-5)
        with pytest.raises(ValueError, match="only 2 of the 6 observations apart"):
            result.value_fn()


def test_far_coordinates_need_to_be_normalised():
    with pytest.raises(ValueError, match="number 0 of the observations .* normalise=True"):
        fit(walk(FAR), preset="fast", normalise=False)
    assert (
        fit_inputs(
            FAR / 1e8 * np.arange(N)[:, None], normalise=False, by_pixel=False, by_state=False
        )
        == Inputs()
    )


def test_prepared_and_finished_is_the_whole():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (7, 3, 3, 1)).astype(np.uint8)
    for table, by_pixel in ((images, True), (images, False), (rng.normal(5, 1, (9, 2)), False)):
        inputs = fit_inputs(table, normalise=True, by_pixel=by_pixel)
        assert np.allclose(
            inputs.finish(jnp.asarray(inputs.prepare(table))), inputs(table), atol=1e-6
        )


def test_no_images_at_all_are_prepared_too():
    """A table whose features were made beforehand leaves nothing of itself for the device."""
    images = np.random.default_rng(0).normal(size=(7, 3, 3, 1))
    inputs = fit_inputs(images, normalise=True, by_pixel=True)
    assert inputs.prepare(images[:0]).shape == (0, 9)


@pytest.mark.parametrize("first", [-2, 10**12])
def test_state_numbers_may_be_negative_or_huge(first, tmp_path):
    left = np.tile(first + np.arange(4), 4)
    data = Transitions.from_arrays(left, left + 1, -np.ones(16), left == first + 3)
    result = fit(data, lam=2.0, updates=300)
    expected = -np.arange(4, -1, -1) / 2  # every step costs 1
    assert result.v[0] == pytest.approx(expected, abs=0.01)
    assert result.status == ("converged",)
    states = first + np.arange(5)
    result.save(tmp_path / "fit.npz")
    assert load(tmp_path / "fit.npz")(states)[0] == pytest.approx(expected, abs=0.01)
    assert result.potential(normalised=False).at(states[0]) == pytest.approx(-2.0, abs=0.01)
    with pytest.raises(DataError, match=f"state {first + 7} does not occur in the data"):
        result(states + 7)
    if first > 0:
        with pytest.raises(ArgumentError, match="jax_enable_x64"):
            result.value_fn()
    else:
        assert np.isnan(result.value_fn()(jnp.array([first + 7]))).all()
        assert result.value_fn()(jnp.asarray(states)) == pytest.approx(expected, abs=0.01)
