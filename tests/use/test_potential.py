"""Potentials: how they are made and scaled, and what they refuse."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import drogo
from drogo import Column, Drogo, GridWorld, Potential, Transitions, collect, exact, fit
from drogo.errors import ArgumentError, DataError
from drogo.learn import MLP
from drogo.potential import mean_step, normalised
from raising import raises, refused
from random_mdps import corridor
from small_data import data_of

WORLD = GridWorld.parse("######\n#S..G#\n######")


@pytest.mark.parametrize("name", ["grid-task", "four-rooms", "grid-maze", "grid-room"])
def test_scale_is_the_mean_over_ordered_pairs_of_cells(name):
    world = GridWorld.load(name)
    v = exact.log_column(world.mdp, 20.0)
    apart = np.abs(np.array(world.cells)[:, None] - world.cells).sum(axis=2)
    by_hand = np.abs(v[:, None] - v)[apart == 1].mean()
    assert mean_step(v, world.mdp.neighbours) == pytest.approx(by_hand, rel=1e-12)
    assert mean_step(normalised(v, world.mdp.neighbours), world.mdp.neighbours) == pytest.approx(1)


@pytest.mark.parametrize(
    ("costs", "steps"),
    [([3, 3, 3, 3], [4, 3, 2, 1, 0]), ([1, 1, 4], [3, 2.5, 2, 0]), ([0.5], [1, 0])],
)
@pytest.mark.parametrize("bonus", [0.0, 6.0])
def test_the_value_of_a_reward_at_the_goal_by_hand(costs, steps, bonus):
    """In a chain without choices, v is minus the cost to come over lam, whatever lam is. A step is
    the mean one, so the distances are costs over the mean cost."""
    chain = np.eye(len(steps), k=1)
    mdp = drogo.MDP.from_arrays(chain, [*-np.array(costs, float), bonus], [len(costs)])
    expected, given = 2 * 0.9 ** np.array(steps), {"goal_reward": 2.0, "discount": 0.9}
    states = np.arange(len(steps))
    phi = drogo.solve(mdp, Column(lam=7.0)).potential(**given)
    np.testing.assert_allclose(phi(states), expected, rtol=1e-12)
    assert phi.at(states[0]) == pytest.approx(expected[0])
    assert phi.discount == 0.9
    phi = drogo.solve(mdp, drogo.Goals(lam=7.0)).potential(goal=states[-1], **given)
    np.testing.assert_allclose(phi(states), expected, rtol=1e-12)


def test_the_value_of_a_reward_at_the_goal_where_there_are_choices_and_wrong_ones():
    """At a small lam, v is minus the cost of the best way over lam, so distances are whole steps."""
    mdp, given = corridor(9), {"goal_reward": 2.0, "discount": 0.9}
    solution = drogo.solve(mdp, Column(lam=1e-3))
    states = solution.observations
    np.testing.assert_allclose(solution.potential(**given)(states), 2 * 0.9 ** np.arange(8, -1, -1))
    ring = drogo.MDP.from_arrays(np.roll(np.eye(4), 1, axis=1), [-1.0, -2.0, -1.0, -2.0])
    spectrum, task = drogo.solve(mdp, drogo.Spectrum(2)), drogo.solve(ring, drogo.Continuing())
    for source, change, argument in [
        (solution, {"goal_reward": 0.0}, "goal_reward"),
        (solution, {"goal_reward": None}, "goal_reward"),
        (solution, {"discount": 1.0}, "discount"),
        (solution, {"normalised": False}, "goal_reward"),
        (spectrum, {"vector": 1}, None),
        (task, {}, None),
    ]:
        with raises(ArgumentError, argument):
            source.potential(**{**given, **change})


def test_a_callable_is_normalised_by_transitions():
    data = Transitions.from_arrays([[0.0], [1.0]], [[1.0], [3.0]], [-1, -1], [False, True])
    phi = Potential(lambda batch: -4 * batch[:, 0]).normalised(data)
    # The differences are 4 and 8, and 6 on average.
    np.testing.assert_allclose(phi([[0.0], [1.0], [3.0]]), [0, -4 / 6, -2])
    world = GridWorld.load("four-rooms")
    data = collect(gymnasium.make("drogo/FourRooms-v0", observation="coordinates"), 20_000, seed=0)
    np.testing.assert_array_equal(data.neighbours, world.mdp.neighbours)


@pytest.mark.parametrize("kind", ["state", "one-hot", "coordinates", "pixels"])
def test_observations_are_looked_up(kind):
    world = GridWorld.load("four-rooms")
    v, table = exact.log_column(world.mdp, 20.0), world.observations(kind)
    phi = Potential.from_states(table, v)
    np.testing.assert_array_equal(phi(table[[5, 3]]), v[[5, 3]])
    assert [phi.at(observation) for observation in table] == v.tolist()
    assert phi(table[:0]).shape == (0,)
    assert phi.at(np.array(table[3], dtype=np.float64, order="F")) == v[3]
    assert type(phi.at(table[3].tolist())) is float
    other = world.observations("one-hot" if kind == "pixels" else "pixels")
    wrong = [(phi.at, table[0] + 200), (phi.at, table), (phi, table[:1] + 0.25), (phi, other)]
    wrong += [(phi, table[0]), (lambda values: Potential.from_states(table, values), np.zeros(3))]
    for call, argument in wrong:
        with pytest.raises(ArgumentError):
            call(argument)


def test_other_observations_go_to_another_potential():
    table, values = np.array([[0.0], [1.0]]), np.array([5.0, 6.0])
    batches = []
    other = Potential(lambda batch: batches.append(batch.tolist()) or batch[:, 0] * 10)
    phi = Potential.from_states(table, values, otherwise=other)
    np.testing.assert_array_equal(phi([[3.0], [1.0], [4.0], [0.0]]), [30, 6, 40, 5])
    assert (phi.at([1.0]), phi.at([3.0]), batches) == (6, 30, [[[3.0], [4.0]], [[3.0]]])
    data = Transitions.from_arrays([[0.0]], [[1.0]], [-1], [True])
    half = Potential.from_states(table, 2 * values, otherwise=other).normalised(data)
    assert (half.at([1.0]), half.at([3.0])) == (6, 15)
    np.testing.assert_array_equal(half([[1.0], [3.0]]), [6, 15])
    twice = np.array([[0.0], [1.0], [0.0]])
    assert Potential.from_states(twice, np.array([1.0, 2.0, 1.0])).at([0.0]) == 1
    for wrong in ((twice, np.array([1.0, 2.0, 3.0])), (np.array(3), np.zeros(1))):
        refused(ArgumentError, None, Potential.from_states, *wrong)


@pytest.fixture(scope="module", params=[Drogo(updates=50), drogo.NaturalGDO(updates=50)])
def result(request):
    data, network = data_of(WORLD, "coordinates", 2000), MLP(leak=0.5, width=16, depth=2)
    return fit(data, Column(), request.param, network=network, seeds=[0, 4])


def test_of_a_fit(result):
    phi, places = result.potential(seed=4), WORLD.observations("coordinates")
    expected = normalised(result.v[1], WORLD.mdp.neighbours)
    np.testing.assert_allclose(phi(places), expected)
    raw = result.potential(4, normalised=False)
    np.testing.assert_array_equal(raw(result.observations), result.v[1])
    assert [phi.at(place) for place in places] == pytest.approx(expected)
    # Observations that differ in the last bit go through the network.
    close = np.nextafter(result.observations, np.float32(1), dtype=np.float32)
    np.testing.assert_allclose(raw(close[:1]), raw(result.observations[:1]), atol=1e-4)
    for unseen in (np.array([[0.1, 0.2]]), close):
        singly = [phi.at(one) for one in unseen]
        assert singly == pytest.approx(phi(unseen).tolist(), rel=1e-5, abs=1e-6)
        np.testing.assert_allclose(phi(unseen), result(unseen)[1] / result.mean_step[1], rtol=1e-5)
    diverged = replace(result, status=("converged", "diverged"), diverged_at=(None, 17))
    for solution, seed in ((result, 1), (diverged, 4)):
        refused(ArgumentError, "seed", solution.potential, seed)


def test_nan_and_wrong_shapes_are_errors():
    nan = Potential(lambda batch: np.full(len(batch), np.nan))
    table = Potential.from_states(np.zeros((1, 3)), np.array([np.nan]))
    same, one, batch = Potential(lambda batch: batch), np.zeros(3), np.zeros((1, 3))
    for function, *arguments in (
        *((call, batch) for call in (nan, table, same)),
        *((call.at, one) for call in (nan, table, same)),
        (mean_step, one, np.zeros((0, 2), int)),
        (mean_step, one, np.array([[0, 1]])),
    ):
        refused(ArgumentError, None, function, *arguments)


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        (np.arange(3), 0.5),
        (np.arange(3), np.nan),
        (np.arange(3, dtype=np.uint8), 256),
        (np.arange(3, dtype=np.uint8), -254),
        (np.array([False, True]), 0.5),
        (np.array([False, True]), 2),
        (np.array([0, 2**24], dtype=np.float32), 2**24 + 1),
        (np.array([[0, 255], [255, 0]], dtype=np.uint8), [0.5, 1.0]),
    ],
)
def test_no_observation_is_taken_for_another(table, asked):
    """Cast to bytes, the numbers in [0, 1] of a scaled image would all be black."""
    potential = Potential.from_states(table, np.arange(float(len(table))))
    assert potential.at(table[1]) == potential(table[1:].astype(float))[0] == 1
    refused(DataError, None, potential.at, asked)
    refused(DataError, None, potential, np.array([asked]))
