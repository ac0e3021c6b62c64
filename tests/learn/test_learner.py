"""The pure learner: init, step, value, inside other people's loops, and what it compiles."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from drogo import GridWorld, Transitions, collect, exact, fit
from drogo.learn import Batch, Learner, Numbers, train
from drogo.learn.learner import emphasise
from drogo.learn.networks import Table
from drogo.learn.objectives import Drogo, NaturalGDO

CHAIN = GridWorld.parse("#######\n#S.x.G#\n#######")
NUMBERS = Numbers(*map(jnp.float32, (20.0, np.inf, np.inf, 1.0, 1.0)))


def balanced():
    live = np.repeat(np.flatnonzero(~CHAIN.terminal), 4)
    following = CHAIN.next_state[~CHAIN.terminal].ravel()
    return Transitions.from_table(
        np.arange(5), live, following, CHAIN.reward[live], CHAIN.terminal[following]
    )


def chain_batch(learner):
    data = balanced()
    return learner.batch(
        jnp.asarray(data.state), jnp.asarray(data.next_state),
        jnp.asarray(data.reward, dtype=jnp.float32), jnp.asarray(data.terminated),
    )  # fmt: skip


def test_inside_a_scan():
    """The whole training as one user's `lax.scan`, to the exact answer."""
    network = Table(jnp.zeros(5))
    learner = Learner(Drogo(NUMBERS), network, optax.adam(optax.cosine_decay_schedule(0.05, 3000)))
    batch = chain_batch(learner)

    @jax.jit
    def run(state):
        return jax.lax.scan(lambda s, _: learner.step(s, batch), state, length=3000)

    state, losses = run(learner.init(network))
    assert losses.shape == (3000,)
    assert int(state.update) == 3000
    v = np.asarray(learner.value(state, jnp.arange(5)))
    truth = exact.log_column(CHAIN.mdp, 20.0)
    assert np.abs(v - truth)[~CHAIN.terminal].max() < 1e-3


def test_vmap_over_seeds_and_numbers_equals_a_map():
    """The accelerator's path: all lanes at once."""
    network = Table(jnp.zeros(5))
    learner = Learner(Drogo(NUMBERS), network, optax.sgd(0.1))
    batch = chain_batch(learner)
    lams = jnp.array([5.0, 20.0, 80.0])
    numbers = Numbers(lams, *(jnp.full(3, x) for x in (jnp.inf, jnp.inf, 1.0, 1.0, 0.0, 1.0)))
    tables = jnp.arange(15.0).reshape(3, 5) / 10
    start = jax.vmap(lambda table: learner.init(Table(table)))(tables)

    def step(numbers, state):
        return learner.with_numbers(numbers).step(state, batch)

    at_once = jax.jit(jax.vmap(step))(numbers, start)
    one_by_one = jax.jit(lambda *packed: jax.lax.map(lambda one: step(*one), packed))(
        numbers, start
    )
    for a, b in zip(jax.tree.leaves(at_once), jax.tree.leaves(one_by_one), strict=True):
        assert np.allclose(a, b, atol=1e-6)


@pytest.mark.slow
def test_networks_in_lanes_at_once(monkeypatch):
    """A fit whose networks are mapped by `vmap`, as on an accelerator, is the same fit."""
    env_data = data_from("coordinates")
    settings = {"preset": "fast", "updates": 40, "seeds": 2, "width": 16, "depth": 2}
    one_by_one = fit(env_data, **settings)
    train._program.cache_clear()
    monkeypatch.setattr(
        train, "over_lanes", lambda learner, function, arguments: jax.vmap(function)(*arguments)
    )
    at_once = fit(env_data, **settings)
    train._program.cache_clear()
    assert np.allclose(at_once.v, one_by_one.v, atol=1e-4)


def data_from(kind):
    import gymnasium

    env = gymnasium.make("drogo/GridWorld-v0", world=CHAIN, observation=kind)
    return collect(env, 2000, seed=0)


