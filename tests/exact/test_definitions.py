"""The four vectors: by hand, to all digits of a reference, in any range, their errors, and two
propositions of the paper; `drogo_paper.theory` checks the others."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from drogo import MDP, Column, GridWorld, exact, solve
from drogo.errors import ArgumentError, ArgumentTypeError, NotConverged
from drogo.exact import definitions
from drogo.exact.positive import NoPositiveSolution, log_solve
from drogo.exact.rows import default_rows
from drogo.learn.judge import cosine
from raising import raises, refused
from random_mdps import corridor, dense, random_mdp, recipes

FOUR_ROOMS = GridWorld.load("four-rooms").mdp


# world, lam, states, smallest eigenvalue of R - P~, top eigenvalue of (Z + Z^T)/2,
# min of column / representation / transition, cosine of each of the last two with column
REFERENCE = [
    ("grid-task", 20, 104, -0.0850703814, 28317.639064, -8.4879, -9.6565, -11.7817, 0.99573, 0.99595),
    ("four-rooms", 20, 104, -0.0762746360, 26926.409363, -11.9755, -13.0790, -14.1715, 0.99773, 0.99064),
    ("grid-maze", 20, 162, -0.0349712842, 22989.674119, -39.2058, -40.0863, -49.1399, 0.99991, 0.99968),
    ("grid-room", 20, 272, -0.0534232295, 25051.824940, -27.8893, -28.8937, -34.9704, 0.99971, 0.99791),
    ("grid-maze", 1.3, 162, -0.0088248814, 1307.386647, -183.2245, -183.8924, -184.3147, 1.0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("reference", REFERENCE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_reference(reference):
    name, lam, states, smallest, top, column, representation, transition, cos_r, cos_t = reference
    mdp = GridWorld.load(name).mdp
    c, r, t = (exact.solve(mdp, float(lam), d) for d in ("column", "representation", "transition"))
    assert (mdp.n_states, round(t.eigenvalue, 10)) == (states, smallest)
    assert round(r.eigenvalue, 6) == top
    lowest = [round(vector.log_e.min(), 4) for vector in (c, r, t)]
    assert lowest == [column, representation, transition]
    cosines = [cosine(one.log_e[None], c.log_e)[0] for one in (r, t)]
    assert [round(float(number), 5) for number in cosines] == [cos_r, cos_t]


def test_one_state_and_its_successor_representation_by_hand():
    """One state, r/lam = -log 3, a fair coin between staying and the goal; Z is 2 x 2."""
    mdp = MDP.from_arrays(np.array([[0.5, 0.5], [0.0, 1.0]]), [-np.log(3), 0.0], [1])
    Z = exact.default_representation(mdp, 1.0, delta=np.log(2))  # R_T - 1 = 1
    assert np.allclose(Z, np.linalg.inv([[2.5, -0.5], [0.0, 1.0]]), rtol=1e-14)
    solution = exact.solve(mdp, 1.0, "transition", delta=np.log(2))
    # [[2.5, -0.25], [-0.25, 1]]: (3.5 - sqrt(1.5^2 + 0.25)) / 2
    assert solution.eigenvalue == pytest.approx((3.5 - np.sqrt(2.5)) / 2, abs=1e-14)

    # A goal one step away, discount 1/2: SR = [[1, 1/2], [0, 1]], symmetrised top (1, 1).
    mdp = MDP.from_arrays(np.array([[0.0, 1.0], [0.0, 0.0]]), [-1.0, 0.0], [1])
    assert np.allclose(definitions.successor_representation(mdp, 0.5), [[1.0, 0.5], [0.0, 1.0]])
    assert np.allclose(definitions.successor_eigenvector(mdp, 0.5), np.sqrt([0.5, 0.5]), rtol=1e-14)
    for name in ("grid-room", "four-rooms-multigoal"):
        mdp = GridWorld.load(name).mdp
        sr = np.linalg.inv(np.eye(mdp.n_states) - 0.99 * mdp.P.toarray())
        ours = definitions.successor_representation(mdp, 0.99)
        assert np.allclose(ours, sr, rtol=1e-9, atol=1e-300)
        _, vectors = np.linalg.eigh((sr + sr.T) / 2)
        ours = definitions.successor_eigenvector(mdp, 0.99)
        assert np.allclose(ours, np.abs(vectors[:, -1]), atol=1e-9)


@pytest.mark.parametrize(("cells", "lam"), [(5000, 0.5), (24000, 20.0), (700, 0.01)])
def test_corridor_column_has_the_known_slope(cells, lam):
    """e(s) = e(s + 1) x with R = 1/2 + (x + 1/x)/4 and x < 1."""
    v = exact.log_column(corridor(cells), lam)
    assert v.min() < -10_000
    # Far from wall and goal the solution is one exponential; the reflection is far below it.
    inner = np.diff(v)[cells // 4 : cells - 10]
    assert np.allclose(inner, np.arccosh(2 * np.exp(1 / lam) - 1), rtol=1e-9)
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


def test_a_solution_is_positive_and_knows_its_accuracy():
    rows = default_rows(FOUR_ROOMS, 20.0, "absorbing", 0.001).minus(0.5)
    zeros = np.zeros(FOUR_ROOMS.n_states)
    refused(NoPositiveSolution, None, log_solve, rows, FOUR_ROOMS.terminal, zeros)
    solution = exact.solve(FOUR_ROOMS, 20.0, "transition")
    assert solution.status == "converged"
    assert solution.residual < 1e-12
    assert solution.bracket[0] <= solution.eigenvalue <= solution.bracket[1]
    assert np.exp(2 * solution.log_e).sum() == pytest.approx(1)
    column = exact.solve(FOUR_ROOMS, 20.0)
    assert (column.definition, column.eigenvalue, column.bracket) == ("column", None, None)
    worse = replace(column, residual=1e-3)
    assert worse.status == "inaccurate"
    refused(NotConverged, None, worse.checked)


@pytest.mark.parametrize("cost", [600.0, 720.0, 5_000.0, 22_000.0, 1e6])
@pytest.mark.parametrize("definition", definitions.DEFINITIONS)
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
    v, best = exact.log_column(world.mdp, lam), {"four-rooms": -17, "grid-maze": -73}[name]
    assert lam * v[world.start.argmax()] == pytest.approx(best, abs=200 * lam)


@pytest.mark.parametrize(
    "solver", ["solve", "solve_columns", "spectrum", "perron", "spectral_radius", "transfer"]
)
def test_an_object_that_is_not_an_mdp(solver, unchecked):
    rest = {"spectrum": (2,), "transfer": (1.0, [0.0])}.get(solver, (1.0,))
    for value in ("four-rooms", GridWorld.load("four-rooms"), gymnasium.make("FrozenLake-v1")):
        refused(ArgumentTypeError, "mdp", getattr(exact, solver), value, *rest)


def test_formulations_and_terminal_rewards():
    """With a zero row and a large lambda the vector is no longer largest at the goal."""
    goal = int(np.flatnonzero(FOUR_ROOMS.terminal)[0])
    for definition in ("transition", "representation"):
        absorbing = exact.solve(FOUR_ROOMS, 20.0, definition).checked().log_e
        zero_row = exact.solve(FOUR_ROOMS, 20.0, definition, terminal="zero-row").checked().log_e
        small = exact.solve(FOUR_ROOMS, 1.3, definition, terminal="zero-row").checked().log_e
        assert absorbing.argmax() == small.argmax() == goal != zero_row.argmax()
    right = exact.solve(FOUR_ROOMS, 20.0, "right", terminal="zero-row").checked().log_e
    assert np.array_equal(np.isneginf(right), FOUR_ROOMS.terminal)
    mdp = GridWorld.parse("goal H: -50\n\n#####\n#G.H#\n#####").mdp
    v = exact.log_column(mdp, 20.0)
    assert (v[0], v[2]) == (0, pytest.approx(-2.5))
    # exp(0.05) e = e/2 + 1/4 + exp(-2.5)/4
    assert v[1] == pytest.approx(np.log((0.25 + np.exp(-2.5) / 4) / (np.exp(0.05) - 0.5)))
    assert np.array_equal(exact.log_column(mdp, 20.0, terminal_rewards=[0.0, -50.0]), v)
    replaced = exact.solve(mdp, 20.0, terminal_rewards=[-10.0, 3.0]).log_e
    assert replaced[[0, 2]].tolist() == [-0.5, 0.15]


def test_wrong_arguments(unchecked):
    for argument, options in (
        *(("lam", {"lam": wrong}) for wrong in (0.0, float("nan"), -(2**80))),
        ("delta", {"delta": 10**400}), ("delta", {"delta": -1.0, "definition": "right"}),
        ("definition", {"definition": "left"}), ("terminal", {"terminal": "open"}),
        *(("terminal_rewards", {"terminal_rewards": wrong}) for wrong in (np.zeros(3), [np.nan])),
        ("terminal_rewards", {"terminal_rewards": [1e307], "lam": 1e-3}),
        ("terminal_rewards", {"terminal_rewards": [0.0], "definition": "right"}),
    ):  # fmt: skip
        refused(ArgumentError, argument, exact.solve, FOUR_ROOMS, **{"lam": 1.0, **options})
    # A dense matrix would be too large.
    refused(ArgumentError, "mdp", exact.default_representation, corridor(5001), 20.0)
    refused(ArgumentError, "discount", definitions.successor_eigenvector, FOUR_ROOMS, 1.0)
    at_float = exact.log_column(FOUR_ROOMS, 2.0**70)
    np.testing.assert_array_equal(exact.log_column(FOUR_ROOMS, 2**70), at_float)


def test_two_parts_and_terminal_states_that_hardly_interact():
    P = np.zeros((4, 4))
    P[0, 1] = P[2, 3] = 1.0
    mdp = MDP.from_arrays(P, [-1.0, 0.0, -1.0, 0.0], [1, 3])
    assert np.allclose(exact.log_column(mdp, 1.0), [-1, 0, -1, 0])
    refused(ArgumentError, "mdp", exact.solve, mdp, 1.0, "transition")
    uneven = random_mdp(0, 8, terminals=2)
    uneven = replace(uneven, reward=np.where(np.arange(8) == 7, -1.0, uneven.reward))
    with raises(ArgumentError, "definition"):  # Terminal states have different rewards.
        exact.solve(uneven, 0.05, "right", terminal="zero-row").checked()
    # Three terminal states overlap by e^-70: their eigenvalues agree to all digits of a double.
    mdp = random_mdp(0, 5, terminals=3, actions=1)
    solution = exact.solve(mdp, 0.2, "representation")
    assert solution.status == "inaccurate"
    low, high = solution.bracket
    assert low / (1 + 1e-9) <= solution.eigenvalue <= high / (1 - 1e-9)
    refused(NotConverged, None, solution.checked)
    assert np.isfinite(exact.log_column(mdp, 0.2)).all()


def test_states_that_never_lead_to_an_end_are_kept_and_reported():
    """0 - 1 - 2 - end, and from 1 into the pits 4 and 5: with g = exp(-1 / 5), e2 = g (e1 + 1) / 2,
    e1 = g e2 / 2 and e0 = g (e0 + e1) / 2."""
    P = np.zeros((6, 6))
    P[[0, 0, 1, 1, 2, 2], [0, 1, 2, 4, 1, 3]] = 0.5
    P[[4, 5], [5, 4]] = 1.0
    mdp = MDP.from_arrays(P, [-1.0, -1.0, -1.0, 0.0, -1.0, -1.0], [3])
    g = np.exp(-0.2) / 2
    second = g / (1 - g**2)
    e = [g * g * second / (1 - g), g * second, second, 1.0, 0.0, 0.0]
    solution = exact.solve(mdp, 5.0)
    np.testing.assert_allclose(np.exp(solution.log_e), e, rtol=1e-12)
    assert (np.flatnonzero(mdp.stuck).tolist(), solution.status) == ([4, 5], "converged")
    assert solve(mdp, Column(lam=5.0)).notes
    refused(ArgumentError, "definition", exact.solve, mdp, 5.0, "right")


@given(recipes(), st.sampled_from([1.3, 5.0, 20.0]))
@settings(max_examples=50)
def test_proposition_3_10_the_anchored_optimum_is_a_column(recipe, lam):
    """(R - P) exp(v) vanishes in non-terminal states: exp(v) is a sum of columns of Z."""
    mdp = random_mdp(**recipe)
    v = exact.log_column(mdp, lam)
    R, P = dense(mdp, lam)
    left, scale = (R - P) @ np.exp(v), np.diag(R) * np.exp(v)
    assert np.abs(left / scale)[~mdp.terminal].max() < 1e-12
    total = exact.default_representation(mdp, lam)[:, mdp.terminal].sum(axis=1)
    assert np.allclose(np.log(total / total[mdp.terminal][0]), v, atol=1e-10)


@pytest.mark.parametrize("terminals", [1, 2, 4])
@pytest.mark.parametrize("lam", [1.3, 20.0])
def test_theorem_3_11_columns_span_the_principal_eigenspace(terminals, lam):
    """As delta goes to 0 the angle between the two spaces goes to 0 at the rate of delta."""
    mdp, angles = random_mdp(11, 14, terminals), []
    for delta in (1e-2, 1e-4, 1e-6):
        R, P = dense(mdp, lam, delta)
        Z = exact.default_representation(mdp, lam, delta=delta)
        values, vectors = np.linalg.eig(R - P)
        order = np.argsort(np.abs(values))
        # The smallest eigenvalue of R - P is exp(delta/lam) - 1, once for each terminal state.
        assert np.allclose(values[order[:terminals]], np.expm1(delta / lam), atol=1e-12)
        assert np.abs(values[order[terminals]]) > 5 * np.expm1(delta / lam)
        eigenspace, _ = np.linalg.qr(np.real(vectors[:, order[:terminals]]))
        basis, _ = np.linalg.qr(Z[:, mdp.terminal])
        cosines = np.linalg.svd(eigenspace.T @ basis)[1]
        angles.append(np.sqrt(max(0.0, 1 - cosines.min() ** 2)))
    assert angles[0] > angles[1] or angles[0] < 1e-7
    assert angles[2] < 1e-5
