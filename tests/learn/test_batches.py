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
from drogo.learn.batches import (
    Draw,
    Group,
    Shuffled,
    draw_rows,
    make_data,
    make_groups,
    make_plan,
    weights_of,
)
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
    problem, architecture = Column(), NETWORKS[kind]
    inputs, outputs = architecture.inputs(data.observations), problem.outputs(method, 4)
    network, other = (
        build_network(architecture, data.observations, inputs, outputs, jax.random.key(k), 0.5)
        for k in (0, 1)
    )
    learner = Learner(Objective(problem, method), network, optax.sgd(0.1), inputs=inputs)
    second = learner.objective.needs_moment
    plan = make_plan(data, 200, second=second)
    assert plan.whole
    table, _ = make_data(data, data.edges, plan, learner, [3], method)
    rows, _ = make_data(data, data, replace(plan, whole=False), learner, [3], method)
    groups = [Group(np.arange(len(data)), 200, 1.0)]
    shares = Shuffled([3], groups, second, data.edges.of_transition).draw(0, 1)
    gathered = Shuffled([3], groups, second).draw(0, 1)

    def gradient(device_data, draw):
        draw = Draw(*(None if leaf is None else leaf[0, 0] for leaf in draw))

        def loss(network):
            batch = device_data.batch(learner, draw)
            return learner.loss(network, batch, other if target else None)

        return jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(loss))(network))

    for a, b in zip(gradient(table, shares), gradient(rows, gathered), strict=True):
        assert np.allclose(a, b, rtol=2e-4, atol=2e-6)


def sampled(n, batch_size, seeds, update, count, stream=0):
    return draw_rows([Group(np.arange(n), batch_size, 1.0)], seeds, update, count, stream)


def test_an_epoch_is_one_pass_and_a_seed_has_its_own():
    rows = sampled(100, 10, [0, 1], 0, 10)
    assert rows.shape == (10, 2, 10)
    for k in range(2):
        assert sorted(rows[:, k].ravel()) == list(range(100))
    assert not np.array_equal(rows[:, 0], rows[:, 1])
    assert not np.array_equal(rows, sampled(100, 10, [0, 1], 0, 10, 1))


def test_batches_depend_on_the_update_alone():
    whole = sampled(105, 10, [4], 0, 37)
    pieces = [sampled(105, 10, [4], a, b - a) for a, b in ((0, 7), (7, 30), (30, 37))]
    assert np.array_equal(whole, np.concatenate(pieces))


def test_shares_count_the_same_batches():
    data = data_of(ROOM, "state", 3000)
    groups = [Group(np.arange(len(data)), 100, 1.0)]
    rows = draw_rows(groups, [2], 5, 3, 0)[:, 0]
    shares = Shuffled([2], groups, edge_of_row=data.edges.of_transition).draw(5, 3).weight
    assert shares.shape[0] == 100  # padded, so that every length is one program
    assert not np.asarray(shares[3:]).any()
    for k in range(3):
        counted = np.bincount(data.edges.of_transition[rows[k]], minlength=shares.shape[2])
        assert np.allclose(shares[k, 0], counted / 100)


@pytest.mark.parametrize(("scaled", "most"), [(False, 6), (True, 3)])
def test_an_automatic_cap_is_above_the_solution(scaled, most):
    data, v = data_of(ROOM, "state", 3000), exact.log_column(ROOM.mdp, 20.0)
    step = v[data.next_state] - v[data.state] + scaled * data.reward / 20.0
    assert step.max() < with_cap(Drogo(scaled=scaled), data, 20.0).cap < most
    assert with_cap(Drogo(cap=7.0), data, 20.0).cap == 7.0


def test_terminal_states_have_their_place_in_every_batch():
    """A tenth of each batch, with weights that undo it."""
    terminated = np.zeros(1000, dtype=bool)
    terminated[[5, 500, 999]] = True
    assert [group.taken for group in make_groups(terminated, 20, 0.0)] == [20]
    groups = make_groups(terminated, 20, 0.1)
    rows = draw_rows(groups, [0, 1], 0, 300, 0)
    weights = weights_of(groups)
    assert rows.shape == (300, 2, 20)
    assert np.array_equal(terminated[rows].sum(axis=-1), np.full((300, 2), 2))
    often = np.zeros(1000)
    np.add.at(often, rows[:, 0], np.broadcast_to(weights, (300, 20)) / 300)
    assert often[terminated].sum() == pytest.approx(0.003, rel=1e-5)
    assert often[~terminated].sum() == pytest.approx(0.997, rel=1e-5)
    assert [group.taken for group in make_groups(terminated, 200, 0.1)] == [197, 3]
    assert [group.taken for group in make_groups(np.ones(50, dtype=bool), 20, 0.1)] == [20]
