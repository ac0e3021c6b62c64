"""`MiniGridWorld`: the states that the search finds are the real environment's; and their scenes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import needs
from drogo import collect, exact
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.mdp import HasMDP
from drogo.worlds import scenes as module
from drogo.worlds.minigrid import ACTIONS, MiniGridWorld, NotSearchable, name_of
from drogo.worlds.scenes import scene_names, scenes
from raising import raises, refused

IDS = ["MiniGrid-LavaCrossingS9N2-v0", "MiniGrid-DoorKey-6x6-v0", "MiniGrid-Empty-5x5-v0"]
IDS += ["MiniGrid-GoToDoor-5x5-v0"]  # only `done` reaches its goal, and changes nothing to see
WRONG = {"step": [0.0], "lava": [1.0], "collision": [0.5], "observation": ["smell"]}
WRONG |= {"tile": [0, 1]}  # 1 does not show the direction
WRONG |= {"actions": [("jump",), ("left", "right")]}  # the second reach no goal
OBJECT_TO_IDX = needs.module("minigrid.core.constants").OBJECT_TO_IDX


@pytest.fixture(scope="module", params=IDS)
def world(request):
    return MiniGridWorld(request.param, layout=3)


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")  # it is a wrapper
def test_random_walks_of_the_real_environment_follow_the_tables(world):
    """The real MiniGrid is stepped with its own actions beside the tables."""
    check_env(world, skip_render_check=True)
    real = gymnasium.make(world.spec.id, disable_env_checker=True).unwrapped
    rng, over = np.random.default_rng(0), True
    for _ in range(500):
        if over or real.step_count > 300:
            real.reset(seed=3)
            state = 0
        action = int(rng.integers(len(world.actions)))
        _, reward, over, _, _ = real.step(ACTIONS.index(world.actions[action]))
        state = int(world.moves.next_state[state, action])
        assert world.moves.states[state] == name_of(real)
        assert bool(world.mdp.terminal[state]) == over
        assert not over or (world.mdp.reward[state] == 0) == (reward > 0)
    table = world.all_observations().reshape(world.n_states, -1)
    assert len(np.unique(table, axis=0)) == world.n_states
    assert (world.mdp.reward[world.mdp.terminal] == 0).any()
    world.reset(seed=0)
    rng, state = np.random.default_rng(1), 0
    for _ in range(300):
        _, reward, terminated, truncated, info = world.step(int(rng.integers(len(world.actions))))
        assert reward == world.mdp.reward[state] + info.get("terminal_reward", 0.0)
        over = terminated or truncated
        state = (world.reset()[1] if over else info)["state"]


@pytest.mark.parametrize("observation", ["rgb", "symbolic"])
def test_every_state_looks_different(observation):
    world = MiniGridWorld("MiniGrid-DoorKey-6x6-v0", observation=observation)
    fresh = MiniGridWorld("MiniGrid-DoorKey-6x6-v0", observation=observation)
    table = world.all_observations()
    assert len(np.unique(table.reshape(len(table), -1), axis=0)) == world.n_states
    if observation == "rgb":
        for state in range(0, world.n_states, 7):
            world.reset(options={"state": state})
            assert np.array_equal(world.render(world.tile), table[state])
            assert np.array_equal(fresh.reset(options={"state": state})[0], table[state])


def test_an_empty_room_by_hand():
    """3 x 3 cells in 4 directions, but the goal in a corner can be entered in two only."""
    empty = MiniGridWorld("MiniGrid-Empty-5x5-v0", tile=2)
    assert (empty.n_states, empty.positions.min(), empty.positions.max()) == (9 * 4 - 2, 1, 3)
    assert empty.actions == ("left", "right", "forward")
    assert int(empty.mdp.terminal.sum()) == 2
    assert isinstance(empty, HasMDP)
    # v = r/lam + log of the mean over three actions, in every non-terminal state
    v, move = exact.log_column(empty.mdp, lam=5.0), empty.moves.next_state
    for s in np.flatnonzero(~empty.mdp.terminal):
        assert v[s] == pytest.approx(-1 / 5 + np.log(np.exp(v[move[s]]).mean()), abs=1e-9)


def test_lava_has_a_terminal_reward_and_collisions_cost():
    world = MiniGridWorld("MiniGrid-LavaCrossingS9N2-v0", lava=-50.0)
    v = exact.log_column(world.mdp, lam=20.0)
    assert set(np.round(v[world.mdp.terminal], 6)) == {0.0, -2.5}
    # With a policy the environment is stepped, and otherwise the MDP is sampled.
    for policy in (None, lambda o, rng: int(rng.integers(3))):
        data = collect(world, 5000, seed=0, start="reset", policy=policy)
        assert set(data.reward) == {-1.0}
        assert set(data.terminal_reward[data.terminated]) <= {0.0, -50.0}
        assert len(data.observations) <= world.n_states
    world = MiniGridWorld("MiniGrid-Empty-5x5-v0", collision=-3.0)
    moves, live = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)]), ~world.mdp.terminal
    ahead = (world.positions + moves[[name[1] for name in world.mdp.states]])[live]
    faces_a_wall = ((ahead == 0) | (ahead == 4)).any(axis=1)
    assert np.array_equal(world.mdp.reward[live], np.where(faces_a_wall, -4.0, -1.0))


def test_wrong_settings():
    cases = [(name, {name: value}) for name, values in WRONG.items() for value in values]
    for argument, options in (*cases, ("observation", {"tile": 1000})):  # 9 GiB
        with raises(ArgumentError, argument):
            MiniGridWorld("MiniGrid-Empty-5x5-v0", **options).all_observations()
    refused(NotSearchable, "env", MiniGridWorld, "MiniGrid-Dynamic-Obstacles-5x5-v0")  # by chance
    refused(ArgumentTypeError, "lawa", MiniGridWorld, "MiniGrid-Empty-5x5-v0", lawa=-1.0)
    refused(ArgumentTypeError, "env", MiniGridWorld, "CartPole-v1")


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


def test_an_end_that_needs_drop_and_states_that_never_lead_to_it():
    """The key must be dropped before the box is picked up. A box that is opened is gone for good, and
    only the carried box tells the end from that."""
    world = MiniGridWorld("MiniGrid-UnlockPickup-v0", observation="symbolic")
    assert "drop" in world.actions
    assert (world.n_states, int(world.mdp.stuck.sum())) == (17_344, 8_324)
    assert len(world.all_observations()) == world.n_states  # no two of them look the same


def test_means_over_directions_and_names_of_scenes():
    world = MiniGridWorld("MiniGrid-Empty-5x5-v0")
    (scene,) = scenes(world)
    assert scene.name == ""
    over = scene.over_cells(np.array([name[1] for name in world.moves.states], dtype=float))
    assert over[1, 1] == 1.5
    assert np.isnan(over[scene.walls]).all()
    assert scene.walls.sum() == 16
    world = MiniGridWorld("MiniGrid-LavaGapS5-v0")
    (scene,) = scenes(world)
    assert scene.lava.any()
    assert np.isnan(scene.over_cells(np.zeros(world.n_states))[scene.lava]).all()
    door, ball = OBJECT_TO_IDX["door"], OBJECT_TO_IDX["ball"]

    def doors(*states):
        return (None, tuple((k, door, 0, state, None) for k, state in enumerate(states)))

    names = scene_names([doors(1, 1), doors(0, 1), doors(0, 0)])
    assert names == [f"{k} of 2 doors open" for k in range(3)]
    moved = [(None, ((place, ball, 0, 0, None),)) for place in (7, 8)]
    assert (scene_names(moved), scene_names(moved[:1])) == (["scene 1", "scene 2"], [""])
