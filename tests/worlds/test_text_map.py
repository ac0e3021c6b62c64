"""Text maps, and errors with line and column."""

import pytest

from drogo import GridWorld
from drogo.errors import ArgumentError, ArgumentTypeError, MapError, MissingFile
from raising import raises

ROOM = "#####\n#S.G#\n#####"
HEADERS = ("goal S: 0", "speed: 3", "reward x: low", "step-limit: 0", "reward x: 2", "goal G: inf")


def test_a_small_map():
    world = GridWorld.parse("#####\n#SxG#\n#####")
    assert repr(world) == "GridWorld('map', 5 x 3 cells, 3 states)"
    assert world.reward.tolist() == [-1.0, -20.0, 0.0]
    assert world.terminal.tolist() == [False, False, True]
    assert world.low_reward.tolist() == [False, True, False]
    assert world.start.tolist() == [1, 0, 0]
    assert world.next_state.tolist() == [[1, 0, 0, 0], [2, 1, 0, 1], [2, 2, 2, 2]]
    assert world.step_limit == 12
    assert [world.mdp.states[i] for i in range(3)] == [(1, 1), (1, 2), (1, 3)]


def test_headers_rewards_and_other_ways_to_write_a_map():
    text = "step-limit: 7\nreward w: -5\nreward .: -0.5\ngoal H: -50\n\n######\n#S.wH#\n#G...#\n######\n"
    world = GridWorld.parse(text)
    assert world.step_limit == 7
    assert world.reward.tolist() == [-0.5, -0.5, -5, -50, 0, -0.5, -0.5, -0.5]
    assert world.low_reward.sum() == 1
    assert world.terminal.sum() == 2
    changed = GridWorld.parse(text, rewards={"w": -9.0, "H": -3.0, "S": -0.25})
    assert changed.reward.tolist() == [-0.25, -0.5, -9, -3, 0, -0.5, -0.5, -0.5]
    for text in ("#####\n#SSG#\n#####", "#####\n#..G#\n#####"):
        assert GridWorld.parse(text).start.tolist() == [0.5, 0.5, 0]
    assert GridWorld.parse("step-limit: 9\n" + ROOM).step_limit == 9
    assert GridWorld.parse("goal .: 0\n" + ROOM).terminal.sum() == 2
    windows = "\ufeff\r\n" + ROOM.replace("\n", "  \r\n") + "\r\n\r\n"
    assert GridWorld.parse(windows).text == ROOM


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


@pytest.mark.usefixtures("unchecked")
def test_a_map_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(ROOM)
    assert GridWorld.load(path).name == "mine"
    assert GridWorld.load(str(path)).n_states == 3
    with raises(MissingFile, "source") as caught:
        GridWorld.load("four-room")
    assert "Did you mean 'four-rooms'" in str(caught.value)
    path.write_bytes(b"#\xe9#")
    with raises(ArgumentError, "source"):
        GridWorld.load(path)
    with raises(ArgumentTypeError, "source"):
        GridWorld.load(3)
    with raises(ArgumentTypeError, "text"):
        GridWorld.parse(["#####", "#S.G#"])
    for rewards in ({"xx": -1.0}, {"#": -1.0}, {"x": 1.0}, {"": -1.0}):
        with raises(MapError):
            GridWorld.parse(ROOM, rewards=rewards)
