"""The pure learner inside other people's loops, and batches: two ways to evaluate one agree."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from drogo import GDO, Column, Drogo, LogGDO, NaturalGDO, exact, fit
from drogo.data import under
from drogo.learn import CNN, MLP, Batch, Learner, Objective, Optimiser, Table
from drogo.learn.architectures import build_network
from drogo.learn.batches import Group, Shuffled, draw_rows, make_data, make_groups, make_plan
from drogo.learn.networks import TableNetwork
from small_data import CHAIN, FAST, ROOM, balanced, data_of

PLAIN = Drogo(cap=np.inf, scaled=False)
ZEROS = TableNetwork(jnp.zeros(5))
NETWORKS = {"state": Table(), "coordinates": MLP(normalise=False), "pixels": CNN()}
METHODS = [
    *(kind(penalty=0.7) for kind in (GDO, LogGDO)), NaturalGDO(penalty=0.7, cap=3.0),
    *(Drogo(cap=3.0, action_values=flag) for flag in (None, True)),
]  # fmt: skip
CASES = [
    (*kind, method) for kind in (("coordinates", False), ("state", True)) for method in METHODS
]


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
    run = partial(jax.lax.scan, lambda state, _: learner.step(state, batch), length=3000)
    state, losses = jax.jit(run)(learner.init(ZEROS))
    assert (losses.shape, int(state.update)) == ((3000,), 3000)
    v = np.asarray(learner.value(state, jnp.arange(5)))
    assert np.abs(v - exact.log_column(CHAIN.mdp, 20.0))[~CHAIN.terminal].max() < 1e-3


def test_a_longer_fit_another_lam_and_continuing_compile_nothing():
    data, method = data_of(CHAIN), Drogo(stop_early=False, updates=50)
    first, names = fit(data, Column(), method, seeds=2), []

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


def test_target_networks_and_double_precision():
    learner = learner_of(replace(PLAIN, target_rate=0.25))
    state, _ = learner.step(learner.init(ZEROS), chain_batch(learner))
    assert np.allclose(state.target.table, 0.25 * state.params.table)
    assert np.abs(state.params.table).max() > 0
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        assert np.isfinite(fit(balanced(), Column(), Drogo(updates=20), optimiser=FAST).v).all()


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


@pytest.mark.parametrize(
    ("kind", "target", "method"),
    [*CASES, ("pixels", True, METHODS[3]), ("pixels", False, METHODS[0])],
)
def test_table_and_rows_give_the_same_gradient(kind, target, method):
    """The network is evaluated once for each distinct observation, or once for each row."""
    fraction = {"terminal_fraction": 0.0} if isinstance(method, Drogo) else {}
    method = replace(method, batch_size=200, **fraction)
    data, _ = under(data_of(ROOM, kind, 3000))
    data = data if method.anchored else data.with_absorbing_terminals(0.001)
    architecture = NETWORKS[kind]
    inputs, outputs = architecture.inputs(data.observations), Column().outputs(method, 4)
    parts = (architecture, data.observations, inputs, outputs)
    network, other = (build_network(*parts, jax.random.key(k), 0.5) for k in (0, 1))
    learner = Learner(Objective(Column(), method), network, optax.sgd(0.1), inputs=inputs)
    second = learner.objective.needs_moment
    plan = make_plan(data, 200, second=second)
    assert plan.whole
    table, _ = make_data(data, data.edges, plan, learner, [3], method)
    rows, _ = make_data(data, data, replace(plan, whole=False), learner, [3], method)
    groups = [Group(np.arange(len(data)), 200, 1.0)]

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(network, device_data, draw):
        batch = device_data.batch(learner, jax.tree.map(lambda leaf: leaf[0, 0], draw))
        return learner.loss(network, batch, other if target else None)

    shares = Shuffled([3], groups, second, data.edges.of_transition).draw(0, 1)
    draws = ((table, shares), (rows, Shuffled([3], groups, second).draw(0, 1)))
    for a, b in zip(*(jax.tree.leaves(gradient(network, *parts)) for parts in draws), strict=True):
        assert np.allclose(a, b, rtol=2e-4, atol=2e-6)


def test_an_epoch_is_one_pass_and_terminal_states_are_in_every_batch():
    groups = [Group(np.arange(105), 10, 1.0)]
    rows = draw_rows(groups, [0, 1], 0, 37, 0)
    for k in range(2):
        assert len(set(rows[:10, k].ravel())) == 100
    assert not np.array_equal(rows[:, 0], rows[:, 1])
    assert not np.array_equal(rows, draw_rows(groups, [0, 1], 0, 37, 1))
    pieces = [draw_rows(groups, [1], a, b - a, 0) for a, b in ((0, 7), (7, 30), (30, 37))]
    assert np.array_equal(rows[:, 1:], np.concatenate(pieces))
    # A tenth of each batch, with weights that undo it.
    terminated = np.isin(np.arange(1000), [5, 500, 999])
    arguments = ((terminated, 20, 0.0), (terminated, 200, 0.1), (np.ones(50, bool), 20, 0.1))
    taken = [[group.taken for group in make_groups(*given)] for given in arguments]
    assert taken == [[20], [197, 3], [20]]
    draw = Shuffled([0], make_groups(terminated, 20, 0.1), longest=300).draw(0, 300)
    weight, reaching = np.asarray(draw.weight), terminated[np.asarray(draw.rows)]
    assert (reaching.sum(axis=-1) == 2).all()
    assert weight[reaching].sum() / 300 == pytest.approx(0.003, rel=1e-5)
    assert weight[~reaching].sum() / 300 == pytest.approx(0.997, rel=1e-5)
