"""The leading eigenvectors of three matrices, and how near other vectors are to them."""

import numpy as np
import pytest

from drogo import MDP, GridWorld, exact
from drogo.errors import ArgumentError, NotConverged
from drogo.exact import spectra
from drogo.exact.rows import default_rows
from random_mdps import random_mdp

KINDS = {"laplacian": {}, "successor": {"discount": 0.9}, "default": {"lam": 5.0}}


def by_numpy(mdp, matrix, lam=None, discount=0.99, delta=0.001):
    """Return all eigenvalues and vectors, by dense matrices."""
    P = mdp.P.toarray()
    if matrix != "successor":
        P[mdp.terminal, mdp.terminal] = 1.0
    both = (P + P.T) / 2
    reward = np.where(mdp.terminal, -delta, mdp.reward)
    matrices = {
        "laplacian": lambda: np.diag(both.sum(axis=1)) - both,
        "successor": lambda: np.eye(len(P)) - discount * both,
        "default": lambda: np.diag(np.exp(-reward / lam)) - both,
    }
    return np.linalg.eigh(matrices[matrix]())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("matrix", KINDS)
def test_against_dense_matrices(matrix, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr(spectra, "MOST_DENSE", 10)
    for mdp in (random_mdp(0, 30), GridWorld.load("four-rooms").mdp):
        found = exact.spectrum(mdp, 6, matrix=matrix, **KINDS[matrix])
        values, vectors = by_numpy(mdp, matrix, **KINDS[matrix])
        assert np.abs(found.eigenvalues - values[:6]).max() < 1e-10
        assert found.next_eigenvalue == pytest.approx(values[6], abs=1e-10)
        assert np.abs(np.abs((found.vectors * vectors.T[:6]).sum(axis=1)) - 1).max() < 1e-9
        assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1)
        assert found.residuals.max() < 1e-12
        largest = np.abs(found.vectors).argmax(axis=1)
        assert (found.vectors[np.arange(6), largest] > 0).all()


def test_the_first_vectors_are_known():
    mdp = GridWorld.load("four-rooms").mdp
    constant = exact.spectrum(mdp, 1)
    assert np.allclose(constant.vectors[0], 1 / np.sqrt(mdp.n_states), atol=1e-12)
    assert abs(constant.eigenvalues[0]) < 1e-14
    first = exact.spectrum(mdp, 1, matrix="default", lam=20.0)
    assert first.eigenvalues[0] == pytest.approx(-0.0762746360, abs=1e-9)  # as in test_reference
    assert np.allclose(first.vectors[0], np.exp(exact.log_eigenvector(mdp, 20.0)), atol=1e-12)


def test_a_ring_has_the_eigenvalues_of_cosines():
    """Those of a ring of n states are 1 - cos(2 pi k / n), each but the first twice."""
    n = 12
    P = (np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)) / 2
    found = exact.spectrum(MDP.from_arrays(P, np.full(n, -1.0)), 6)
    known = 1 - np.cos(2 * np.pi * np.array([0, 1, 1, 2, 2, 3]) / n)
    assert np.abs(found.eigenvalues - known).max() < 1e-13
    assert found.groups() == [[0], [1, 2], [3, 4]]  # the partner of the sixth is not here
    angles = 2 * np.pi * np.arange(n) / n
    rotated = np.stack([np.ones(n), *(np.cos(k * angles + 0.3) for k in (1, 1, 2, 2, 3))])
    rotated[2] = np.sin(angles + 0.3)
    cosines = exact.cosines(rotated, found)
    assert np.allclose(cosines[:3], 1)
    assert cosines[3:5].tolist() == [0, 0]  # they are the same, and span no plane
    assert np.isnan(cosines[5])
    half = exact.spectrum(MDP.from_arrays(P, np.full(n, -1.0)), 3)
    for turn in (0.0, 0.5, 2.0):  # one of two directions that are equally good
        assert exact.overlap(np.stack([np.ones(n), np.cos(angles + turn)]), half) == pytest.approx(
            1
        )
    # Two of the vectors are the same: of five dimensions, four are found.
    assert exact.overlap(rotated[:5], found) == pytest.approx(4 / 5)


