"""The positive eigenvector of a matrix, in logs."""

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo.errors import ArgumentError
from drogo.exact.definitions import log_perron
from raising import raises


@pytest.mark.parametrize("name", ["grid-task", "grid-maze"])
def test_the_positive_eigenvector_of_a_matrix(name):
    """Entry by entry the exact one, down to e^-180."""
    mdp = GridWorld.load(name).mdp
    z = exact.default_representation(mdp, 1.3)
    log_e, spread = log_perron((z + z.T) / 2)
    np.testing.assert_allclose(log_e, exact.log_eigenvector(mdp, 1.3, "representation"), atol=1e-6)
    assert spread < 1e-6


def test_a_matrix_without_one_positive_eigenvector():
    """Two parts with equal eigenvalues: one vector is returned, which is 0 in the other part."""
    log_e, _ = log_perron(np.eye(2))
    assert log_e.tolist() == [0, -np.inf]
    with raises(ArgumentError):
        log_perron(np.array([[1.0, -1.0], [0.0, 1.0]]))
