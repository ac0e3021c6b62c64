"""Compares vectors with the first eigenvectors of a matrix: one by one, and as a subspace."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError
from drogo.exact.spectra import Spectrum

LEAST = 1e-6
"""The least singular value of independent vectors, relative to the largest."""


def cosines(
    vectors: Float[np.ndarray, "vectors states"], truth: Spectrum, closeness: float = 1e-3
) -> Float[np.ndarray, " vectors"]:
    """Computes the absolute cosine of each vector with the eigenvector of the same number.

    Eigenvectors of nearly equal eigenvalues may be rotated among themselves, so their vectors are
    compared as a subspace: all of them have the cosine of the largest angle between the subspace
    that they span and that of the eigenvectors, which is 0 if they are not independent. If `truth`
    does not include the whole subspace, the cosine is NaN.

    Args:
        vectors: The vectors, of any norm.
        truth: The eigenvectors.
        closeness: The largest distance of nearly equal eigenvalues, as in `Spectrum.groups`.
    """
    _check_shapes(vectors, truth)
    result = np.full(len(vectors), np.nan)
    for group in truth.groups(closeness):
        members = [k for k in group if k < len(vectors)]
        if not members:  # There are more eigenvectors than vectors.
            break
        basis = _basis(vectors[members])
        inside = np.linalg.svd(basis @ truth.vectors[group].T, compute_uv=False)
        result[members] = inside.min() if len(basis) == len(members) else 0.0
    return result


def overlap(vectors: Float[np.ndarray, "vectors states"], truth: Spectrum) -> float:
    """Computes the overlap of the subspace of some vectors with that of as many eigenvectors, from
    0 to 1: the mean of the squares of `contained`.

    Args:
        vectors: The vectors, which need be neither of unit norm nor orthogonal.
        truth: The eigenvectors.
    """
    return float((contained(vectors, truth) ** 2).mean())


def contained(
    vectors: Float[np.ndarray, "vectors states"], truth: Spectrum
) -> Float[np.ndarray, " vectors"]:
    """Computes the cosine of the angle between each of the first eigenvectors and the subspace that
    some vectors span; for eigenvectors of nearly equal eigenvalues, the cosines of the angles
    between the two subspaces.

    Args:
        vectors: The vectors, which need be neither of unit norm nor orthogonal.
        truth: The eigenvectors, of which as many are used. If that divides eigenvectors of nearly
            equal eigenvalues, the nearest directions among these count.
    """
    _check_shapes(vectors, truth)
    count, basis = len(vectors), _basis(vectors)
    groups = truth.groups()
    alone = sorted(set(range(count)) - {k for group in groups for k in group})
    result = np.zeros(count)
    for group in [*groups, alone]:
        members = [k for k in group if k < count]
        inside = np.linalg.svd(basis @ truth.vectors[group].T, compute_uv=False)[: len(members)]
        result[members[: inside.size]] = inside
    return result


def _basis(vectors: Float[np.ndarray, "vectors states"]) -> Float[np.ndarray, "basis states"]:
    """Returns an orthonormal basis of the span of some vectors, each of which counts the same."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length > 0, length, 1.0)
    _, sizes, basis = np.linalg.svd(unit, full_matrices=False)
    return basis[(sizes > LEAST * sizes.max(initial=0.0)) & (sizes > 0)]


def _check_shapes(vectors: np.ndarray, truth: Spectrum) -> None:
    count, states = truth.vectors.shape
    if vectors.ndim != 2 or vectors.shape[1] != states or len(vectors) > count:
        raise ArgumentError(
            f"vectors has shape {vectors.shape}; expected (vectors, states), with at most {count} "
            f"vectors over {states} states.",
            argument="vectors",
        )
    if not np.isfinite(vectors).all():
        raise ArgumentError("vectors has entries that are not finite.", argument="vectors")
