"""Batches: what is drawn, and that both ways to evaluate one give the same gradient."""

from dataclasses import replace

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import Config, GridWorld, collect, exact
from drogo.data import under
from drogo.learn.build import build, choose
from drogo.learn.inputs import fit_inputs
from drogo.learn.learner import Learner
from drogo.learn.numbers import cap_from_data
from drogo.learn.objectives import OBJECTIVES, Numbers
from drogo.learn.plan import make_plan
from drogo.learn.prepare import make_optimiser
from drogo.learn.sampling import (
    FIRST,
    SECOND,
    Draw,
    Group,
    Sampler,
    draw_rows,
    make_data,
    make_groups,
    weights_of,
)

WORLD = GridWorld.parse("#######\n#S..x.#\n#.#...#\n#...xG#\n#######")
NUMBERS = Numbers(*map(jnp.float32, (20.0, np.inf, np.inf, 0.7, 1.0)))


def data_of(kind):
    env = gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation=kind)
    return collect(env, 3000, seed=0)


CASES = [
    *(("coordinates", objective, False) for objective in OBJECTIVES),
    *(("state", objective, True) for objective in OBJECTIVES),
    ("pixels", "drogo", True),
    ("pixels", "gdo", False),
]


@pytest.mark.parametrize(("kind", "objective", "target"), CASES)
def test_table_and_rows_give_the_same_gradient(kind, objective, target):
    """The network evaluated once per distinct observation, or once per row of the batch."""
    data, _ = under(data_of(kind))
    if not OBJECTIVES[objective].anchored:
        data = data.with_absorbing_terminals(0.001)
    config = Config(objective=objective, network=choose(data.observations), batch_size=200)
    outputs = 4 if OBJECTIVES[objective].per_action else "scalar"
    inputs = fit_inputs(data.observations, normalise=False, by_state=kind == "state")
    network, other = (
        build(config, data.observations, inputs, jax.random.key(k), 0.5, outputs) for k in (0, 1)
    )
    learner = Learner(
        OBJECTIVES[objective](NUMBERS), network, make_optimiser("adam", 0.5), inputs=inputs
    )
    plan = make_plan(data, learner.objective, config)
    assert plan.whole
    table, _ = make_data(data, data.edges, plan, learner, [3], config)
    rows, _ = make_data(data, data, replace(plan, whole=False), learner, [3], config)
    second = learner.objective.needs_second_batch
    groups = [Group(np.arange(len(data)), 200, 1.0)]
    shares = Sampler([3], groups, second, data.edges.of_transition).draw(0, 1)
    gathered = Sampler([3], groups, second).draw(0, 1)

    def gradient(device_data, draw):
        draw = Draw(*(None if leaf is None else leaf[0, 0] for leaf in draw))

        def loss(network):
            batch = device_data.batch(learner, draw)
            return learner.loss(network, batch, other if target else None)

        return jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(loss))(network))

    for a, b in zip(gradient(table, shares), gradient(rows, gathered), strict=True):
        assert np.allclose(a, b, rtol=2e-4, atol=2e-6)


def drawn(n, batch_size, seeds, update, count, stream):
    groups = [Group(np.arange(n), batch_size, 1.0)]
    return draw_rows(groups, seeds, update, count, stream)


def test_an_epoch_is_one_pass_and_a_seed_has_its_own():
    taken = drawn(100, 10, [0, 1], 0, 10, FIRST)
    assert taken.shape == (10, 2, 10)
    for k in range(2):
        assert sorted(taken[:, k].ravel()) == list(range(100))
    assert not np.array_equal(taken[:, 0], taken[:, 1])
    assert not np.array_equal(taken, drawn(100, 10, [0, 1], 0, 10, SECOND))


def test_batches_depend_on_the_update_alone():
    whole = drawn(105, 10, [4], 0, 37, FIRST)
    pieces = [drawn(105, 10, [4], a, b - a, FIRST) for a, b in ((0, 7), (7, 30), (30, 37))]
    assert np.array_equal(whole, np.concatenate(pieces))


def test_shares_count_the_same_batches():
    data = data_of("state")
    groups = [Group(np.arange(len(data)), 100, 1.0)]
    rows = draw_rows(groups, [2], 5, 3, FIRST)[:, 0]
    shares = Sampler([2], groups, edge_of_row=data.edges.of_transition).draw(5, 3).weight
    assert shares.shape[0] == 100  # filled up, so that every length is one program
    assert not np.asarray(shares[3:]).any()
    for k in range(3):
        counted = np.bincount(data.edges.of_transition[rows[k]], minlength=shares.shape[2])
        assert np.allclose(shares[k, 0], counted / 100)


def test_cap_from_data_is_above_the_solution():
    data = data_of("state")
    v = exact.log_column(WORLD.mdp, 20.0)
    step = v[data.edges.next_state] - v[data.edges.state]
    assert step.max() < cap_from_data(data, 20.0, scaled=False) < 6
    scaled = step + data.edges.reward / 20.0
    assert scaled.max() < cap_from_data(data, 20.0, scaled=True) < 3


def test_terminal_states_have_their_place_in_every_batch():
    """A tenth of each batch, with weights that undo it."""
    terminated = np.zeros(1000, dtype=bool)
    terminated[[5, 500, 999]] = True
    assert [group.taken for group in make_groups(terminated, 20, 0.0)] == [20]
    groups = make_groups(terminated, 20, 0.1)
    rows = draw_rows(groups, [0, 1], 0, 300, FIRST)
    weights = weights_of(groups)
    assert rows.shape == (300, 2, 20)
    assert np.array_equal(terminated[rows].sum(axis=-1), np.full((300, 2), 2))
    assert weights.sum() == pytest.approx(1.0)
    often = np.zeros(1000)
    np.add.at(often, rows[:, 0], np.broadcast_to(weights, (300, 20)) / 300)
    assert often[terminated].sum() == pytest.approx(0.003, rel=1e-5)
    assert often[~terminated].sum() == pytest.approx(0.997, rel=1e-5)
    assert [group.taken for group in make_groups(terminated, 200, 0.1)] == [197, 3]
    everything = make_groups(np.ones(50, dtype=bool), 20, 0.1)
    assert [group.taken for group in everything] == [20]
