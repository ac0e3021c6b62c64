"""Entries far below the smallest double, at any lambda."""

import numpy as np
import pytest

from drogo import MDP, GridWorld, exact
from drogo.exact.definitions import DEFINITIONS
from drogo.exact.positive import NoPositiveSolution, log_solve
from drogo.exact.rows import default_rows
from random_mdps import corridor


def decay(lam, p=0.25):
    """Returns log x of a long corridor: e(s) = e(s + 1) x with R = 2p + p (x + 1/x) and x < 1."""
    return -np.arccosh((np.exp(1 / lam) - 2 * p) / (2 * p))


@pytest.mark.parametrize(("cells", "lam"), [(5000, 0.5), (24000, 20.0), (700, 0.01)])
def test_corridor_column_has_the_known_slope(cells, lam):
    v = exact.log_column(corridor(cells), lam)
    assert v.min() < -10_000
    # Far from wall and goal the solution is one exponential; the reflection is far below it.
    inner = np.diff(v)[cells // 4 : cells - 10]
    assert np.allclose(-inner, decay(lam), rtol=1e-9)
    assert np.isfinite(v).all()


@pytest.mark.parametrize("definition", ["transition", "representation", "right"])
@pytest.mark.parametrize(("cells", "lam"), [(5000, 0.5), (24000, 20.0), (300, 0.001)])
def test_eigenvectors_of_any_range(definition, cells, lam):
    solution = exact.solve(corridor(cells), lam, definition)
    assert solution.status == "converged"
    assert solution.log_e.min() < -10_000
    low, high = solution.bracket
    slack = 1e-12 + 1e-6 * abs(solution.eigenvalue)
    assert low - slack <= solution.eigenvalue <= high + slack


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_costs_beyond_the_largest_double(definition):
    """r/lam = -20000: exp(-r/lam) overflows, but the solution does not."""
    mdp = GridWorld.load("grid-maze-large").mdp
    solution = exact.solve(mdp, 0.001, definition)
    assert solution.status == "converged"
    assert np.isfinite(solution.log_e).all()


def test_a_matrix_without_a_positive_solution_is_refused():
    mdp = GridWorld.load("four-rooms").mdp
    rows = default_rows(mdp, 20.0, "absorbing", 0.001).minus(0.5)  # past the smallest eigenvalue
    with pytest.raises(NoPositiveSolution):
        log_solve(rows, mdp.terminal, np.zeros(mdp.n_states))


@pytest.mark.parametrize("cost", [600.0, 720.0, 5_000.0, 22_000.0, 1e6])
@pytest.mark.parametrize("definition", DEFINITIONS)
def test_one_step_of_any_cost(cost, definition):
    """Two states by hand: e(0) = P e(1) / R, so log e(0) - log e(1) is about -cost + log 1/2."""
    mdp = MDP.from_arrays([[0.5, 0.5], [0.0, 0.0]], [-cost, 0.0], [1])
    solution = exact.solve(mdp, 1.0, definition)
    step = solution.log_e[0] - solution.log_e[1]
    expected = np.log(0.25 if definition in ("transition", "representation") else 0.5)
    assert solution.status == "converged"
    assert step == pytest.approx(-cost + expected, abs=1e-6 + 1e-12 * cost)


@pytest.mark.parametrize("lam", [9e-4, 1e-4, 1e-6])
@pytest.mark.parametrize("name", ["four-rooms", "grid-maze"])
def test_vanishing_lambda_is_the_shortest_path(name, lam):
    """lam v tends to the best return: -17 and -73 from the start."""
    world = GridWorld.load(name)
    v = exact.log_column(world.mdp, lam)
    best = {"four-rooms": -17, "grid-maze": -73}[name]
    assert lam * v[world.start.argmax()] == pytest.approx(best, abs=200 * lam)
