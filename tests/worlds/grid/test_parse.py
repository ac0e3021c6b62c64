"""Maps: what they mean, and errors with line and column."""

import time

import numpy as np
import pytest

from drogo import GridWorld, MapError

ROOM = "#####\n#S.G#\n#####"


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


def test_header_and_rewards_of_ones_own():
    text = "step-limit: 7\nreward w: -5\nreward .: -0.5\ngoal H: -50\n\n######\n#S.wH#\n#G...#\n######\n"
    world = GridWorld.parse(text)
    assert world.step_limit == 7
    assert world.reward.tolist() == [-0.5, -0.5, -5, -50, 0, -0.5, -0.5, -0.5]
    assert world.low_reward.sum() == 1
    assert world.terminal.sum() == 2
    changed = GridWorld.parse(text, rewards={"w": -9.0, "H": -3.0, "S": -0.25})
    assert changed.reward.tolist() == [-0.25, -0.5, -9, -3, 0, -0.5, -0.5, -0.5]


def test_windows_line_ends_blank_lines_and_a_byte_order_mark():
    text = "\ufeff\r\n" + ROOM.replace("\n", "  \r\n") + "\r\n\r\n"
    assert GridWorld.parse(text).text == ROOM


def test_several_starts_and_none():
    assert GridWorld.parse("#####\n#SSG#\n#####").start.tolist() == [0.5, 0.5, 0]
    assert GridWorld.parse("#####\n#..G#\n#####").start.tolist() == [0.5, 0.5, 0]


BROKEN = {
    "empty": ("\n  \n", 1, None, "the map is empty"),
    "short row": ("####\n#SG#\n###", 3, 4, "this row has 3 cells, the first row has 4"),
    "long row": ("####\n#S.G#\n####", 2, 5, "there are too many"),
    "unknown symbol": ("#####\n#S?G#\n#####", 2, 3, r"unknown symbol '\?'.*reward \?: -5"),
    "open border": ("#####\n#S.G.\n#####", 2, 5, r"the border is open \('.'\)"),
    "open corner": ("####.\n#S.G#\n#####", 1, 5, "the border is open"),
    "no goal": ("#####\n#S..#\n#####", 1, None, "there is no goal; draw one"),
    "cut off": ("######\n#SG#.#\n######", 2, 5, r"1 cell\(s\) cannot reach a goal"),
    "only goals": ("####\n#GG#\n####", 1, None, "no cell besides goals"),
    "blank line inside": (
        "#####\n#S.G#\n\n#####",
        3,
        1,
        "this row has 0 cells.*a blank line inside",
    ),
    "brace": ("reward {: -5\n#####\n#S?G#\n#####", 3, 3, r"unknown symbol '\?'.*G ;"),
    "open corner at the top": (".####\n#S.G#\n#####", 1, None, "own rows start with a wall"),
    "start as goal": ("goal S: 0\n\n" + ROOM, 1, None, "is the start and cannot be a goal"),
    "goal taken away": ("reward G: -1\n\n" + ROOM, 3, None, "declare it: goal G: 0"),
    "bad header": ("speed: 3\n\n" + ROOM, 1, None, "cannot read the header line 'speed: 3'"),
    "header without symbol": ("reward: 3\n\n" + ROOM, 1, None, "cannot read the header line"),
    "not a number": ("reward x: low\n\n" + ROOM, 1, None, "'low' is not a number"),
    "no limit": ("step-limit: 0\n\n" + ROOM, 1, None, "must be at least 1"),
    "wall with reward": ("reward #: -3\n\n" + ROOM, 1, None, "always a wall"),
    "positive reward": (
        "reward x: 2\n\n" + ROOM,
        1,
        None,
        "free cells need a finite reward below 0",
    ),
    "infinite goal": ("goal G: inf\n\n" + ROOM, 1, None, "the reward of the goal 'G' is inf"),
    "header only": ("step-limit: 3\n\n\n", 1, None, "the header is not followed by a map"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_maps_say_where(kind):
    text, line, column, message = BROKEN[kind]
    with pytest.raises(MapError, match=message) as caught:
        GridWorld.parse(text, name="my.txt")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"my.txt, line {line}")


def test_a_map_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(ROOM)
    assert GridWorld.load(path).name == "mine"
    assert GridWorld.load(str(path)).n_states == 3
    with pytest.raises(FileNotFoundError, match="Did you mean 'four-rooms'"):
        GridWorld.load("four-room")


def test_a_quarter_of_a_million_cells():
    rng = np.random.default_rng(0)
    cells = np.where(rng.random((500, 500)) < 0.05, "x", ".")
    cells[[0, -1]] = cells[:, [0, -1]] = "#"
    cells[250, 250] = "G"
    text = "\n".join("".join(row) for row in cells)
    began = time.perf_counter()
    world = GridWorld.parse(text)
    assert world.mdp.n_states == 498 * 498
    # This is not a speed test: a Python loop with NumPy over the cells would take a minute.
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize(
    ("rewards", "message"),
    [({"xx": -1.0}, "not one visible character"), ({"#": -1.0}, "always a wall"),
     ({"x": 1.0}, "finite reward below 0"), ({"": -1.0}, "not one visible character")],
)  # fmt: skip
def test_wrong_rewards_argument(rewards, message):
    with pytest.raises(MapError, match=message):
        GridWorld.parse(ROOM, rewards=rewards)


def test_header_needs_no_blank_line_and_plain_cells_may_be_goals():
    assert GridWorld.parse("step-limit: 9\n" + ROOM).step_limit == 9
    assert GridWorld.parse("goal .: 0\n" + ROOM).terminal.sum() == 2


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"#\xe9#")
    with pytest.raises(ValueError, match="latin.txt is not a text file in UTF-8"):
        GridWorld.load(path)
