"""Grid worlds: maps and errors in them, the shipped ones, observations, and the Gymnasium side."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings, strategies as st
from scipy.sparse import csgraph

from drogo import GridWorld
from drogo.errors import ArgumentError, ArgumentTypeError, MapError, MissingFile
from drogo.worlds import names, tabular
from drogo.worlds.grid import COLOURS, KINDS, GridWorldEnv
from drogo.worlds.shipped import environment_id
from raising import raises, refused

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
ROOM = "#####\n#S.G#\n#####"
HEADERS = ("goal S: 0", "speed: 3", "reward x: low", "step-limit: 0", "reward x: 2", "goal G: inf")
MAZE = GridWorldEnv("grid-maze", "state", start="uniform")


def best_return(world):
    """Cheapest way from the start to a goal, by Dijkstra."""
    graph = (world.mdp.P > 0).multiply(-world.reward[:, None])
    return -csgraph.dijkstra(graph, indices=int(world.start.argmax()))[world.terminal].min()


@pytest.mark.parametrize("name", FACTS)
def test_facts(name):
    world = GridWorld.load(name)
    low, goals = world.low_reward.sum(), world.terminal.sum()
    expected = FACTS[name]
    assert (*world.shape[::-1], world.n_states, low, goals, world.step_limit) == expected[:-1]
    assert expected[-1] in (None, best_return(world))


@pytest.mark.parametrize("name", names())
def test_every_world_loads_and_passes_the_checker(name):
    world = GridWorld.load(name)
    assert world.mdp.n_states == world.n_states
    assert set(np.unique(world.reward)) <= {-20.0, -1.0, 0.0}
    if name.endswith("-plain"):
        assert not world.low_reward.any()
        assert world.n_states == GridWorld.load(name.removesuffix("-plain")).n_states
    check_env(gymnasium.make(environment_id(name), disable_env_checker=True).unwrapped)


def test_the_ring():
    """The short way leads through the costly top, the cheap one around the bottom."""
    costly, plain = (GridWorld.load("ring", rewards={"x": cost}) for cost in (-1000.0, -1.0))
    assert best_return(costly) == best_return(GridWorld.load("ring")) < best_return(plain) < 0


@pytest.mark.parametrize(("kind", "tile"), [*((k, 1) for k in KINDS), ("pixels", 3)])
def test_tables_equal_what_the_environment_shows(kind, tile):
    world = GridWorld.load("grid-task")
    env = gymnasium.make("drogo/GridTask-v0", observation=kind, tile=tile)
    check_env(env.unwrapped, skip_render_check=True)
    table = world.observations(kind, tile=tile)
    assert len(np.unique(table, axis=0)) == world.n_states
    for state in np.flatnonzero(~world.terminal):
        assert np.array_equal(env.reset(options={"state": int(state)})[0], table[state])


def test_observations_by_hand_and_a_table_that_would_not_fit(monkeypatch):
    table = GridWorld.parse("#####\n#S.G#\n#...#\n#####").observations("coordinates")
    assert table.dtype == np.float32
    assert np.allclose(table[[0, 5]], [[1 / 4 - 0.5, 1 / 3 - 0.5], [3 / 4 - 0.5, 2 / 3 - 0.5]])
    world = GridWorld.parse("#####\n#SxG#\n#####")
    images = world.observations("pixels")
    assert images.shape == (3, 3, 5, 3)
    assert np.abs(images).max() <= 0.5
    colours = [COLOURS["agent"], COLOURS["low reward"], COLOURS["goal"]]
    assert np.allclose(images[0, 1, 1:4], np.array(colours) - 0.5)
    assert np.allclose(images[:, 0], np.array(COLOURS["wall"]) - 0.5)
    assert np.array_equal(world.observations("pixels", tile=4)[:, ::4, ::4], images)
    monkeypatch.setattr(tabular, "LARGEST_TABLE", 104 * 100)
    refused(ArgumentError, "observation", GridWorld.load("four-rooms").observations, "one-hot")


def test_render():
    for mode in ("ansi", "rgb_array"):
        env = gymnasium.make("drogo/GridTask-v0", render_mode=mode, disable_env_checker=True)
        check_env(env.unwrapped)
        env.reset()
        shown = env.render()
        shown = shown.split("\n")[5] if mode == "ansi" else shown.shape
        assert shown == {"ansi": "#......x@.....#", "rgb_array": (240, 360, 3)}[mode]


@pytest.mark.parametrize("imports", ["gymnasium, drogo", "drogo, gymnasium"])
def test_registered_in_any_order_of_import_without_heavy_packages(imports):
    code = (
        f"import sys, {imports}; print(gymnasium.spec('drogo/GridMaze-Large-v0').kwargs['world'], "
        "drogo.worlds.names()[1], *({'scipy', 'minigrid', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["grid-maze-large", "four-rooms"]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 2**31))
@settings(max_examples=50)
def test_steps_follow_the_mdp(actions, seed):
    env, world = MAZE, MAZE.world
    state, info = env.reset(seed=seed)
    for action in actions:
        assert info["state"] == state
        following, reward, terminated, truncated, info = env.step(action)
        assert world.mdp.transitions[action][state, following] == 1
        assert reward == world.reward[state]  # of the state that is left; a goal adds 0
        assert terminated == world.terminal[following]
        assert not truncated
        if terminated:
            break
        state = following


def in_a(text):
    env = gymnasium.make("drogo/GridWorld-v0", world=GridWorld.parse(text))
    env.reset(seed=0)
    return env


def test_the_last_step_of_an_episode_and_truncation_is_not_termination():
    env = in_a("#####\n#SxG#\n#####")
    assert env.step(0)[1:4] == (-1.0, False, False)
    assert env.step(0)[1:4] == (-20.0, True, False)
    _, reward, terminated, truncated, info = in_a("goal H: -50\n\n####\n#SH#\n####").step(0)
    assert (reward, terminated, truncated) == (-51.0, True, False)
    assert info == {"state": 1, "terminal_reward": -50.0}
    for limit in (None, 3):
        env = gymnasium.make("drogo/FourRooms-v0", step_limit=limit)
        env.reset(seed=0)
        flags = [env.step(2)[2:4] for _ in range(limit or 200)]
        assert flags == [(False, False)] * (len(flags) - 1) + [(False, True)]
    # Reaching the goal on the very last step is a termination.
    assert in_a("step-limit: 1\n\n####\n#SG#\n####").step(0)[2:4] == (True, False)


def test_starts_and_wrong_arguments():
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    world = env.unwrapped.world
    assert (env.reset(seed=1)[0], env.reset(options={"state": 7})[0]) == (world.start.argmax(), 7)
    anywhere = {int(env.reset(options={"start": "uniform"})[0]) for _ in range(2000)}
    assert anywhere == set(np.flatnonzero(~world.terminal).tolist())
    again = [env.reset(seed=3, options={"start": "uniform"})[0] for _ in range(2)]
    assert again[0] == again[1]
    for options in ({"state": 500}, {"place": 1}):
        refused(ArgumentError, "options", env.reset, options=options)
    refused(ArgumentError, "start", env.reset, options={"start": "goal"})
    wrong = {"observation": "text", "start": "goal", "step_limit": 0, "tile": 0}
    for argument, value in {**wrong, "render_mode": "human"}.items():
        refused(ArgumentError, argument, GridWorldEnv, "four-rooms", **{argument: value})
    refused(ArgumentError, "action", MAZE.step, 4)


def test_small_maps_headers_rewards_and_other_ways_to_write_them():
    world = GridWorld.parse("#####\n#SxG#\n#####")
    assert repr(world) == "GridWorld('map', 5 x 3 cells, 3 states)"
    assert world.reward.tolist() == [-1.0, -20.0, 0.0]
    assert world.terminal.tolist() == [False, False, True]
    assert (world.low_reward.tolist(), world.start.tolist()) == ([False, True, False], [1, 0, 0])
    assert world.next_state.tolist() == [[1, 0, 0, 0], [2, 1, 0, 1], [2, 2, 2, 2]]
    assert world.step_limit == 12
    assert [world.mdp.states[i] for i in range(3)] == [(1, 1), (1, 2), (1, 3)]
    text = "step-limit: 7\nreward w: -5\nreward .: -0.5\ngoal H: -50\n\n######\n#S.wH#\n#G...#\n######\n"
    world = GridWorld.parse(text)
    assert world.step_limit == 7
    assert world.reward.tolist() == [-0.5, -0.5, -5, -50, 0, -0.5, -0.5, -0.5]
    assert (world.low_reward.sum(), world.terminal.sum()) == (1, 2)
    changed = GridWorld.parse(text, rewards={"w": -9.0, "H": -3.0, "S": -0.25})
    assert changed.reward.tolist() == [-0.25, -0.5, -9, -3, 0, -0.5, -0.5, -0.5]
    for text in ("#####\n#SSG#\n#####", "#####\n#..G#\n#####"):
        assert GridWorld.parse(text).start.tolist() == [0.5, 0.5, 0]
    assert GridWorld.parse("step-limit: 9\n" + ROOM).step_limit == 9
    assert GridWorld.parse("goal .: 0\n" + ROOM).terminal.sum() == 2
    assert GridWorld.parse("\ufeff\r\n" + ROOM.replace("\n", "  \r\n") + "\r\n\r\n").text == ROOM


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("\n  \n", 1, None),
        ("####\n#SG#\n###", 3, 4),
        ("#####\n#S?G#\n#####", 2, 3),
        ("#####\n#S.G.\n#####", 2, 5),
        ("#####\n#S..#\n#####", 1, None),
        ("######\n#SG#.#\n######", 2, 5),
        ("####\n#GG#\n####", 1, None),
        ("#####\n#S.G#\n\n#####", 3, 1),
        (".####\n#S.G#\n#####", 1, None),
        ("reward G: -1\n\n" + ROOM, 3, None),
        ("step-limit: 3\n\n\n", 1, None),
        *((f"{header}\n\n{ROOM}", 1, None) for header in HEADERS),
    ],
)
def test_broken_maps(text, line, column):
    with raises(MapError, line=line, column=column) as caught:
        GridWorld.parse(text, name="my.txt")
    assert str(caught.value).startswith(f"my.txt, line {line}")


def test_a_map_file(tmp_path, unchecked):
    path = tmp_path / "mine.txt"
    path.write_text(ROOM)
    assert (GridWorld.load(path).name, GridWorld.load(str(path)).n_states) == ("mine", 3)
    error = refused(MissingFile, "source", GridWorld.load, "four-room")
    assert "Did you mean 'four-rooms'" in str(error)
    path.write_bytes(b"#\xe9#")
    refused(ArgumentError, "source", GridWorld.load, path)
    refused(ArgumentTypeError, "source", GridWorld.load, 3)
    refused(ArgumentTypeError, "text", GridWorld.parse, ["#####", "#S.G#"])
    for rewards in ({"xx": -1.0}, {"#": -1.0}, {"x": 1.0}, {"": -1.0}):
        refused(MapError, None, GridWorld.parse, ROOM, rewards=rewards)
