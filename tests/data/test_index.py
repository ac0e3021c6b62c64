"""`ObservationIndex`: finding and adding observations by their bytes."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from drogo.data.index import LONGEST_KEY, ObservationIndex
from drogo.errors import ArgumentError, DataError
from raising import raises

DTYPES = st.sampled_from([np.float32, np.float64, np.uint8, np.int64, np.bool_])
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, max_side=3)


@st.composite
def batches(draw):
    """Two batches of observations of one type, of which many are equal."""
    dtype, shape = draw(DTYPES), draw(SHAPES)
    values = st.sampled_from([0, 1] if dtype is np.bool_ else [0, 1, 2])
    lengths = draw(st.tuples(st.integers(0, 8), st.integers(0, 8)))
    return [draw(hnp.arrays(dtype, (n, *shape), elements=values)) for n in lengths]


@given(batches())
def test_rows_are_the_first_equal_ones_of_the_table(both):
    table, batch = both
    equal = [[np.array_equal(one, other) for other in table] for one in batch]
    expected = [found.index(True) if True in found else -1 for found in equal]
    index = ObservationIndex(table)
    assert index.rows(batch).tolist() == expected
    assert [index.row(one) for one in batch] == expected


@given(batches())
def test_added_observations_are_found_again(both):
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
    with raises(DataError):
        ObservationIndex(np.array([[1, 2]], np.uint8)).rows([[0.5, 2.0]])
    for search, wrong in ((index.rows, [0.1, 0.2]), (index.row, [[0.1, 0.2]])):
        with raises(ArgumentError):
            search(wrong)
    table = np.arange(4.0)  # Adding does not write into it.
    index = ObservationIndex(table[:2])
    assert index.add([7.0, 1.0]).tolist() == [2, 1]
    assert table.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert table.flags.writeable
    assert index.observations.tolist() == [0.0, 1.0, 7.0]
