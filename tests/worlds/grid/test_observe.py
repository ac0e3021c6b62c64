"""Tables of observations agree with what the environment gives, state by state."""

import gymnasium
import numpy as np
import pytest

from drogo import GridWorld
from drogo.errors import ArgumentError
from drogo.worlds.grid import COLOURS, KINDS
from raising import raises


@pytest.mark.parametrize(("kind", "tile"), [*((k, 1) for k in KINDS), ("pixels", 3)])
def test_table_equals_the_environment(kind, tile):
    world = GridWorld.load("grid-task")
    env = gymnasium.make("drogo/GridTask-v0", observation=kind, tile=tile)
    table = world.observations(kind, tile=tile)
    assert len(table) == world.n_states
    for state in np.flatnonzero(~world.terminal):
        seen, _ = env.reset(options={"state": int(state)})
        assert np.array_equal(seen, table[state])
        assert env.observation_space.contains(seen)


def test_coordinates_by_hand():
    table = GridWorld.parse("#####\n#S.G#\n#...#\n#####").observations("coordinates")
    assert table.dtype == np.float32
    assert np.allclose(table[0], [1 / 4 - 0.5, 1 / 3 - 0.5])
    assert np.allclose(table[5], [3 / 4 - 0.5, 2 / 3 - 0.5])


def test_pixels_by_hand():
    world = GridWorld.parse("#####\n#SxG#\n#####")
    images = world.observations("pixels")
    assert images.shape == (3, 3, 5, 3)
    assert np.abs(images).max() <= 0.5
    colours = [COLOURS["agent"], COLOURS["low reward"], COLOURS["goal"]]
    assert np.allclose(images[0, 1, 1:4], np.array(colours) - 0.5)
    assert np.allclose(images[:, 0], np.array(COLOURS["wall"]) - 0.5)
    large = world.observations("pixels", tile=4)
    assert np.array_equal(large[:, ::4, ::4], images)


def test_observations_are_distinct():
    world = GridWorld.load("grid-room")
    for kind in KINDS:
        assert len(np.unique(world.observations(kind), axis=0)) == world.n_states


def test_a_table_that_would_not_fit_is_refused():
    text = "\n".join(["#" * 302, *["#" + "." * 299 + "G#"] * 300, "#" * 302])
    world = GridWorld.parse(text)
    with raises(ArgumentError, "observation"):  # 30 GiB
        world.observations("one-hot")
    assert world.observations("coordinates").shape == (90000, 2)
