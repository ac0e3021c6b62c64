"""The pure learner: init, step and value inside other people's loops, and what it compiles."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from drogo import Column, Drogo, exact, fit
from drogo.learn import Batch, Learner, Objective, Optimiser
from drogo.learn.networks import TableNetwork
from small_data import CHAIN, FAST, balanced, data_of

PLAIN = Drogo(cap=np.inf, scaled=False)
ZEROS = TableNetwork(jnp.zeros(5))


def learner_of(method=PLAIN, optimiser=None, network=ZEROS):
    return Learner(Objective(Column(), method), network, optimiser or optax.sgd(0.1))


def chain_batch(learner):
    data = balanced()
    columns = (data.state, data.next_state, data.reward.astype(np.float32), data.terminated)
    return learner.batch(*map(jnp.asarray, columns))


def test_inside_a_scan():
    """The whole training as one user's `lax.scan`, to the exact answer."""
    learner = learner_of(optimiser=optax.adam(optax.cosine_decay_schedule(0.05, 3000)))
    batch = chain_batch(learner)

    @jax.jit
    def run(state):
        return jax.lax.scan(lambda s, _: learner.step(s, batch), state, length=3000)

    state, losses = run(learner.init(ZEROS))
    assert (losses.shape, int(state.update)) == ((3000,), 3000)
    v = np.asarray(learner.value(state, jnp.arange(5)))
    assert np.abs(v - exact.log_column(CHAIN.mdp, 20.0))[~CHAIN.terminal].max() < 1e-3


def test_a_longer_fit_another_lam_and_continuing_compile_nothing():
    data, method = data_of(CHAIN), Drogo(stop_early=False, updates=50)
    first = fit(data, Column(), method, seeds=2)
    names = []

    def listen(name, seconds, **_):
        names.append(name)

    jax.config.update("jax_enable_compilation_cache", False)  # what is read from it was compiled
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        fit(data, Column(), replace(method, updates=130), seeds=2)
        other = replace(method, updates=77, cap=4.0)
        fit(data, Column(3.0), other, seeds=2, optimiser=Optimiser(step_size=0.01))
        fit(data, Column(), replace(method, updates=90), seeds=2, continue_from=first)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
        jax.config.update("jax_enable_compilation_cache", True)
    assert not [name for name in names if "backend_compile" in name]


@pytest.mark.parametrize("complete", [True, False])
def test_emphasis_by_hand(complete):
    """State 0 has the slopes 2 - 1 and 5 - 1 with weights 1/2 and 1/4, a residual of 1.5/0.75 = 2,
    and state 1 has 1.5 - 1 = 0.5. Their mean is 0.75 * 2 + 0.25 * 0.5 = 1.625. Only complete batches
    are weighed: a residual of a sample is noisy, and its weights would move the solution."""
    rows, weight = jnp.array([0, 0, 1]), jnp.array([0.5, 0.25, 0.25])  # transitions to themselves
    rest = (-20.0 * jnp.log(jnp.array([2.0, 5.0, 1.5])), jnp.zeros(3, dtype=bool), jnp.zeros(3))
    batch = Batch(jnp.arange(2), None, rows, rows, *rest, weight, complete=complete)
    learner = learner_of(replace(PLAIN, emphasis=0.5), network=TableNetwork(jnp.zeros(2)))
    slopes = jax.grad(lambda out: learner.loss_of_outputs(out, out, batch))(jnp.zeros(2))
    factors = np.sqrt(np.array([2.0, 0.5]) / 1.625) if complete else np.ones(2)
    assert np.allclose(slopes, factors * [1.5, 0.125], rtol=1e-5)


def test_a_target_network_follows_at_its_rate():
    learner = learner_of(replace(PLAIN, target_rate=0.25))
    state, _ = learner.step(learner.init(ZEROS), chain_batch(learner))
    assert np.allclose(state.target.table, 0.25 * state.params.table)
    assert np.abs(state.params.table).max() > 0


def test_vmap_over_seeds_and_lam_equals_a_map():
    """On an accelerator all runs are trained at once."""
    learner = learner_of()
    batch, tables = chain_batch(learner), jnp.arange(15.0).reshape(3, 5) / 10
    each = [Objective(Column(lam), PLAIN) for lam in (5.0, 20.0, 80.0)]
    objectives = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)

    def step(packed):
        objective, table = packed
        return learner.with_objective(objective).step(learner.init(TableNetwork(table)), batch)

    ways = (jax.vmap(step), lambda packed: jax.lax.map(step, packed))
    at_once, by_one = (jax.jit(way)((objectives, tables)) for way in ways)
    for a, b in zip(jax.tree.leaves(at_once), jax.tree.leaves(by_one), strict=True):
        assert np.allclose(a, b, atol=1e-6)


def test_tables_in_double_precision():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        solution = fit(balanced(), Column(), Drogo(updates=20), optimiser=FAST)
        assert np.isfinite(solution.v).all()
