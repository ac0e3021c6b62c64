"""Any lambda, any range: entries far below the smallest double."""

import numpy as np
import pytest

from drogo import GridWorld, exact
from drogo.exact.log_solve import NoPositiveSolution, log_solve
from drogo.exact.rows import default_rows


def corridor(cells):
    wall = "#" * (cells + 2)
    return GridWorld.parse(f"{wall}\n#S{'.' * (cells - 2)}G#\n{wall}").mdp


def decay(lam, p=0.25):
    """A long corridor: e(s) = e(s + 1) x with R = 2p + p (x + 1/x), the root below 1."""
    return -np.arccosh((np.exp(1 / lam) - 2 * p) / (2 * p))


@pytest.mark.parametrize(("cells", "lam"), [(5000, 0.5), (30000, 20.0), (700, 0.01)])
def test_corridor_column_has_the_known_slope(cells, lam):
    v = exact.log_column(corridor(cells), lam)
    assert v.min() < -10_000
    # Away from both ends the solution is one exponential; the wall's reflection is far below.
    inner = np.diff(v)[cells // 4 : cells - 10]
    assert np.allclose(-inner, decay(lam), rtol=1e-9)
    assert np.isfinite(v).all()


@pytest.mark.parametrize("definition", ["transition", "representation", "right"])
@pytest.mark.parametrize(("cells", "lam"), [(5000, 0.5), (30000, 20.0), (300, 0.001)])
def test_eigenvectors_of_any_range(definition, cells, lam):
    solution = exact.solve(corridor(cells), lam, definition)
    assert solution.status == "converged"
    assert solution.log_e.min() < -10_000
    low, high = solution.bracket
    slack = 1e-12 + 1e-6 * abs(solution.eigenvalue)
    assert low - slack <= solution.eigenvalue <= high + slack


@pytest.mark.parametrize("definition", exact.DEFINITIONS)
def test_costs_beyond_the_largest_double(definition):
    """r/lam = -20000: exp(-r/lam) is no number, yet the answer is."""
    mdp = GridWorld.load("grid-maze-large").mdp
    solution = exact.solve(mdp, 0.001, definition)
    assert solution.status == "converged"
    assert np.isfinite(solution.log_e).all()


def test_a_matrix_without_a_positive_answer_is_refused():
    mdp = GridWorld.load("four-rooms").mdp
    rows = default_rows(mdp, 20.0, "absorbing", 0.001).minus(0.5)  # past the smallest eigenvalue
    with pytest.raises(NoPositiveSolution):
        log_solve(rows, mdp.terminal, np.zeros(mdp.n_states))
