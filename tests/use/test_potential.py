"""Potentials: where they come from, how they are scaled, what they refuse."""

import gymnasium
import numpy as np
import pytest

from drogo import GridWorld, Potential, Transitions, collect, exact, fit
from drogo.potential import mean_step, normalised
from drogo.use import successor_distance, successor_potential

CORRIDOR = "######\n#S..G#\n######"


def ordered_pairs_of_cells(world):
    """Neighbouring free cells, found on the map itself."""
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
    # Steps of 4 and 8: 6 on average.
    np.testing.assert_allclose(phi([[0.0], [1.0], [3.0]]), [0, -4 / 6, -2])


def test_of_a_vector_over_states():
    world = GridWorld.load("four-rooms")
    v = exact.log_column(world.mdp, 20.0)
    phi = Potential.from_states(world.observations("pixels"), v)
    np.testing.assert_array_equal(phi(world.observations("pixels")[[5, 3]]), v[[5, 3]])
    with pytest.raises(ValueError, match="104 states, and observation .* none of them"):
        phi(world.observations("pixels")[:1] + 0.25)
    with pytest.raises(ValueError, match=r"shape \(13, 13, 3\), in batches"):
        phi(world.observations("coordinates"))
    with pytest.raises(ValueError, match="3 values do not fit 104"):
        Potential.from_states(world.observations("pixels"), np.zeros(3))


@pytest.fixture(scope="module")
def result():
    env = gymnasium.make("drogo/GridWorld-v0", world=GridWorld.parse(CORRIDOR), observation="coordinates")  # fmt: skip
    return fit(collect(env, 2000, seed=0), preset="fast", updates=300, seeds=[0, 4])


def test_of_a_fit(result, tmp_path):
    from drogo import load

    phi = result.potential(seed=4)
    world = GridWorld.parse(CORRIDOR)
    expected = normalised(result.v[1], world.mdp.neighbours)
    np.testing.assert_allclose(phi(world.observations("coordinates")), expected)
    np.testing.assert_array_equal(
        result.potential(4, normalised=False)(result.observations), result.v[1]
    )
    unseen = np.array([[0.1, 0.2]])
    np.testing.assert_allclose(phi(unseen), result(unseen)[1] / result.mean_step[1], rtol=1e-5)
    result.save(tmp_path / "fit.npz")
    np.testing.assert_array_equal(load(tmp_path / "fit.npz").potential(4)(unseen), phi(unseen))
    with pytest.raises(ValueError, match=r"seed 1 is none of this fit's: \[0, 4\]"):
        result.potential(1)


@pytest.mark.filterwarnings("ignore:.*diverged")
def test_a_diverged_seed_is_no_potential(result):
    from dataclasses import replace

    lost = replace(result, status=("converged", "diverged"), diverged_at=(None, 17))
    with pytest.raises(ValueError, match="seed 4 diverged at update 17"):
        lost.potential(4)


def test_objectives_of_unit_norm_agree_with_their_network():
    env = gymnasium.make("drogo/GridWorld-v0", world=GridWorld.parse(CORRIDOR), observation="coordinates")  # fmt: skip
    found = fit(collect(env, 2000, seed=0), preset="fast", updates=100, objective="natural_gdo")
    phi = found.potential(normalised=False)
    known = found.observations[:1]
    # One bit aside, the observation is unknown and goes through the network.
    aside = np.nextafter(known, np.float32(1), dtype=np.float32)
    np.testing.assert_allclose(phi(aside), phi(known), atol=1e-4)


def test_nan_and_wrong_shapes_are_errors():
    with pytest.raises(ValueError, match="is nan at observation"):
        Potential(lambda batch: np.full(len(batch), np.nan))(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"returned shape \(2, 3\) for 2"):
        Potential(lambda batch: batch)(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="no state has a neighbour"):
        mean_step(np.zeros(3), np.zeros((0, 2), int))
    with pytest.raises(ValueError, match="constant"):
        mean_step(np.zeros(3), np.array([[0, 1]]))


def test_successor_baselines_by_hand():
    """Two states and an end in a row, moves left and right: SR and its eigenvector in plain numpy."""
    world = GridWorld.parse("#####\n#S.G#\n#####")
    P = np.array([[3, 1, 0], [1, 2, 1], [0, 0, 0]]) / 4
    P[0, 0] = 0.75
    sr = np.linalg.inv(np.eye(3) - 0.99 * P)
    values, vectors = np.linalg.eigh((sr + sr.T) / 2)
    e = np.abs(vectors[:, values.argmax()])
    np.testing.assert_allclose(successor_potential(world.mdp), -e, rtol=1e-9)
    np.testing.assert_allclose(successor_distance(world.mdp), -((e - e[2]) ** 2), rtol=1e-9)
    assert successor_potential(world.mdp).argmax() == 2