def test_a_longer_fit_another_lam_and_continuing_compile_nothing():
    data = data_from("state")
    settings = {"preset": "fast", "seeds": 2, "stop_early": False}
    first = fit(data, updates=50, **settings)
    compiled = []

    def listen(name, seconds, **_):
        if "backend_compile" in name:
            compiled.append(name)

    jax.config.update("jax_enable_compilation_cache", False)  # what is read from it was compiled
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        fit(data, updates=130, **settings)
        fit(data, updates=77, lam=3.0, step_size=0.01, cap=4.0, **settings)
        fit(data, updates=90, continue_from=first, **settings)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
        jax.config.update("jax_enable_compilation_cache", True)
    assert compiled == []


def batch_of(cost, weight, state=None, terminated=None):
    n = len(cost)
    reward = -20.0 * jnp.log(jnp.array(cost))
    flags = jnp.zeros(n, dtype=bool) if terminated is None else jnp.array(terminated)
    rows = jnp.arange(n) if state is None else jnp.array(state)
    return Batch(
        jnp.arange(n), None, rows, rows, reward, flags, jnp.zeros(n), jnp.array(weight),
        complete=True,
    )  # fmt: skip


def test_scaled_by_hand():
    """Slopes (2 - 1, 4 - 1) with weight 1/2 each; divided by the costs 2 and 4: 1/4 and 3/8."""
    batch = batch_of([2.0, 4.0], [0.5, 0.5])

    def slopes(scaled, objective=Drogo):
        numbers = replace(NUMBERS, scaling=jnp.float32(scaled))
        learner = Learner(objective(numbers), Table(jnp.zeros(2)), optax.sgd(1.0))
        return jax.grad(lambda out: learner.loss_of_outputs(out, out, batch))(jnp.zeros(2))

    assert np.allclose(slopes(False), [0.5, 1.5], rtol=1e-5)
    assert np.allclose(slopes(True), [0.25, 0.375], rtol=1e-5)
    assert np.allclose(slopes(True, NaturalGDO), [0.25, 0.375], rtol=1e-5)  # norm 1: no penalty


def test_emphasis_by_hand():
    """Two states: one with residual 0.4 (seen three times in four), one with 0.1."""
    batch = batch_of([1.0, 1.0, 1.0], [0.5, 0.25, 0.25], state=[0, 0, 1])
    slopes = jnp.array([0.5, 0.2, -0.1])  # state 0: (0.5 * 0.5 + 0.25 * 0.2) / 0.75 = 0.4
    mean = 0.75 * 0.4 + 0.25 * 0.1
    expected = np.sqrt(np.array([0.4, 0.4, 0.1]) / mean)
    np.testing.assert_allclose(emphasise(slopes, batch, 2, 0.5), expected, rtol=1e-6)


@pytest.mark.parametrize("complete", [True, False])
def test_emphasis_is_for_complete_batches(complete):
    """On a sample the residual would be a noisy guess, and its weights would move the solution."""
    batch = batch_of([2.0, 4.0], [0.5, 0.5])
    batch = replace(batch, complete=complete)

    def gradient(emphasis):
        learner = Learner(Drogo(NUMBERS), Table(jnp.zeros(2)), optax.sgd(1.0), emphasis=emphasis)
        return jax.grad(lambda out: learner.loss_of_outputs(out, out, batch))(jnp.zeros(2))

    assert (not np.allclose(gradient(0.0), gradient(0.5))) == complete


def test_a_target_network_follows_at_its_rate():
    network = Table(jnp.zeros(5))
    learner = Learner(Drogo(NUMBERS), network, optax.sgd(0.1), target_rate=0.25)
    state, _ = learner.step(learner.init(network), chain_batch(learner))
    assert np.allclose(state.target.table, 0.25 * state.params.table)
    assert np.abs(state.params.table).max() > 0


def test_an_overflow_stops_a_lane_at_its_last_finite_parameters():
    network = Table(jnp.array([-200.0, 0.0, 0.0, 0.0, 0.0]))
    learner = Learner(Drogo(NUMBERS), network, optax.sgd(0.1))
    state, _ = learner.step(learner.init(network), chain_batch(learner))
    assert int(state.diverged_at) == 0
    assert np.array_equal(state.params.table, network.table)
