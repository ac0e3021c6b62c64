"""`Transitions`: merging, selecting and joining, edges, checks, files; and the index of observations."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from drogo import Transitions, errors
from drogo.data.empirical import check_anchored
from drogo.data.index import LONGEST_KEY, ObservationIndex, merge_equal
from drogo.errors import ArgumentError, ArgumentTypeError, DamagedFile, DataError
from drogo.files import write_arrays
from raising import refused

ACTION = {"action": [0, 1, 0, 1, 2, 0], "behaviour": np.full(6, 0.25)}
COLUMNS = ("reward", "terminated", "truncated", "terminal_reward", "action", "behaviour", "weight")
MASKED = np.ma.array([-1.0] * 6, mask=[0, 1, 0, 0, 0, 0])
BROKEN = {
    "observations": [[[np.nan]] * 6],
    "next_observations": [[[1.0, 2.0]] * 6],
    "reward": [[-1.0, np.nan] * 3, ["-1", "-2"] * 3, [-1 + 2j, -1] * 3, MASKED],
    "terminated": [[True], [0.0, np.nan] * 3],
    "truncated": [[0, 2] * 3],
    "terminal_reward": [np.inf],
}
HEADERS = {
    "file": ("/etc/passwd", "../table.bin"),
    "dtype": ("O", "f8,O"),
    "shape": ([-3, 1], [2**60, 2**60], [], None),
}


def chain(**more):
    """Steps among states 0 and 1, and two into the terminal state 2."""
    columns = {
        "observations": np.array([[0.0], [1.0], [0.0], [1.0], [1.0], [0.0]]),
        "next_observations": np.array([[1.0], [2.0], [1.0], [2.0], [0.0], [0.0]]),
        "reward": np.array([-1.0, -2.0, -1.0, -2.0, -2.0, -1.0]),
        "terminated": np.array([False, True, False, True, False, False]),
    }
    return Transitions.from_arrays(**{**columns, **more})


def test_equal_observations_merge_and_indices_are_not_converted():
    data = chain()
    assert data.observations.ravel().tolist() == [0.0, 1.0, 2.0]
    assert data.state.tolist() == [0, 1, 0, 1, 1, 0]
    assert (data.next_state.tolist(), data.terminal_states.tolist()) == ([1, 2, 1, 2, 0, 0], [2])
    assert repr(data).startswith("Transitions(6 transitions, 3 distinct observations (1 float64)")
    data = chain(reward=-3.0, terminal_reward=-7.0)  # numbers count for every transition
    assert data.reward.tolist() == [-3] * 6
    assert data.terminal_reward.tolist() == [0, -7, 0, -7, 0, 0]
    with pytest.raises(TypeError, match="actions"):
        chain(actions=[0, 1, 0, 1, 0, 1])
    table, rest = partial(Transitions.from_table, np.arange(3.0)), (-1.0, [False, True])
    for state in ([0.5, 1.0], [0, 2**32], [-1, 0], [True, False], [[0], [1]]):
        refused(DataError, "state", table, state, [1, 2], *rest)
    refused(DataError, "next_state", table, [0, 1], [1], *rest)


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=1, max_size=40))
def test_merge_is_exact_and_reversible(rows):
    array = np.array(rows, dtype=np.float32)
    table, index = merge_equal(array)
    assert np.array_equal(table[index], array)
    assert len(table) == len({tuple(row) for row in rows})
    assert len(merge_equal(np.array([[0.0], [-0.0]]))[0]) == 2  # different bits


def assert_same(data, other, which=slice(None)):
    """The same transitions as some of the others."""
    for name in ("state", "next_state"):
        seen, expected = (one.observations[getattr(one, name)] for one in (data, other))
        assert np.array_equal(seen, expected[which])
    for name in COLUMNS:
        assert np.array_equal(getattr(data, name), getattr(other, name)[which])


@given(st.lists(st.booleans(), min_size=6, max_size=6).filter(any))
def test_a_selection_drops_the_observations_that_it_does_not_use(mask):
    data = chain(**ACTION)
    part = data[np.array(mask)]
    assert_same(part, data, np.array(mask))
    assert set(part.state) | set(part.next_state) == set(range(len(part.observations)))
    assert part.n_actions == 3
    assert_same(data[np.flatnonzero(mask)], part)
    for wrong in ([0.5, 1.0], np.zeros((2, 2), bool)):
        refused(ArgumentTypeError, None, data.__getitem__, wrong)
    refused(ArgumentError, None, data.__getitem__, [True, False])
    refused(DataError, None, data.__getitem__, slice(6, None))
    assert_same(data[1:4], data, slice(1, 4))
    assert data[1:2].observations.ravel().tolist() == [1.0, 2.0]


def test_what_is_joined_must_fit_together(unchecked):
    data, other = chain(**ACTION), chain(action=ACTION["action"], default=np.full(6, 0.5))
    for cut in range(1, 6):
        joined = data[:cut] + data[cut:]
        assert_same(joined, data)
        assert np.array_equal(joined.observations, data.observations)
        assert joined.n_actions == 3
    joined = Transitions.concatenate([data, other, data])
    assert (len(joined), joined.behaviour) == (18, None)
    np.testing.assert_allclose(joined.default, [1 / 3] * 6 + [0.5] * 6 + [1 / 3] * 6)
    images = Transitions.from_table(np.zeros((2, 3)), [0], [1], -1.0, [True])
    known = chain(**ACTION, terminal_reward=0.0)  # the ends of the others are judged
    assert (known + data[:1]).outcome is None  # a step that ends nothing
    for parts in ([], [data, chain()], [chain(), images], [data, known], [known, data]):
        refused(DataError, "parts", Transitions.concatenate, parts)
    refused(ArgumentTypeError, "parts", chain().__add__, "data.npz")


def test_edges_terminal_rewards_and_absorbing_terminal_states():
    edges = chain().edges
    columns = (edges.state, edges.next_state, edges.reward, edges.terminated, edges.count)
    expected = [(0, 0, -1, 0, 1), (0, 1, -1, 0, 2), (1, 0, -2, 0, 1), (1, 2, -2, 1, 2)]
    assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert np.array_equal(edges.state[edges.of_transition], chain().state)
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
    more = chain().with_absorbing_terminals(0.001)
    assert len(more) == 9  # 6 transitions from 2 states: 3 more from the terminal one
    assert more.state[6:].tolist() == more.next_state[6:].tolist() == [2, 2, 2]
    assert np.allclose(more.reward[6:], -0.001)
    assert not more.terminated[6:].any()


def test_save_and_load_also_with_observations_in_a_file(tmp_path):
    data = chain(**ACTION)
    data.save(tmp_path / "data.npz")
    again = Transitions.load(tmp_path / "data.npz")
    for name in data.__dataclass_fields__:
        assert np.array_equal(getattr(again, name), getattr(data, name))
    refused(errors.AlreadyExists, None, data.save, tmp_path / "data.npz")
    write_arrays(tmp_path / "old.npz", "another kind", {}, {})
    refused(DamagedFile, None, Transitions.load, tmp_path / "old.npz")
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "table.bin"
    np.arange(3.0)[:, None].tofile(file)
    table = np.memmap(file, np.float64, mode="r", shape=(3, 1))
    data = Transitions.from_table(table, [0, 1], [1, 2], -1.0, [False, True])
    refused(ArgumentError, "path", data.save, tmp_path / "data.npz")
    data.save(tmp_path / "deep" / "data.npz")
    moved = (tmp_path / "deep").rename(tmp_path / "moved")
    assert Transitions.load(moved / "data.npz").observations[2] == 2
    assert (data[:1] + data[1:]).observations is table
    refused(DataError, "parts", Transitions.concatenate, [data, chain()])


@pytest.mark.parametrize("argument", BROKEN)
def test_broken_columns(argument):
    for value in BROKEN[argument]:
        refused(DataError, argument, chain, **{argument: value})
    empty = np.zeros((0, 1))
    refused(DataError, None, Transitions.from_arrays, empty, empty, [], [])


def loop(reward, ends=True):
    """State 0 leads to itself and to 1 equally often, and 1 back to 0 or to the terminal state: W is
    [[g/2, g/2], [h/2, 0]] with g = exp(reward) and h = exp(-1) at lam 1."""
    after, over = [0, 1, 0, 2 if ends else 0], [False, False, False, ends]
    columns = ([0, 0, 1, 1], after, [reward, reward, -1.0, -1.0], over)
    return Transitions.from_table(np.arange(3), *(column * 2 for column in columns))


def test_what_anchors_the_data():
    refused(DataError, "terminated", check_anchored, loop(-1.0, ends=False), 1.0)
    error = refused(DataError, "reward", check_anchored, loop(1.0), 1.0)
    assert error.for_command_line.endswith("for example --reward=-1.")
    with pytest.warns(UserWarning, match="4 of 8 rewards"):
        check_anchored(loop(0.0), 1.0)
    check_anchored(loop(-0.5), 1.0)


def test_a_later_write_cannot_circumvent_the_checks(tmp_path):
    table, reward = np.arange(3.0)[:, None], np.array([-1.0, -1.0])
    known = {"action": [1, 0], "behaviour": [0.5, 0.5], "default": [0.5, 0.5]}
    known["environment"] = [0, 0]
    columns = ([0, 1], [1, 2], reward, [False, True])
    view = table.view()
    view.flags.writeable = False

    class Owner:
        def __array__(self, dtype=None, copy=None):
            return table

    for shared in (table, view, Owner()):
        data = Transitions.from_table(shared, *columns, **known)
        table[0], reward[0] = np.nan, 5.0  # the owner may still write
        assert (data.observations[0], data.reward[0]) == (0, -1)
        table[0], reward[0] = 0.0, -1.0
    for part in (data, data[:1], data + data):
        for name in set(data.__dataclass_fields__) - {"n_actions", "origin"}:
            assert not getattr(part, name).flags.writeable
    table.tofile(tmp_path / "table.bin")
    writeable = np.memmap(tmp_path / "table.bin", float, "r+", shape=(3, 1))
    refused(DataError, "observations", Transitions.from_table, writeable, *columns)


@pytest.mark.parametrize("name", HEADERS)
def test_headers_are_validated(name, tmp_path):
    np.arange(3.0)[:, None].tofile(tmp_path / "table.bin")
    settings, path = {"file": "table.bin", "dtype": "<f8", "shape": [3, 1]}, tmp_path / "data.npz"
    columns = {one: getattr(chain()[:2], one) for one in ("state", "next_state", *COLUMNS[:4])}
    write_arrays(path, "transitions", columns, settings)
    assert len(Transitions.load(path)) == 2
    for value in HEADERS[name]:
        write_arrays(path, "transitions", columns, {**settings, name: value}, overwrite=True)
        kind = errors.MissingFile if value == [2**60, 2**60] else DamagedFile
        refused(kind, None, Transitions.load, path)


@st.composite
def batches(draw):
    """Two batches of observations of one type, of which many are equal."""
    dtype = draw(st.sampled_from([np.float32, np.float64, np.uint8, np.int64, np.bool_]))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=3))
    values = st.sampled_from([0, 1] if dtype is np.bool_ else [0, 1, 2])
    lengths = draw(st.tuples(st.integers(0, 8), st.integers(0, 8)))
    return [draw(hnp.arrays(dtype, (n, *shape), elements=values)) for n in lengths]


@given(batches())
def test_rows_are_the_first_equal_ones_and_added_observations_are_found_again(both):
    table, batch = both
    equal = [[np.array_equal(one, other) for other in table] for one in batch]
    expected = [found.index(True) if True in found else -1 for found in equal]
    index = ObservationIndex(table)
    assert (index.rows(batch).tolist(), [index.row(one) for one in batch]) == (expected, expected)
    first, second = both
    index = ObservationIndex(np.empty((0, *first.shape[1:]), first.dtype))
    for batch in (first, second, first):
        rows = index.add(batch)
        assert np.array_equal(index.observations[rows], batch)
        assert np.array_equal(index.rows(batch), rows)
    assert len(index) == len(index.observations)
    assert index.rows(index.observations).tolist() == list(range(len(index)))


@pytest.mark.parametrize("size", [1, LONGEST_KEY])
def test_the_sign_of_a_zero_does_not_matter_unless_the_table_has_both(size):
    zero, one = np.zeros(size, np.float32), np.ones(size, np.float32)
    index = ObservationIndex(np.empty((0, size), np.float32))
    assert index.add([-zero, one, zero]).tolist() == [0, 1, 0]
    assert not np.signbit(index.observations).any()
    signed = ObservationIndex(np.stack([one, -zero]))
    assert signed.rows([zero, -zero, one]).tolist() == [1, 1, 0]
    assert signed.row(zero) == signed.row(-zero) == 1
    assert signed.add([zero]).tolist() == [1]
    index = ObservationIndex(np.array([[-0.0], [0.0]]))
    assert index.rows([[0.0], [-0.0]]).tolist() == [1, 0]
    assert (index.row([0.0]), index.row([-0.0])) == (1, 0)


def test_observations_are_converted_to_the_type_of_the_table():
    index = ObservationIndex(np.array([[0.1, 0.2]], np.float32))
    assert index.rows([[0.1, 0.2]]).tolist() == [0]
    refused(DataError, None, ObservationIndex(np.array([[1, 2]], np.uint8)).rows, [[0.5, 2.0]])
    for search, wrong in ((index.rows, [0.1, 0.2]), (index.row, [[0.1, 0.2]])):
        refused(ArgumentError, None, search, wrong)
    table = np.arange(4.0)  # Adding does not write into it.
    index = ObservationIndex(table[:2])
    assert (index.add([7.0, 1.0]).tolist(), table.tolist()) == ([2, 1], [0.0, 1.0, 2.0, 3.0])
    assert table.flags.writeable
    assert index.observations.tolist() == [0.0, 1.0, 7.0]
