"""The leading eigenvectors of three matrices, and the comparison of other vectors with them."""

import numpy as np
import pytest

from drogo import MDP, GridWorld, exact
from drogo.errors import ArgumentError, NotConverged
from drogo.exact import spectra
from drogo.exact.spectra import contained
from raising import refused
from random_mdps import random_mdp

KINDS = {"laplacian": {}, "successor": {"discount": 0.9}, "default": {"lam": 5.0}}


def by_numpy(mdp, matrix, lam=np.inf, discount=0.99, delta=0.001):
    """Returns all eigenvalues and vectors, by dense matrices."""
    P = mdp.P.toarray()
    if matrix != "successor":
        P[mdp.terminal, mdp.terminal] = 1.0
    both, reward = (P + P.T) / 2, np.where(mdp.terminal, -delta, mdp.reward)
    if matrix == "successor":
        return np.linalg.eigh(np.eye(len(P)) - discount * both)
    diagonal = both.sum(axis=1) if matrix == "laplacian" else np.exp(-reward / lam)
    return np.linalg.eigh(np.diag(diagonal) - both)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("matrix", KINDS)
def test_against_dense_matrices(matrix, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr(spectra, "MOST_DENSE", 10)
    for mdp in (random_mdp(0, 30), GridWorld.load("four-rooms").mdp):
        result = exact.spectrum(mdp, 6, matrix=matrix, **KINDS[matrix])
        values, vectors = by_numpy(mdp, matrix, **KINDS[matrix])
        assert np.abs(result.eigenvalues - values[:6]).max() < 1e-10
        assert result.next_eigenvalue == pytest.approx(values[6], abs=1e-10)
        assert np.abs(np.abs((result.vectors * vectors.T[:6]).sum(axis=1)) - 1).max() < 1e-9
        assert np.allclose(np.linalg.norm(result.vectors, axis=1), 1)
        assert result.residuals.max() < 1e-12
        assert (result.vectors[np.arange(6), np.abs(result.vectors).argmax(axis=1)] > 0).all()


def test_a_ring_has_the_eigenvalues_of_cosines():
    """Those of a ring of n states are 1 - cos(2 pi k / n), each but the first twice."""
    n = 12
    P = (np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)) / 2
    result = exact.spectrum(MDP.from_arrays(P, np.full(n, -1.0)), 6)
    expected = 1 - np.cos(2 * np.pi * np.array([0, 1, 1, 2, 2, 3]) / n)
    assert np.abs(result.eigenvalues - expected).max() < 1e-13
    assert result.groups() == [[0], [1, 2], [3, 4]]  # The partner of the sixth is not included.
    angles = 2 * np.pi * np.arange(n) / n
    rotated = np.stack([np.ones(n), *(np.cos(k * angles + 0.3) for k in (1, 1, 2, 2, 3))])
    rotated[2] = np.sin(angles + 0.3)
    cosines = exact.cosines(rotated, result)
    assert np.allclose(cosines[:3], 1)
    assert cosines[3:5].tolist() == [0, 0]  # They are equal, and do not span a plane.
    assert np.isnan(cosines[5])
    half = exact.spectrum(MDP.from_arrays(P, np.full(n, -1.0)), 3)
    for turn in (0.0, 0.5, 2.0):  # one of two directions that are equally valid
        two = np.stack([np.ones(n), np.cos(angles + turn)])
        assert exact.overlap(two, half) == pytest.approx(1)
    # Two of the vectors are equal, so they span four of five dimensions.
    assert exact.overlap(rotated[:5], result) == pytest.approx(4 / 5)


def walk(n):
    """Returns the random walk on a line of n states."""
    P = (np.eye(n, k=1) + np.eye(n, k=-1)) / 2
    P[0, 0] = P[-1, -1] = 0.5
    return P


def test_of_equal_eigenvalues_none_is_missed(monkeypatch):
    """Those of a square are sums of two of (1 - cos(pi k / n)) / 2, most of them twice."""
    n = 14
    P = (np.kron(walk(n), np.eye(n)) + np.kron(np.eye(n), walk(n))) / 2
    square = MDP.from_arrays(P, np.full(n * n, -1.0))
    expected = np.add.outer(*[(1 - np.cos(np.pi * np.arange(n) / n)) / 2] * 2).ravel()
    monkeypatch.setattr(spectra, "MOST_DENSE", 10)
    result = exact.spectrum(square, 12)
    assert np.abs(result.eigenvalues - np.sort(expected)[:12]).max() < 1e-12
    eigsh, asked = spectra.eigsh, []

    def forgetful(operator, count, **options):
        """Misses the second vector, but for the last of three attempts."""
        asked.append(count)
        theta, x = eigsh(operator, count, **options)
        kept = np.argsort(-theta)
        kept = kept if len(asked) == 3 else np.delete(kept, 1)
        return theta[kept], x[:, kept]

    monkeypatch.setattr(spectra, "eigsh", forgetful)
    again = exact.spectrum(square, 12)
    assert asked == [19, 25, 37]
    assert np.abs(again.eigenvalues - result.eigenvalues).max() < 1e-12
    monkeypatch.setattr(spectra, "ATTEMPTS", 2)
    asked.clear()
    refused(NotConverged, None, exact.spectrum, square, 12)
    # Thirty separate rings: the eigenvalue 0 thirty times, and the next sixty times.
    monkeypatch.undo()
    monkeypatch.setattr(spectra, "MOST_DENSE", 10)
    ring = (np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)) / 2
    mdp = MDP.from_arrays(np.kron(np.eye(30), ring), np.full(210, -1.0))
    assert np.abs(exact.spectrum(mdp, 8).eigenvalues).max() < 1e-12
    expected = np.repeat([0, 1 - np.cos(2 * np.pi / 7)], [30, 5])
    assert np.abs(exact.spectrum(mdp, 35).eigenvalues - expected).max() < 1e-12


