"""Batches: what is sampled, and that both ways to evaluate one give the same gradient."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

from drogo import GDO, Column, Drogo, LogGDO, NaturalGDO, exact
from drogo.data import under
from drogo.learn import CNN, MLP, Learner, Objective, Table
from drogo.learn.architectures import build_network
from drogo.learn.batches import Group, Shuffled, draw_rows, make_data, make_groups, make_plan
from drogo.problems.shared import with_cap
from small_data import ROOM, data_of

NETWORKS = {"state": Table(), "coordinates": MLP(normalise=False), "pixels": CNN()}
METHODS = [
    GDO(penalty=0.7), LogGDO(penalty=0.7), NaturalGDO(penalty=0.7, cap=3.0), Drogo(cap=3.0),
    Drogo(cap=3.0, action_values=True),
]  # fmt: skip
CASES = [
    *(("coordinates", method, False) for method in METHODS),
    *(("state", method, True) for method in METHODS),
    ("pixels", METHODS[3], True),
    ("pixels", METHODS[0], False),
]


@pytest.mark.parametrize(("kind", "method", "target"), CASES)
def test_table_and_rows_give_the_same_gradient(kind, method, target):
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
    both = (jax.tree.leaves(gradient(network, *parts)) for parts in draws)
    for a, b in zip(*both, strict=True):
        assert np.allclose(a, b, rtol=2e-4, atol=2e-6)


def test_an_epoch_is_one_pass_and_batches_depend_on_seed_and_update_alone():
    groups = [Group(np.arange(105), 10, 1.0)]
    rows = draw_rows(groups, [0, 1], 0, 37, 0)
    for k in range(2):
        assert len(set(rows[:10, k].ravel())) == 100
    assert not np.array_equal(rows[:, 0], rows[:, 1])
    assert not np.array_equal(rows, draw_rows(groups, [0, 1], 0, 37, 1))
    pieces = [draw_rows(groups, [1], a, b - a, 0) for a, b in ((0, 7), (7, 30), (30, 37))]
    assert np.array_equal(rows[:, 1:], np.concatenate(pieces))


@pytest.mark.parametrize(("scaled", "most"), [(False, 6), (True, 3)])
def test_an_automatic_cap_is_above_the_solution(scaled, most):
    data, v = data_of(ROOM, "state", 3000), exact.log_column(ROOM.mdp, 20.0)
    step = v[data.next_state] - v[data.state] + scaled * data.reward / 20.0
    assert step.max() < with_cap(Drogo(scaled=scaled), data, 20.0).cap < most
    assert with_cap(Drogo(cap=7.0), data, 20.0).cap == 7.0


def test_terminal_states_have_their_place_in_every_batch():
    """A tenth of each batch, with weights that undo it."""
    terminated = np.isin(np.arange(1000), [5, 500, 999])
    arguments = ((terminated, 20, 0.0), (terminated, 200, 0.1), (np.ones(50, bool), 20, 0.1))
    taken = [[group.taken for group in make_groups(*given)] for given in arguments]
    assert taken == [[20], [197, 3], [20]]
    groups = make_groups(terminated, 20, 0.1)
    draw = Shuffled([0], groups, longest=300).draw(0, 300)
    weight, reaching = np.asarray(draw.weight), terminated[np.asarray(draw.rows)]
    assert (reaching.sum(axis=-1) == 2).all()
    assert weight[reaching].sum() / 300 == pytest.approx(0.003, rel=1e-5)
    assert weight[~reaching].sum() / 300 == pytest.approx(0.997, rel=1e-5)
