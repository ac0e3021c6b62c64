"""How near some vectors are to the first eigenvectors of a matrix: one by one, and together."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError
from drogo.exact.spectra import Spectrum

LEAST = 1e-6
"""Vectors are not independent in a direction of which they have less than this share."""


def cosines(
    vectors: Float[np.ndarray, "vectors states"], truth: Spectrum, closeness: float = 1e-3
) -> Float[np.ndarray, " vectors"]:
    """Returns the cosine of each vector with the eigenvector of the same number, without its sign.

    Eigenvectors of equal eigenvalues may be rotated among themselves. A vector whose eigenvalue is
    that of others, or nearly, is compared with the subspace of these: its cosine is that of the
    angle between the two. If the subspace is cut off by the number of vectors that are known, there
    is nothing to compare with, and the cosine is NaN.

    Args:
        vectors: The vectors, of any norm.
        truth: The eigenvectors.
        closeness: How near two eigenvalues are, relative to the spread of all of them.
    """
    _check_shapes(vectors, truth)
    unit = _units(vectors)
    found = np.full(len(vectors), np.nan)
    for group in truth.groups(closeness):
        members = [k for k in group if k < len(vectors)]
        inside = unit[members] @ truth.vectors[group].T
        found[members] = np.linalg.norm(inside, axis=1)
    return found


def overlap(vectors: Float[np.ndarray, "vectors states"], truth: Spectrum) -> float:
    """Returns how much of the subspace of the first eigenvectors is in that of some vectors: the
    mean squared cosine of the angles between the two, from 0 to 1.

    Args:
        vectors: The vectors, which need be neither of unit norm nor orthogonal.
        truth: The eigenvectors, of which as many are used.
    """
    _check_shapes(vectors, truth)
    basis = np.linalg.svd(_units(vectors), full_matrices=False)
    sizes = basis.S
    independent = basis.Vh[(sizes > LEAST * sizes.max()) & (sizes > 0)]
    inside = independent @ truth.vectors[: len(vectors)].T
    return float((inside**2).sum() / len(vectors))


def _units(vectors: Float[np.ndarray, "vectors states"]) -> Float[np.ndarray, "vectors states"]:
    """Returns vectors of length 1; a vector of zeros has no direction and stays as it is."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1.0)


def _check_shapes(vectors: np.ndarray, truth: Spectrum) -> None:
    known = truth.vectors.shape
    if vectors.ndim != 2 or vectors.shape[1] != known[1] or len(vectors) > known[0]:
        raise ArgumentError(
            f"vectors has shape {vectors.shape}; expected (vectors, states), with at most "
            f"{known[0]} vectors over {known[1]} states."
        )
