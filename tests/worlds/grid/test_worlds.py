"""The shipped worlds, against the facts known of them."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csgraph

from drogo import GridWorld
from drogo.worlds import names

# name: width, height, states, low-reward cells, goals, step limit, best return from the start
FACTS = {
    "grid-task": (15, 10, 104, 12, 1, 100, -17),
    "four-rooms": (13, 13, 104, 15, 1, 200, -17),
    "grid-room": (21, 21, 272, 13, 1, 1000, -74),
    "grid-maze": (19, 19, 162, 3, 1, 1000, -73),
    "grid-room-large": (26, 26, 427, 54, 1, 1000, -95),
    "grid-maze-large": (29, 29, 394, 7, 1, 1000, -146),
    "four-rooms-multigoal": (13, 13, 104, 32, 4, 200, None),
}


def best_return(world):
    """Cheapest way from the start to a goal, by Dijkstra."""
    states = np.repeat(np.arange(world.n_states), 4)
    cost = -world.reward[states]
    live = ~world.terminal[states]
    graph = coo_array(
        (cost[live], (states[live], world.next_state.ravel()[live])), shape=(world.n_states,) * 2
    ).tocsr()
    graph.setdiag(0)
    # Parallel moves add up in a COO matrix; walls only ever duplicate the diagonal.
    distance = csgraph.dijkstra(graph, indices=int(world.start.argmax()))
    return -distance[world.terminal].min()


@pytest.mark.parametrize("name", FACTS)
def test_facts(name):
    width, height, states, low, goals, limit, best = FACTS[name]
    world = GridWorld.load(name)
    assert world.shape == (height, width)
    assert world.n_states == states
    assert world.low_reward.sum() == low
    assert world.terminal.sum() == goals
    assert world.step_limit == limit
    if best is not None:
        assert best_return(world) == best


@pytest.mark.parametrize("name", names())
def test_every_world_loads(name):
    world = GridWorld.load(name)
    assert world.mdp.n_states == world.n_states
    assert set(np.unique(world.reward)) <= {-20.0, -1.0, 0.0}
    if name.endswith("-plain"):
        assert not world.low_reward.any()
        assert world.n_states == GridWorld.load(name.removesuffix("-plain")).n_states


def test_ring_has_two_ways():
    """The short way leads through the costly top, the cheap one around the bottom."""
    world = GridWorld.load("ring")
    assert best_return(world) > best_return(GridWorld.load("ring", rewards={"x": -1000.0})) - 1
    around = best_return(world)
    straight = best_return(GridWorld.load("ring", rewards={"x": -1.0}))
    assert around < straight < 0


def test_changed_cells_are_those_of_the_changed_map():
    world = GridWorld.parse("#####\n#S.x#\n#..G#\n#####")
    changed = world.mdp_with({(1, 1): ".", (1, 3): "G", (2, 3): "S", (2, 1): "x"})
    redrawn = GridWorld.parse("#####\n#..G#\n#x.S#\n#####").mdp
    assert (changed.P != redrawn.P).nnz == 0
    for name in ("reward", "terminal", "start"):
        np.testing.assert_array_equal(getattr(changed, name), getattr(redrawn, name))
    assert changed.states == world.mdp.states


def test_a_cell_that_becomes_a_wall():
    """The corridor 0 1 2 G with a bay 3 4: state 1 is walled off, and its neighbours stay."""
    world = GridWorld.parse("######\n#S..G#\n#..###\n######")
    changed = world.mdp_with({(1, 2): "#", (2, 1): "G"})
    assert changed.terminal.tolist() == [False, True, False, True, True, False]
    P = changed.P.toarray()
    assert P[:, 1].max() == 0
    assert P[0].tolist() == [0.75, 0, 0, 0, 0.25, 0]
    assert P[2].tolist() == [0, 0, 0.75, 0.25, 0, 0]
    assert changed.start.tolist() == [1, 0, 0, 0, 0, 0]
