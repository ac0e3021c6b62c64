"""Networks, optimisers and callbacks of the user's own, and values inside other programs."""

from functools import partial
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import needs
from drogo import GDO, Column, Continuing, Drogo, Paper, Regression, exact, fit, load
from drogo.errors import ArgumentError, ArgumentTypeError, DamagedFile
from drogo.learn import CNN, MLP, Optimiser, Table, TensorBoard, WandB
from drogo.learn.value import with_terminal_values
from raising import refused
from small_data import CHAIN, FAST, WORLD, data_of, ring

TRUTH = {"column": exact.log_column(WORLD.mdp, 20.0)}
DATA = data_of(WORLD, "coordinates")


class Residual(eqx.Module):
    layers: list[eqx.nn.Linear]  # a list, as in many people's networks
    norm: eqx.nn.LayerNorm

    def __init__(self, key, width=32):
        sizes, keys = [(2, width), (width, width), (width, "scalar")], jax.random.split(key, 3)
        self.layers = [eqx.nn.Linear(*size, key=k) for size, k in zip(sizes, keys, strict=True)]
        self.norm = eqx.nn.LayerNorm(width)

    def __call__(self, batch):
        def one(x):
            inward, hidden, outward = self.layers
            x = jnp.tanh(inward(8 * x))
            return outward(x + jax.nn.relu(hidden(self.norm(x))))

        return jax.vmap(one)(batch)


