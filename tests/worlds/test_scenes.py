"""The scenes of MiniGrid environments, within which only the agent moves."""

import numpy as np

import needs
from drogo.worlds import MiniGridWorld, scenes as module
from drogo.worlds.scenes import scene_names, scenes

OBJECT_TO_IDX = needs.module("minigrid.core.constants").OBJECT_TO_IDX


def test_a_key_and_a_door(monkeypatch):
    world = MiniGridWorld("MiniGrid-DoorKey-5x5-v0")
    listed = scenes(world)
    names = "nothing in hand, door locked", "key in hand, door locked", "key in hand, door open"
    assert tuple(scene.name for scene in listed) == names
    kinds = [sorted(mark.kind for mark in scene.marks) for scene in listed]
    assert kinds == [["door", "goal", "key", "start"], *[["door", "goal"]] * 2]
    doors = [mark.is_open for scene in listed for mark in scene.marks if mark.kind == "door"]
    assert doors == [False, False, True]
    goal = next(mark for mark in listed[2].marks if mark.kind == "goal")
    distance = np.abs(world.positions - [goal.column, goal.row]).sum(axis=1).astype(float)
    over = [scene.over_cells(distance)[goal.row, goal.column] for scene in listed]
    np.testing.assert_array_equal(over, [np.nan, np.nan, 0])  # first behind the door
    states = np.concatenate([scene.states for scene in listed])
    assert len(states) == len(set(states))  # every state is in no more than one scene
    monkeypatch.setattr(module, "MOST", 2)
    assert [scene.name for scene in scenes(world)] == [names[0], names[2]]


def test_the_mean_is_over_directions_and_lava_has_none():
    world = MiniGridWorld("MiniGrid-Empty-5x5-v0")
    (scene,) = scenes(world)
    assert scene.name == ""
    direction = np.array([name[1] for name in world.moves.states], dtype=float)
    over = scene.over_cells(direction)
    assert over[1, 1] == 1.5
    assert np.isnan(over[scene.walls]).all()
    assert scene.walls.sum() == 16
    world = MiniGridWorld("MiniGrid-LavaGapS5-v0")
    (scene,) = scenes(world)
    assert scene.lava.any()
    assert np.isnan(scene.over_cells(np.zeros(world.n_states))[scene.lava]).all()


def test_names_of_several_doors_and_of_things_that_moved():
    door, ball = OBJECT_TO_IDX["door"], OBJECT_TO_IDX["ball"]

    def doors(*states):
        return (None, tuple((k, door, 0, state, None) for k, state in enumerate(states)))

    names = scene_names([doors(1, 1), doors(0, 1), doors(0, 0)])
    assert names == [f"{k} of 2 doors open" for k in range(3)]
    moved = [(None, ((place, ball, 0, 0, None),)) for place in (7, 8)]
    assert scene_names(moved) == ["scene 1", "scene 2"]
    assert scene_names(moved[:1]) == [""]