def test_eigenvalues_are_counted():
    """By the signs of pivots, at bounds between those that dense matrices have."""
    for mdp in (random_mdp(1, 30), GridWorld.load("four-rooms").mdp):
        for rows, matrix in (
            (spectra.laplacian_rows(mdp), "laplacian"),
            (default_rows(mdp, 5.0, "absorbing", 0.001).symmetric_part(), "default"),
        ):
            values = by_numpy(mdp, matrix, **KINDS[matrix])[0]
            apart = np.flatnonzero(np.diff(values) > 1e-6)[::5]
            bounds = (values[apart] + values[apart + 1]) / 2
            assert [spectra.count_below(rows, bound) for bound in bounds] == (apart + 1).tolist()


def square(n):
    """A room of n times n places, of whose walls one goes back."""
    row, column = np.divmod(np.arange(n * n), n)
    P = np.zeros((n * n, n * n))
    for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        to = np.clip(row + down, 0, n - 1) * n + np.clip(column + right, 0, n - 1)
        P[np.arange(n * n), to] += 1 / 4
    return MDP.from_arrays(P, np.full(n * n, -1.0))


def test_of_equal_eigenvalues_none_is_missed(monkeypatch):
    """Those of a square are sums of two of (1 - cos(pi k / n)) / 2, most of them twice."""
    n = 14
    known = np.add.outer(*[(1 - np.cos(np.pi * np.arange(n) / n)) / 2] * 2).ravel()
    monkeypatch.setattr(spectra, "MOST_DENSE", 10)
    found = exact.spectrum(square(n), 12)
    assert np.abs(found.eigenvalues - np.sort(known)[:12]).max() < 1e-12
    true, asked = spectra.eigsh, []

    def forgetful(operator, count, **options):
        """Misses the second vector, but for the last of three attempts."""
        asked.append(count)
        theta, x = true(operator, count, **options)
        kept = np.argsort(-theta)
        kept = kept if len(asked) == 3 else np.delete(kept, 1)
        return theta[kept], x[:, kept]

    monkeypatch.setattr(spectra, "eigsh", forgetful)
    again = exact.spectrum(square(n), 12)
    assert asked == [19, 25, 37]
    assert np.abs(again.eigenvalues - found.eigenvalues).max() < 1e-12
    monkeypatch.setattr(spectra, "ATTEMPTS", 2)
    asked.clear()
    with pytest.raises(NotConverged, match=r"\d+ eigenvalues were found where there are \d+"):
        exact.spectrum(square(n), 12)

    def slow(*arguments, **options):
        raise spectra.ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((0, 0)))

    monkeypatch.setattr(spectra, "eigsh", slow)
    with pytest.raises(NotConverged, match="did not converge: .*no convergence"):
        exact.spectrum(square(n), 12)


def test_more_equal_eigenvalues_than_are_looked_at(monkeypatch):
    """Thirty rings that do not meet: 0 thirty times, and then cosines sixty times."""
    monkeypatch.setattr(spectra, "MOST_DENSE", 10)
    ring = (np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)) / 2
    mdp = MDP.from_arrays(np.kron(np.eye(30), ring), np.full(210, -1.0))
    assert np.abs(exact.spectrum(mdp, 8).eigenvalues).max() < 1e-12
    known = np.repeat([0, 1 - np.cos(2 * np.pi / 7)], [30, 5])
    assert np.abs(exact.spectrum(mdp, 35).eigenvalues - known).max() < 1e-12


