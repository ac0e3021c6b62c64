"""The shaping experiment: potentials, intervals and table cells."""

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo.potential import mean_step
from drogo_paper.agents import Training, compare
from drogo_paper.agents.shaping_experiment import (
    potentials,
    successor_distance,
    successor_potential,
    summarise,
)


def test_potentials_of_all_methods():
    world = GridWorld.load("four-rooms")
    learned = {"DR one-hot": np.stack([exact.log_column(world.mdp, lam) for lam in (20.0, 10.0)])}
    phis = potentials(world, learned, seeds=3, lam=20.0, discount=0.99)
    assert list(phis) == ["none", "SR", "SR distance", "DR exact", "DR one-hot"]
    assert phis["none"] is None
    for name in list(phis)[1:]:
        assert phis[name].shape == (3, 104)
        np.testing.assert_allclose(mean_step(phis[name], world.mdp.neighbours), 1)
        assert (phis[name].argmax(axis=1) == world.terminal.argmax()).all()
    np.testing.assert_allclose(phis["DR one-hot"][0], phis["DR exact"][0], rtol=1e-12)
    np.testing.assert_array_equal(phis["DR one-hot"][2], phis["DR one-hot"][0])
    zero = potentials(world, {}, seeds=1, lam=20.0, discount=0.99, terminal="zero")
    assert (zero["SR"][:, world.terminal] == 0).all()
    assert (phis["SR"][:, world.terminal] != 0).all()


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_shaping_helps_and_avoids_the_costly_cells():
    """A short run of the paper's question: exact DR against SR and nothing, in four-rooms."""
    world = GridWorld.load("four-rooms")
    phis = potentials(world, {}, seeds=4, lam=20.0, discount=0.99)
    training = Training(world.step_limit, world.low_reward, steps=20_000)
    grids = compare(world.mdp, phis, training, seeds=4)
    rows = summarise(grids)
    steps = {name: row.steps_to_optimal.mean for name, row in rows.items()}
    visits = {name: row.low_reward_visits.mean for name, row in rows.items()}
    assert steps["DR exact"] < steps["SR"] < steps["none"]
    assert visits["DR exact"] < visits["SR"]
    assert rows["DR exact"].apart["steps_to_optimal"]
    assert not rows["SR"].apart["steps_to_optimal"]


def test_successor_baselines_by_hand():
    """Two states and a terminal one in a row, moves left and right: the SR in plain NumPy."""
    world = GridWorld.parse("#####\n#S.G#\n#####")
    P = np.array([[3, 1, 0], [1, 2, 1], [0, 0, 0]]) / 4
    sr = np.linalg.inv(np.eye(3) - 0.99 * P)
    values, vectors = np.linalg.eigh((sr + sr.T) / 2)
    e = np.abs(vectors[:, values.argmax()])
    np.testing.assert_allclose(successor_potential(world.mdp), -e, rtol=1e-9)
    np.testing.assert_allclose(successor_distance(world.mdp), -((e - e[2]) ** 2), rtol=1e-9)
    assert successor_potential(world.mdp).argmax() == 2
