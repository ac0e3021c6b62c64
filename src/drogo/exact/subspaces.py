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

    Eigenvectors of equal eigenvalues may be rotated among themselves. Vectors whose eigenvalues are
    equal, or nearly, are compared as a subspace: all of them have the cosine of the largest angle
    between the subspace that they span and that of the eigenvectors, which is 0 if they are not
    independent. If the subspace is cut off by the number of vectors that are known, there is
    nothing to compare with, and the cosine is NaN.

    Args:
        vectors: The vectors, of any norm.
        truth: The eigenvectors.
        closeness: How near two eigenvalues are, as in `Spectrum.groups`.
    """
    _check_shapes(vectors, truth)
    unit = _units(vectors)
    found = np.full(len(vectors), np.nan)
    for group in truth.groups(closeness):
        members = [k for k in group if k < len(vectors)]
        if not members:  # more eigenvectors are known than there are vectors
            break
        basis = _independent(unit[members])
        inside = np.linalg.svd(basis @ truth.vectors[group].T, compute_uv=False)
        found[members] = inside.min() if len(basis) == len(members) else 0.0
    return found


def overlap(vectors: Float[np.ndarray, "vectors states"], truth: Spectrum) -> float:
    """Returns how much of the subspace of the first eigenvectors is in that of some vectors: the
    mean of the squares of `contained`, from 0 to 1.

    Args:
        vectors: The vectors, which need be neither of unit norm nor orthogonal.
        truth: The eigenvectors, of which as many are used.
    """
    return float((contained(vectors, truth) ** 2).mean())


def contained(
    vectors: Float[np.ndarray, "vectors states"], truth: Spectrum
) -> Float[np.ndarray, " vectors"]:
    """Returns the cosine of the angle between each of the first eigenvectors and the subspace that
    some vectors span; for eigenvectors of nearly equal eigenvalues, the cosines of the angles
    between their subspace and that one.

    Args:
        vectors: The vectors, which need be neither of unit norm nor orthogonal.
        truth: The eigenvectors, of which as many are used. Of those with nearly equal eigenvalues,
            if they are not all asked for, the nearest directions count.
    """
    _check_shapes(vectors, truth)
    count, basis = len(vectors), _independent(_units(vectors))
    groups = truth.groups()
    alone = sorted(set(range(count)) - {k for group in groups for k in group})
    found = np.zeros(count)
    for group in [*groups, alone]:
        members = [k for k in group if k < count]
        inside = np.linalg.svd(basis @ truth.vectors[group].T, compute_uv=False)[: len(members)]
        found[members[: inside.size]] = inside
    return found


def _independent(unit: Float[np.ndarray, "vectors states"]) -> Float[np.ndarray, "basis states"]:
    """Returns an orthonormal basis of what some vectors span."""
    _, sizes, basis = np.linalg.svd(unit, full_matrices=False)
    return basis[(sizes > LEAST * sizes.max(initial=0.0)) & (sizes > 0)]


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
    if not np.isfinite(vectors).all():
        raise ArgumentError("a vector has entries that are not finite.")
