"""Potentials: how they are made and scaled, and what they refuse."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import drogo
from drogo import Column, Drogo, GridWorld, Potential, Transitions, collect, exact, fit
from drogo.errors import ArgumentError
from drogo.learn import MLP
from drogo.potential import mean_step, normalised
from raising import raises

CORRIDOR = "######\n#S..G#\n######"


def ordered_pairs_of_cells(world):
    """Pairs of neighbouring free cells of the map."""
    for i, (row, column) in enumerate(world.cells):
        for j, (other_row, other_column) in enumerate(world.cells):
            if abs(row - other_row) + abs(column - other_column) == 1:
                yield i, j


@pytest.mark.parametrize("name", ["grid-task", "four-rooms", "grid-maze", "grid-room"])
def test_scale_is_the_mean_over_ordered_pairs_of_cells(name):
    world = GridWorld.load(name)
    v = exact.log_column(world.mdp, 20.0)
    by_hand = np.mean([abs(v[i] - v[j]) for i, j in ordered_pairs_of_cells(world)])
    assert mean_step(v, world.mdp.neighbours) == pytest.approx(by_hand, rel=1e-12)
    assert mean_step(normalised(v, world.mdp.neighbours), world.mdp.neighbours) == pytest.approx(1)


def test_transitions_know_the_same_neighbours():
    world = GridWorld.load("four-rooms")
    env = gymnasium.make("drogo/FourRooms-v0", observation="coordinates")
    data = collect(env, 20_000, seed=0)
    np.testing.assert_array_equal(data.neighbours, world.mdp.neighbours)


def test_a_callable_is_normalised_by_transitions():
    data = Transitions.from_arrays([[0.0], [1.0]], [[1.0], [3.0]], [-1, -1], [False, True])
    phi = Potential(lambda batch: -4 * batch[:, 0]).normalised(data)
    # The differences are 4 and 8, and 6 on average.
    np.testing.assert_allclose(phi([[0.0], [1.0], [3.0]]), [0, -4 / 6, -2])


def test_of_a_vector_over_states():
    world = GridWorld.load("four-rooms")
    v = exact.log_column(world.mdp, 20.0)
    phi = Potential.from_states(world.observations("pixels"), v)
    np.testing.assert_array_equal(phi(world.observations("pixels")[[5, 3]]), v[[5, 3]])
    pixels = world.observations("pixels")
    for observations in (pixels[:1] + 0.25, world.observations("coordinates"), pixels[0]):
        with pytest.raises(ArgumentError):
            phi(observations)
    with pytest.raises(ArgumentError):
        Potential.from_states(pixels, np.zeros(3))


def test_units_with_a_leak_say_the_same_of_one_observation():
    env = gymnasium.make("drogo/GridTask-v0", observation="coordinates")
    data = collect(env, 2000, seed=0)
    network = MLP(leak=0.5, width=16, depth=2)
    result = fit(data, Column(), Drogo(updates=5), network=network)
    phi = result.potential(normalised=False)
    unseen = np.array([[0.123, -0.321], [-0.4, 0.05]], dtype=np.float32)
    found = [phi.at(observation) for observation in unseen]
    assert found == pytest.approx(phi(unseen).tolist(), rel=1e-5)


@pytest.mark.parametrize("kind", ["state", "one-hot", "coordinates", "pixels"])
def test_single_observations_are_looked_up(kind):
    world = GridWorld.load("four-rooms")
    v = exact.log_column(world.mdp, 20.0)
    table = world.observations(kind)
    phi = Potential.from_states(table, v)
    assert [phi.at(observation) for observation in table] == v.tolist()
    assert phi(table[:0]).shape == (0,)
    assert phi.at(np.array(table[3], dtype=np.float64, order="F")) == v[3]
    assert type(phi.at(table[3].tolist())) is float
    with pytest.raises(ArgumentError):
        phi.at(table[0] + 200)
    with pytest.raises(ArgumentError):
        phi.at(table)


def test_other_observations_go_to_another_potential():
    table, values = np.array([[0.0], [1.0]]), np.array([5.0, 6.0])
    batches, singles = [], []
    other = Potential(
        lambda batch: batches.append(batch.tolist()) or batch[:, 0] * 10,
        single=lambda observation: singles.append(observation.tolist()) or observation[0] * 10,
    )
    phi = Potential.from_states(table, values, otherwise=other)
    np.testing.assert_array_equal(phi([[3.0], [1.0], [4.0], [0.0]]), [30, 6, 40, 5])
    assert (phi.at([1.0]), phi.at([3.0])) == (6, 30)
    assert (batches, singles) == ([[[3.0], [4.0]]], [[3.0]])
    data = Transitions.from_arrays([[0.0]], [[1.0]], [-1], [True])
    half = Potential.from_states(table, 2 * values, otherwise=other).normalised(data)
    assert (half.at([1.0]), half.at([3.0])) == (6, 15)
    np.testing.assert_array_equal(half([[1.0], [3.0]]), [6, 15])


def test_scaled_images_are_refused():
    """Cast to bytes, numbers in [0, 1] would all be black."""
    phi = Potential.from_states(np.array([[0, 255], [255, 0]], dtype=np.uint8), np.zeros(2))
    for call in (phi.at, lambda observation: phi(observation[None])):
        assert call(np.array([0.0, 255.0])) == 0
        with pytest.raises(ArgumentError):
            call(np.array([0.5, 1.0]))


@pytest.fixture(scope="module")
def result():
    env = gymnasium.make("drogo/GridWorld-v0", world=GridWorld.parse(CORRIDOR), observation="coordinates")  # fmt: skip
    return fit(collect(env, 2000, seed=0), Column(), Drogo(updates=50), seeds=[0, 4])


def test_of_a_fit(result, tmp_path):
    phi = result.potential(seed=4)
    world = GridWorld.parse(CORRIDOR)
    expected = normalised(result.v[1], world.mdp.neighbours)
    np.testing.assert_allclose(phi(world.observations("coordinates")), expected)
    np.testing.assert_array_equal(
        result.potential(4, normalised=False)(result.observations), result.v[1]
    )
    assert [
        phi.at(observation) for observation in world.observations("coordinates")
    ] == pytest.approx(expected)
    unseen = np.array([[0.1, 0.2]])
    assert phi.at(unseen[0]) == pytest.approx(phi(unseen)[0], rel=1e-5)
    np.testing.assert_allclose(phi(unseen), result(unseen)[1] / result.mean_step[1], rtol=1e-5)
    result.save(tmp_path / "fit.npz")
    np.testing.assert_array_equal(
        drogo.load(tmp_path / "fit.npz").potential(4)(unseen), phi(unseen)
    )
    with raises(ArgumentError, "seed"):
        result.potential(1)


@pytest.mark.filterwarnings("ignore:.*diverged")
def test_a_diverged_seed_is_no_potential(result):
    diverged = replace(result, status=("converged", "diverged"), diverged_at=(None, 17))
    with raises(ArgumentError, "seed"):
        diverged.potential(4)


def test_objectives_of_unit_norm_agree_with_their_network():
    env = gymnasium.make("drogo/GridWorld-v0", world=GridWorld.parse(CORRIDOR), observation="coordinates")  # fmt: skip
    result = fit(collect(env, 2000, seed=0), Column(), drogo.NaturalGDO(updates=50))
    phi = result.potential(normalised=False)
    known = result.observations[:1]
    # An observation that differs in the last bit goes through the network.
    unseen = np.nextafter(known, np.float32(1), dtype=np.float32)
    np.testing.assert_allclose(phi(unseen), phi(known), atol=1e-4)


def test_nan_and_wrong_shapes_are_errors():
    nan = Potential(lambda batch: np.full(len(batch), np.nan))
    single = Potential(lambda batch: np.zeros(len(batch)), single=lambda observation: np.inf)
    table = Potential.from_states(np.zeros((1, 3)), np.array([np.nan]))
    same, one, batch = Potential(lambda batch: batch), np.zeros(3), np.zeros((1, 3))
    for function, *arguments in (
        *((call, batch) for call in (nan, table, same)),
        *((call.at, one) for call in (nan, single, table, same)),
        (mean_step, one, np.zeros((0, 2), int)),
        (mean_step, one, np.array([[0, 1]])),
    ):
        with pytest.raises(ArgumentError):
            function(*arguments)


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
    ],
)
def test_no_observation_is_taken_for_another(table, asked):
    potential = Potential.from_states(table, np.arange(float(len(table))))
    assert potential.at(table[1]) == 1
    with pytest.raises(ArgumentError):
        potential.at(asked)
    with pytest.raises(ArgumentError):
        potential(np.array([asked]))


def test_a_state_has_one_value_and_a_table_has_rows():
    twice = np.array([[0.0], [1.0], [0.0]])
    assert Potential.from_states(twice, np.array([1.0, 2.0, 1.0])).at([0.0]) == 1
    with pytest.raises(ArgumentError):
        Potential.from_states(twice, np.array([1.0, 2.0, 3.0]))
    with pytest.raises(ArgumentError):
        Potential.from_states(np.array(3), np.zeros(1))