@pytest.fixture(autouse=True)
def _plain_promotion():
    """Users' modules need not follow this library's strict rules."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def residual(key, width=32):
    return Residual(key, width)


def test_a_network_and_an_optimiser_of_the_users_own(tmp_path):
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(3e-3, weight_decay=1e-5))
    settings = {"truth": TRUTH, "seeds": 2, "network": residual, "optimiser": optimiser}
    result, longer = fit(DATA, Column(), Drogo(updates=250), **settings), Drogo(updates=260)
    assert result.history["cosine_column"][-1].min() > 0.95
    assert (result.network, result.optimiser) == (residual, optimiser)
    assert not np.allclose(result.v[0], result.v[1], atol=1e-6)  # a function: seeds differ
    path = tmp_path / "fit.npz"
    result.save(path)
    again, usable = (load(path, network=residual, optimiser=part) for part in (optimiser, None))
    assert fit(DATA, Column(), longer, continue_from=again, truth=TRUTH, seeds=2).updates == 260
    for one in (again, usable):
        assert np.array_equal(one(DATA.observations), result(DATA.observations))
    assert usable.optimiser is None
    again = (DATA, Column(), longer)
    refused(ArgumentError, "continue_from", fit, *again, continue_from=usable, **settings)
    for wrong in (None, MLP()):
        refused(ArgumentError, "network", load, path, network=wrong)
    narrow = partial(residual, width=16)  # it has the right name, and other shapes
    refused(DamagedFile, None, load, path, network=narrow, optimiser=optimiser)


def test_modules_as_networks_and_wrong_networks():
    module, frozen = Residual(jax.random.key(7)), Optimiser("rmsprop", 1e-30, "constant")
    result = fit(DATA, Column(), Paper(updates=1), network=module, optimiser=frozen, seeds=2)
    live = np.setdiff1d(np.arange(len(DATA.observations)), DATA.terminal_states)
    expected = np.asarray(module(jnp.asarray(result.learner.inputs(DATA.observations))))[live]
    assert np.allclose(result.v[:, live], expected[None], atol=1e-6)
    assert result.network is module
    single = eqx.nn.MLP(2, 1, 8, 1, key=jax.random.key(0))  # for single observations
    given = (fit, DATA, Column(), Drogo(updates=1))
    for network in (single, lambda key: eqx.nn.Identity(), CNN(), Table()):  # two numbers for each
        refused(ArgumentError, "network", *given, network=network)
    refused(ArgumentTypeError, "network", *given, network=lambda key: 3)


def test_callbacks_see_every_logged_update_and_may_stop():
    reports, method = [], Drogo(updates=80, stop_early=False)
    callbacks = [reports.append, lambda report: np.bool_(report.update < 30)]
    result = fit(data_of(CHAIN), Column(), method, seeds=[3, 5], callbacks=callbacks)
    assert (result.updates, [report.update for report in reports]) == (30, list(range(0, 31, 2)))
    assert (reports[-1].updates, reports[-1].seeds) == (80, [3, 5])
    assert [point.method.updates for point in reports[-1].points] == [80, 80]
    assert np.array_equal(reports[-1].row["worst"], result.history["worst"][-1])
    assert (result.status, len(result.diagnosis())) == (("max_updates", "max_updates"), 2)


def test_tensorboard(tmp_path):
    needs.module("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    steps = Optimiser(step_size=[0.01, 0.02])
    method, callback = Drogo(updates=20), TensorBoard(tmp_path)
    swept = fit(data_of(CHAIN), Column(), method, seeds=2, optimiser=steps, callbacks=[callback])
    events = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0})
    events.Reload()
    for point, result in enumerate(swept.values()):
        named = events.Tensors(f"worst/point {point}/seed 1")
        logged = [event.tensor_proto.float_val[0] for event in named]
        assert np.allclose(logged, result.history["worst"][:, 1], rtol=1e-5)


def test_weights_and_biases(tmp_path, monkeypatch):
    """Against a stand-in for a run; and a real one, written to disk and not sent anywhere."""
    needs.module("wandb")
    logged = []
    run = SimpleNamespace(log=lambda row, step: logged.append((step, row)))
    monkeypatch.setenv("WANDB_SILENT", "true")
    real = WandB(mode="offline", dir=str(tmp_path), project="drogo")
    result = fit(data_of(CHAIN), Column(), Drogo(updates=20), callbacks=[WandB(run), real])
    assert [step for step, _ in logged] == result.history["update"].tolist()
    assert logged[-1][1]["worst/seed 0"] == pytest.approx(result.history["worst"][-1, 0])
    assert dict(real.run.config)["method"]["class"] == "Drogo"
    real.run.finish()
    assert list(tmp_path.rglob("run-*.wandb"))


def test_value_fn_and_its_gradient_inside_other_programs():
    """With a value for each action: v is a log-sum-exp of four outputs."""
    method = Regression(updates=60, action_values=True)
    learned = fit(DATA, Column(), method, seeds=2, network=MLP(16, 2))
    value, table = learned.value_fn(1), jnp.asarray(learned.observations)
    (goal,) = learned.terminal_states
    for compiled in (jax.jit(value), jax.vmap(value), jax.jit(jax.vmap(value))):
        assert np.allclose(compiled(table), learned.v[1], atol=1e-5)
        assert float(compiled(table)[goal]) == 0.0  # the terminal state, exactly
    assert np.allclose([jax.jit(value)(row) for row in table], learned.v[1], atol=1e-5)
    # Against differences of the solution itself, in double steps of 0.002.
    rows = learned.observations[[0, 3, 5]] + np.float32(0.01)
    steps = 0.002 * np.eye(2, dtype=np.float32)
    by_differences = [(learned(rows + step)[1] - learned(rows - step)[1]) / 0.004 for step in steps]
    single = np.stack([jax.grad(value)(row) for row in jnp.asarray(rows)])
    batch = jax.jit(jax.grad(lambda batch: value(batch).sum()))(jnp.asarray(rows))
    assert single == pytest.approx(np.stack(by_differences, axis=1), rel=0.05, abs=0.02)
    assert np.allclose(batch, single, atol=1e-5)
    assert np.allclose(jax.vmap(jax.grad(value))(jnp.asarray(rows)), single, atol=1e-5)


def test_value_fn_of_state_numbers_in_a_scan_and_without_terminal_values():
    result = fit(data_of(CHAIN), Column(), Drogo(updates=20), seeds=2, optimiser=FAST)
    value = result.value_fn(1)
    rows, walk = np.array([4, 0, 3, 4]), lambda total, row: (total + value(row), None)
    total = jax.jit(lambda rows: jax.lax.scan(walk, 0.0, rows)[0])(jnp.asarray(rows))
    assert float(total) == pytest.approx(result.v[1, rows].sum(), abs=1e-4)
    assert np.allclose(jax.vmap(value)(jnp.arange(5)), result.v[1], atol=1e-5)
    refused(ArgumentError, "seed", result.value_fn, 7)
    refused(ArgumentError, "observations", value, jnp.zeros((2, 3), int))
    endless = fit(ring()[0], Continuing(), Regression(updates=2))
    for solution in (fit(data_of(CHAIN), Column(), GDO(updates=2)), endless):
        values, table = solution.value_fn(), jnp.asarray(solution.observations)
        np.testing.assert_allclose(values(table), solution.v[0], rtol=1e-5, atol=1e-6)
        assert values(table[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64, bool])
def test_terminal_values_of_any_type(dtype):
    """Only the very same observations are recognised, however close others are."""
    batch = jnp.asarray(np.array([[0, 1], [1, 0], [1, 1], [0, 0]], dtype=dtype))
    values = with_terminal_values(jnp.full(4, 9.0), batch, batch[:2], jnp.array([-1.0, -2.0]))
    assert values.tolist() == [-1.0, -2.0, 9.0, 9.0]
    close = jnp.asarray(np.array([[0.2, 0.7], [0.7, 0.2]], dtype=np.float16))
    values = with_terminal_values(jnp.full(2, 9.0), close, close[:1], jnp.zeros(1))
    assert values.tolist() == [0.0, 9.0]
