"""Dense representations of small MDPs, and the positive eigenvector of a dense matrix."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from jaxtyping import Float

from drogo.errors import ArgumentError
from drogo.exact.finite import check_finite
from drogo.exact.log_solve import factorise
from drogo.exact.rows import Rows, check_parameters, default_rows, successor_rows
from drogo.mdp import MDP, check_mdp

MAX_STATES = 5000
MAX_SQUARINGS = 50
"""2**50 power iterations: enough for eigenvalues that differ in the last digits."""
MOST_ELIMINATIONS = 4
"""The largest number of eliminations, each of which refines the eigenvalue."""
SPREAD = 1e-9
"""The relative distance of the bounds of the eigenvalue at which an iteration stops."""


def default_representation(
    mdp: MDP, lam: float, *, delta: float = 0.001, terminal: str = "absorbing"
) -> Float[np.ndarray, "states states"]:
    """Computes the default representation `Z = (R - P)^-1`, with every entry accurate.

    The MDP has at most 5,000 states, and the arguments are those of `exact.solve`. Entries below
    1e-308 are 0.
    """
    lam, delta = check_parameters(lam, terminal, delta)
    check_finite(check_mdp(mdp), lam)
    return _inverse(default_rows(mdp, lam, terminal, delta))


def successor_representation(
    mdp: MDP, discount: float = 0.99
) -> Float[np.ndarray, "states states"]:
    """Computes the successor representation `SR = (I - discount P)^-1` of at most 5,000 states.

    Terminal rows of `P` are zero, and the discount factor is between 0 and 1.
    """
    return _inverse(successor_rows(check_mdp(mdp), discount))


def log_perron(matrix: Float[np.ndarray, "n n"]) -> tuple[Float[np.ndarray, " n"], float]:
    """Computes the log of the positive eigenvector of a matrix of non-negative numbers.

    If the matrix is symmetric, the largest entry of the vector is fixed and the others follow by
    elimination. Where this is not accurate, and for other matrices, repeated squaring amounts to
    2, 4, 8, ... power iterations. Both only add positive terms, so that small entries are as
    accurate as large ones; `numpy.linalg.eigh` loses those below 1e-16 times the largest.

    Args:
        matrix: The matrix, such as a learned representation plus its transpose.

    Returns:
        The log of the eigenvector of unit norm, and the relative distance of the Collatz-Wielandt
        bounds of its eigenvalue, which is small if the vector is accurate. Entries beyond the range
        of double precision are minus infinity. If the states fall into parts, the vector is that of
        one part, and minus infinity in the others.
    """
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ArgumentError("matrix needs non-negative, finite entries.", argument="matrix")
    if (result := _by_elimination(matrix)) is not None:
        return result
    power = matrix / max(matrix.max(initial=0.0), np.finfo(float).tiny)
    x, spread = np.ones(len(matrix)), np.inf
    for _ in range(MAX_SQUARINGS):
        column = power[:, int(power.diagonal().argmax())]
        after, positive = matrix @ column, column > 0
        growth = after[positive] / column[positive]
        now = float(growth.max() / growth.min() - 1) if positive.any() else np.inf
        if now < spread:
            x, spread = column, now
        if spread <= SPREAD:
            break
        power = power @ power
        power /= max(power.max(), np.finfo(float).tiny)
    with np.errstate(divide="ignore"):
        return np.log(x) - np.log(np.linalg.norm(x)), spread


def _by_elimination(matrix: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Returns the result of `log_perron`, or None if it is not accurate.

    With the largest entry k fixed to 1, the others solve `(eigenvalue - rest) x = column k`. By
    interlacing, the matrix is positive definite, and its off-diagonals are not positive, so that no
    terms cancel in its Cholesky factors or in the substitution.
    """
    if len(matrix) < 2 or not np.array_equal(matrix, matrix.T):
        return None
    top = [len(matrix) - 1] * 2
    try:
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=top, check_finite=False)
        k, eigenvalue = int(np.abs(vectors[:, 0]).argmax()), float(values[0])
        rest = np.delete(np.arange(len(matrix)), k)
        x = np.ones(len(matrix))
        for _ in range(MOST_ELIMINATIONS):
            left = np.diag(np.full(len(rest), eigenvalue)) - matrix[np.ix_(rest, rest)]
            factor = scipy.linalg.cho_factor(left, overwrite_a=True, check_finite=False)
            x[rest] = scipy.linalg.cho_solve(factor, matrix[rest, k], check_finite=False)
            if not (x > 0).all():  # An entry is not connected, or beyond double precision.
                return None
            growth = (matrix @ x) / x
            spread = float(growth.max() / growth.min() - 1)
            if spread <= SPREAD:
                return np.log(x) - np.log(np.linalg.norm(x)), spread
            eigenvalue = float(growth[k])
    except (np.linalg.LinAlgError, FloatingPointError):
        pass
    return None


def _inverse(rows: Rows) -> Float[np.ndarray, "states states"]:
    if rows.n > MAX_STATES:
        problem = f"a dense matrix over {rows.n} states is refused (more than {MAX_STATES})."
        remedy = "Use exact.log_column or exact.log_eigenvector, which need no matrix."
        raise ArgumentError(problem, remedy=remedy, argument="mdp")
    # Rows were multiplied by exp(r/lam), so the identity on the right is multiplied too.
    return factorise(rows).lu.solve(np.diag(np.exp(rows.log_scale)))