def test_cosines_by_hand():
    found = spectra.Spectrum(np.eye(4)[:3], np.array([0.0, 1.0, 2.0]), np.zeros(3), 3.0, "x")
    vectors = np.array([[3.0, 4.0, 0.0, 0.0], [0.0, -2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
    assert exact.cosines(vectors, found) == pytest.approx([0.6, 1.0, 0.0])
    assert exact.cosines(vectors[:1], found) == pytest.approx([0.6])
    assert exact.overlap(vectors[:1], found) == pytest.approx(0.36)
    assert exact.overlap(vectors, found) == pytest.approx(2 / 3)  # the plane of the first two
    assert exact.overlap(np.zeros((2, 4)), found) == 0
    with pytest.raises(ArgumentError, match=r"vectors has shape \(3, 2\); expected"):
        exact.cosines(np.zeros((3, 2)), found)


def corridor(reward, n=6):
    P = np.zeros((n, n))
    np.add.at(
        P, (np.repeat(np.arange(n), 2), np.clip(np.arange(2 * n) // 2 + [-1, 1] * n, 0, n - 1)), 0.5
    )
    return MDP.from_arrays(P, reward)


def test_all_vectors_of_a_matrix_are_grouped():
    """None follows the last one, so that nothing cuts off its group."""
    found = exact.spectrum(corridor(-np.ones(6)), 6)
    assert found.next_eigenvalue == np.inf
    assert found.groups() == [[k] for k in range(6)]
    assert exact.cosines(found.vectors, found) == pytest.approx(np.ones(6))
    assert exact.spectrum(MDP.from_arrays([[1.0]], [-1.0]), 1).groups() == [[0]]


@pytest.mark.parametrize(
    "reward", [[30.0] * 6, [-20.0, -21, -22, -23, -24, -20.5], [20.0, *[-1.0] * 5]]
)
def test_residuals_are_relative_to_the_matrix(reward):
    mdp = corridor(reward)
    known = by_numpy(mdp, "default", lam=1.0)[0]
    found = exact.spectrum(mdp, 3, matrix="default", lam=1.0)
    assert found.eigenvalues == pytest.approx(known[:3], rel=1e-12)
    assert found.residuals.max() < 1e-12


def test_an_eigenvalue_beyond_rounding_is_bounded():
    """The sixth one is exp(40), of which the inverse of the matrix knows nothing."""
    found = exact.spectrum(corridor([-1.0, -40, -1, -1, -1, -1]), 5, matrix="default", lam=1.0)
    assert 1e12 < found.next_eigenvalue < np.exp(40)
    assert found.groups() == [[0], [1, 2], [3], [4]]


def test_what_a_subspace_contains():
    """Of the first four unit vectors, three are spanned and one is at an angle of 60 degrees."""
    truth = exact.Spectrum(np.eye(6)[:4], np.arange(4.0), np.zeros(4), 4.0, "laplacian")
    tilted = np.eye(6)[3] + np.sqrt(3) * np.eye(6)[5]
    vectors = np.array([[1.0, 1, 0, 0, 0, 0], [1, -1, 0, 0, 0, 0], [0, 0, 2, 0, 0, 0], tilted])
    assert exact.contained(vectors, truth) == pytest.approx([1, 1, 1, 0.5])
    assert exact.overlap(vectors, truth) == pytest.approx(3.25 / 4)
    assert exact.contained(vectors[[0, 0, 2, 3]], truth) == pytest.approx(
        [0.5**0.5, 0.5**0.5, 1, 0.5]
    )


def test_costs_of_any_size():
    """Costs of e^40 leave the other states to themselves; eigh alone would lose every digit."""
    mdp = random_mdp(3, 20, costs=(0.01, 0.02))
    reward = np.array(mdp.reward)
    reward[[4, 7]] = -40.0
    dear = MDP.from_arrays(mdp.P, reward, mdp.terminal)
    found = exact.spectrum(dear, 4, matrix="default", lam=1.0)
    assert np.abs(found.vectors[:, [4, 7]]).max() < 1e-15
    assert found.residuals.max() < 1e-12


def test_arguments_are_checked(monkeypatch):
    mdp = random_mdp(0, 8)
    with pytest.raises(ArgumentError, match="the default representation needs lam"):
        exact.spectrum(mdp, 2, matrix="default")
    with pytest.raises(ArgumentError, match="lam is for matrix='default'"):
        exact.spectrum(mdp, 2, lam=1.0)
    with pytest.raises(ArgumentError, match="matrix is 'graph'"):
        exact.spectrum(mdp, 2, matrix="graph")
    with pytest.raises(ArgumentError, match="k is 9"):
        exact.spectrum(mdp, 9)
    assert exact.spectrum(mdp, 8).next_eigenvalue == np.inf
    monkeypatch.setattr(spectra, "TOLERANCE", 0.0)
    with pytest.raises(NotConverged, match="the largest residual is"):
        exact.spectrum(mdp, 2)
