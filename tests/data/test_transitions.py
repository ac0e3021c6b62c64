"""`Transitions`: merging, edges, checks, files."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from drogo import Transitions
from drogo.data import spectral_radius
from drogo.data.empirical import check_anchored
from drogo.data.files import FORMAT
from drogo.data.table import merge_equal
from drogo.errors import DamagedFile, DataError, MissingFile
from drogo.files import write_array_file


def chain(**more):
    """Steps among states 0 and 1, and two into the terminal state 2."""
    return Transitions.from_arrays(
        observations=np.array([[0.0], [1.0], [0.0], [1.0], [1.0], [0.0]]),
        next_observations=np.array([[1.0], [2.0], [1.0], [2.0], [0.0], [0.0]]),
        reward=np.array([-1.0, -2.0, -1.0, -2.0, -2.0, -1.0]),
        terminated=np.array([False, True, False, True, False, False]),
        **more,
    )


def test_equal_observations_merge_in_order_of_appearance():
    data = chain()
    assert data.observations.ravel().tolist() == [0.0, 1.0, 2.0]
    assert data.state.tolist() == [0, 1, 0, 1, 1, 0]
    assert data.next_state.tolist() == [1, 2, 1, 2, 0, 0]
    assert data.terminal_states.tolist() == [2]
    assert repr(data).startswith("Transitions(6 transitions, 3 distinct observations (1 float64)")


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=1, max_size=40))
def test_merge_is_exact_and_reversible(rows):
    array = np.array(rows, dtype=np.float32)
    table, index = merge_equal(array)
    assert np.array_equal(table[index], array)
    assert len(table) == len({tuple(row) for row in rows})


def test_zeros_of_different_sign_are_different_bits():
    table, _ = merge_equal(np.array([[0.0], [-0.0]]))
    assert len(table) == 2


def test_edges_count_distinct_transitions():
    edges = chain().edges
    found = {
        (int(s), int(t), float(r), bool(e)): int(c)
        for s, t, r, e, c in zip(
            edges.state, edges.next_state, edges.reward, edges.terminated, edges.count, strict=True
        )
    }
    assert found == {
        (0, 0, -1.0, False): 1,
        (0, 1, -1.0, False): 2,
        (1, 0, -2.0, False): 1,
        (1, 2, -2.0, True): 2,
    }
    assert np.array_equal(edges.state[edges.of_transition], chain().state)


def test_terminal_rewards():
    data = chain(terminal_reward=[0.0, -4.0, 0.0, -6.0, 0.0, 0.0])
    assert data.terminal_rewards.tolist() == [-5.0]  # the mean
    states, values = data.pure_terminal_states
    assert (states.tolist(), values.tolist()) == ([2], [-5.0])
    assert data.edges.terminal_reward.tolist() == [0.0, 0.0, 0.0, -6.0, -4.0]
    left_again = Transitions.from_table(
        np.arange(3), [0, 1, 2], [2, 1, 1], [-1.0] * 3, [True, True, False]
    )
    assert left_again.terminal_states.tolist() == [1, 2]
    assert left_again.pure_terminal_states[0].size == 0


def test_absorbing_terminal_states():
    more = chain().with_absorbing_terminals(0.001)
    assert len(more) == 9  # 6 transitions from 2 states: 3 more from the terminal one
    assert more.state[6:].tolist() == more.next_state[6:].tolist() == [2, 2, 2]
    assert np.allclose(more.reward[6:], -0.001)
    assert not more.terminated[6:].any()


def test_save_and_load(tmp_path):
    data = chain()
    data.save(tmp_path / "data.npz")
    again = Transitions.load(tmp_path / "data.npz")
    for name in data.__dataclass_fields__:
        assert np.array_equal(getattr(again, name), getattr(data, name))
    with pytest.raises(FileExistsError):
        data.save(tmp_path / "data.npz")
    write_array_file(tmp_path / "old.npz", {}, {"format": "drogo transitions 2"})
    with pytest.raises(ValueError, match="its format is 'drogo transitions 2', and"):
        Transitions.load(tmp_path / "old.npz")


BROKEN = {
    "nan": ({"observations": [[np.nan], [1.0]]}, "observation 0 of the table has a NaN"),
    "nan reward": ({"reward": [-1.0, np.nan]}, "the reward of transition 1 is nan"),
    "shape": ({"next_observations": [[1.0, 2.0]] * 2}, "must have the same shape and type"),
    "short": ({"terminated": [True]}, r"terminated has shape \(1,\); expected shape \(2,\)"),
    "NaN flag": ({"terminated": [0.0, np.nan]}, "terminated of transition 1 is nan"),
    "text flag": ({"terminated": ["no", "yes"]}, "terminated has the type <U3"),
    "2 as flag": ({"truncated": [0, 2]}, "truncated of transition 1 is 2"),
    "text reward": ({"reward": ["-1", "-2"]}, "reward has the type <U2"),
    "complex reward": ({"reward": [-1 + 2j, -1]}, "reward has the type complex128"),
    "masked": ({"reward": np.ma.array([-1.0, -1.0], mask=[0, 1])}, "reward is a masked array"),
    "ragged": ({"reward": [[-1.0], [-1.0, 2.0]]}, "reward is not an array"),
    "text": ({"observations": [["a"], ["b"]]}, "observations has the type <U1"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_data_say_what_is_wrong(kind):
    change, message = BROKEN[kind]
    good = {
        "observations": [[0.0], [1.0]],
        "next_observations": [[1.0], [2.0]],
        "reward": [-1.0, -1.0],
        "terminated": [False, True],
    }
    with pytest.raises(DataError, match=message):
        Transitions.from_arrays(**{**good, **change})


def test_remedies_are_those_of_the_caller():
    data = Transitions.from_table(np.arange(2), [0], [1], [0.0], [True])
    with pytest.raises(DataError, match=r"Give a step cost, for example collect\(") as caught:
        check_anchored(data, 1.0)  # a state that was seen once
    assert caught.value.for_command_line.endswith("for example --reward=-1.")


def loop(reward, ends=True):
    """State 0 leads to itself and to 1 equally often, and 1 back to 0 or, if it ends, to the end.

    W is [[g/2, g/2], [h/2, 0]] with g = exp(reward) and h = exp(-1) at lam 1.
    """
    columns = {
        "state": [0, 0, 1, 1] * 2,
        "next_state": [0, 1, 0, 2 if ends else 0] * 2,
        "reward": [reward, reward, -1.0, -1.0] * 2,
        "terminated": [False, False, False, ends] * 2,
    }
    return Transitions.from_table(np.arange(3), **columns)


def test_the_spectral_radius_of_data_by_hand():
    g, h = np.exp(0.5), np.exp(-1.0)
    expected = (g / 2 + np.sqrt(g**2 / 4 + g * h)) / 2  # x^2 = g/2 x + g h / 4
    assert spectral_radius(loop(0.5), 1.0) == pytest.approx(expected, abs=1e-13)
    with pytest.raises(DataError, match="estimated from states that repeat"):
        spectral_radius(Transitions.from_table(np.arange(2), [0], [1], [0.0], [True]), 1.0)


def test_what_terminal_states_cannot_hold_in_place():
    with pytest.raises(DataError, match=r"none of the 8 .* is terminated.*drifts.*never ends, use"):
        check_anchored(loop(-1.0, ends=False), 1.0)
    with pytest.raises(
        DataError, match=r"4 of 8 rewards are not negative \(transition 0: 1\).*radius .* is 1\.523"
    ):
        check_anchored(loop(1.0), 1.0)
    with pytest.warns(UserWarning, match="4 of 8 rewards are not negative. The vector is finite"):
        check_anchored(loop(0.0), 1.0)
    check_anchored(loop(-0.5), 1.0)


def test_no_transitions():
    empty = np.zeros((0, 1))
    with pytest.raises(DataError, match="there are no transitions"):
        Transitions.from_arrays(empty, empty, [], [])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([0.5, 1.0], "state has the type float64; indices must be whole numbers"),
        ([0, 2**32], "state points outside the table of 3 observations"),
        ([-1, 0], "state points outside the table"),
        ([True, False], "state has the type bool"),
        ([[0], [1]], r"state has shape \(2, 1\); expected one dimension"),
    ],
)
def test_indices_are_not_converted_in_silence(state, message):
    with pytest.raises(DataError, match=message):
        Transitions.from_table([[0.0], [1.0], [2.0]], state, [1, 2], [-1, -1], [False, True])


def test_a_later_write_cannot_get_round_the_checks():
    table, reward = np.arange(3.0)[:, None], np.array([-1.0, -1.0])
    known = {"action": [1, 0], "behaviour": [0.5, 0.5], "default": [0.5, 0.5]}
    data = Transitions.from_table(table, [0, 1], [1, 2], reward, [False, True], **known)
    table[0], reward[0] = np.nan, 5.0
    assert data.observations[0] == 0
    assert data.reward[0] == -1
    for name in set(data.__dataclass_fields__) - {"n_actions"}:
        with pytest.raises(ValueError, match="read-only"):
            getattr(data, name)[0] = 1


def test_neither_can_a_write_to_what_is_shared(tmp_path):
    columns = ([0, 1], [1, 2], [-1.0, -1.0], [False, True])
    table = np.arange(3.0)[:, None]
    view = table.view()
    view.flags.writeable = False

    class Owner:
        def __array__(self, dtype=None, copy=None):
            return table

    for shared in (view, Owner()):
        data = Transitions.from_table(shared, *columns)
        table[0] = np.nan  # the owner may still write
        assert data.observations[0] == 0
        table[0] = 0.0
    path = tmp_path / "table.bin"
    table.tofile(path)
    with pytest.raises(DataError, match="memory map that can be written to.*mode='r'"):
        Transitions.from_table(np.memmap(path, float, "r+", shape=(3, 1)), *columns)


def test_observations_in_a_file_are_read_only_from_beside_it(tmp_path):
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "table.bin"
    np.arange(3.0)[:, None].tofile(file)
    table = np.memmap(file, np.float64, mode="r", shape=(3, 1))
    data = Transitions.from_table(table, [0, 1], [1, 2], [-1, -1], [False, True])
    with pytest.raises(ValueError, match="Save to .*deep"):
        data.save(tmp_path / "data.npz")
    data.save(tmp_path / "deep" / "data.npz")
    moved = (tmp_path / "deep").rename(tmp_path / "moved")
    assert Transitions.load(moved / "data.npz").observations[2] == 2


HEADERS = {
    "elsewhere": ({"file": "/etc/passwd"}, "is in|not beside it"),
    "above": ({"file": "../table.bin"}, "not beside it"),
    "objects": ({"dtype": "O"}, "its observations have the type O"),
    "structure": ({"dtype": "f8,O"}, "its observations have the type"),
    "negative": ({"shape": [-3, 1]}, "its observations have the shape"),
    "huge": ({"shape": [2**60, 2**60]}, "does not exist or does not have"),
    "scalar": ({"shape": []}, "its observations have the shape"),
    "none": ({"shape": None}, "its observations have the shape"),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_headers_are_read_with_suspicion(kind, tmp_path):
    change, message = HEADERS[kind]
    np.arange(3.0)[:, None].tofile(tmp_path / "table.bin")
    settings = {"format": FORMAT, "file": "table.bin", "dtype": "<f8", "shape": [3, 1]}
    columns = {
        "state": np.array([0, 1]),
        "next_state": np.array([1, 2]),
        "reward": -np.ones(2),
        "terminated": np.array([False, True]),
        "truncated": np.zeros(2, dtype=bool),
        "terminal_reward": np.zeros(2),
    }
    write_array_file(tmp_path / "good.npz", columns, settings)
    assert len(Transitions.load(tmp_path / "good.npz")) == 2
    write_array_file(tmp_path / "bad.npz", columns, {**settings, **change})
    with pytest.raises((DamagedFile, MissingFile), match=f"bad.npz.*({message})"):
        Transitions.load(tmp_path / "bad.npz")
