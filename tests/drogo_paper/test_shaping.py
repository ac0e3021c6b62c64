"""The shaping table: potentials, intervals, and the published numbers."""

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo.agents import compare
from drogo.potential import mean_step
from drogo.runs import Interval
from drogo_paper import published, shaping, shaping_runs


def test_potentials_of_all_methods():
    world = GridWorld.load("four-rooms")
    learned = {"DR one-hot": np.stack([exact.log_column(world.mdp, lam) for lam in (20.0, 10.0)])}
    made = shaping_runs.potentials(world, learned, seeds=3, lam=20.0, discount=0.99)
    assert list(made) == ["none", "SR", "SR distance", "DR exact", "DR one-hot"]
    assert made["none"] is None
    for name in list(made)[1:]:
        assert made[name].shape == (3, 104)
        np.testing.assert_allclose(mean_step(made[name], world.mdp.neighbours), 1)
        assert (made[name].argmax(axis=1) == world.terminal.argmax()).all()
    np.testing.assert_allclose(made["DR one-hot"][0], made["DR exact"][0], rtol=1e-12)
    np.testing.assert_array_equal(made["DR one-hot"][2], made["DR one-hot"][0])
    zero = shaping_runs.potentials(world, {}, seeds=1, lam=20.0, discount=0.99, terminal="zero")
    assert (zero["SR"][:, world.terminal] == 0).all()
    assert (made["SR"][:, world.terminal] != 0).all()


def test_shaping_helps_and_avoids_the_costly_cells():
    """A short run of the paper's question: exact DR against SR and nothing, in four-rooms."""
    world = GridWorld.load("four-rooms")
    phis = shaping_runs.potentials(world, {}, seeds=4, lam=20.0, discount=0.99)
    grids = compare(
        world.mdp,
        phis,
        seeds=4,
        step_limit=world.step_limit,
        low_reward=world.low_reward,
        steps=20_000,
    )
    rows = shaping.summarise(grids)
    steps = {name: row.steps_to_optimal.mean for name, row in rows.items()}
    visits = {name: row.low_reward_visits.mean for name, row in rows.items()}
    assert steps["DR exact"] < steps["SR"] < steps["none"]
    assert visits["DR exact"] < visits["SR"]
    assert rows["DR exact"].apart["steps_to_optimal"]
    assert not rows["SR"].apart["steps_to_optimal"]
    assert shaping.summarise(grids) == rows
    lines = shaping.compared("four-rooms", rows)
    assert [line[0] for line in lines] == ["none", "SR"] * 2


def test_published_numbers():
    """Spot checks against the printed table."""
    found = published.shaping("steps_to_optimal", "grid-maze", "DR pixels")
    np.testing.assert_allclose(found, (7470, 6020, 9100))
    np.testing.assert_allclose(
        published.shaping("low_reward_visits", "four-rooms", "SR"), (130, 127, 133)
    )
    assert published.shaping("steps_to_optimal", "grid-room", "SR") is None
    assert published.shaping("low_reward_visits", "mine", "SR") is None


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ((5, 4, 6), (5, 4.5, 5.5), "inside the published interval"),
        ((6, 5, 7), (5, 4.5, 5.5), "+20 %, intervals overlap"),
        ((4, 3.5, 4.2), (5, 4.5, 5.5), "-20 %, intervals apart"),
        ((np.inf,) * 3, (5, 4, 6), "does not converge here"),
        ((np.inf,) * 3, None, "no convergence in either"),
        ((5, 4, 6), None, "converges here, not in the paper"),
    ],
)
def test_verdicts(ours, theirs, words):
    as_interval = [None if x is None else Interval(*map(float, x)) for x in (ours, theirs)]
    assert published.verdict(*as_interval) == words


def test_cells():
    assert shaping.cell(Interval(1370.0, 1330.0, 1410.0), 1000) == "1.37 [1.33, 1.41]"
    assert shaping.cell(Interval(np.inf, np.inf, np.inf), 1000) == "-"