def test_cosines_by_hand():
    result = exact.Eigenvectors(np.eye(4)[:3], np.array([0.0, 1.0, 2.0]), np.zeros(3), 3.0)
    vectors = np.array([[3.0, 4.0, 0.0, 0.0], [0.0, -2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
    assert exact.cosines(vectors, result) == pytest.approx([0.6, 1.0, 0.0])
    assert exact.cosines(vectors[:1], result) == pytest.approx([0.6])
    assert exact.overlap(vectors[:1], result) == pytest.approx(0.36)
    assert exact.overlap(vectors, result) == pytest.approx(2 / 3)  # the plane of the first two
    assert exact.overlap(np.zeros((2, 4)), result) == 0
    for vectors in (np.zeros((3, 2)), np.full((1, 4), np.nan)):
        refused(ArgumentError, "vectors", exact.cosines, vectors, result)
    # The subspace contains three of four unit vectors, and one is at an angle of 60 degrees.
    truth = exact.Eigenvectors(np.eye(6)[:4], np.arange(4.0), np.zeros(4), 4.0)
    tilted = np.eye(6)[3] + np.sqrt(3) * np.eye(6)[5]
    vectors = np.array([[1.0, 1, 0, 0, 0, 0], [1, -1, 0, 0, 0, 0], [0, 0, 2, 0, 0, 0], tilted])
    assert contained(vectors, truth) == pytest.approx([1, 1, 1, 0.5])
    assert exact.overlap(vectors, truth) == pytest.approx(3.25 / 4)
    assert contained(vectors[[0, 0, 2, 3]], truth) == pytest.approx([0.5**0.5, 0.5**0.5, 1, 0.5])


def test_groups_residuals_and_bounds_of_a_walk():
    # No eigenvalue follows the last one, so that nothing cuts off its group.
    result = exact.spectrum(MDP.from_arrays(walk(6), -np.ones(6)), 6)
    assert (result.next_eigenvalue, result.groups()) == (np.inf, [[k] for k in range(6)])
    assert exact.cosines(result.vectors, result) == pytest.approx(np.ones(6))
    assert exact.spectrum(MDP.from_arrays([[1.0]], [-1.0]), 1).groups() == [[0]]
    for reward in ([30.0] * 6, [-20.0, -21, -22, -23, -24, -20.5], [20.0, *[-1.0] * 5]):
        mdp = MDP.from_arrays(walk(6), reward)
        result = exact.spectrum(mdp, 3, matrix="default", lam=1.0)
        expected = by_numpy(mdp, "default", lam=1.0)[0][:3]
        assert result.eigenvalues == pytest.approx(expected, rel=1e-12)
        assert result.residuals.max() < 1e-12
    # The sixth eigenvalue is exp(40), which is lost in the inverse of the matrix.
    mdp = MDP.from_arrays(walk(6), [-1.0, -40, -1, -1, -1, -1])
    result = exact.spectrum(mdp, 5, matrix="default", lam=1.0)
    assert 1e12 < result.next_eigenvalue < np.exp(40)
    assert result.groups() == [[0], [1, 2], [3], [4]]
    assert np.abs(result.vectors[:, 1]).max() < 1e-15  # numpy.linalg.eigh would lose every digit
    assert result.residuals.max() < 1e-12


def test_arguments_are_checked(monkeypatch):
    mdp = random_mdp(0, 8)
    refused(ArgumentError, "lam", exact.spectrum, mdp, 2, matrix="default")
    refused(ArgumentError, "lam", exact.spectrum, mdp, 2, lam=1.0)
    refused(ArgumentError, "matrix", exact.spectrum, mdp, 2, matrix="graph")
    refused(ArgumentError, "discount", exact.spectrum, mdp, 2, matrix="successor", discount=1.0)
    refused(ArgumentError, "k", exact.spectrum, mdp, 9)
    assert exact.spectrum(mdp, 8).next_eigenvalue == np.inf
    monkeypatch.setattr(spectra, "TOLERANCE", 0.0)
    refused(NotConverged, None, exact.spectrum, mdp, 2)
