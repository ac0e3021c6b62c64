"""The whole matrices, for worlds that are small enough, and the positive eigenvector of any."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from jaxtyping import Float

from drogo.errors import ArgumentError
from drogo.exact.finite import check_finite
from drogo.exact.log_solve import factorise
from drogo.exact.rows import Rows, check_parameters, default_rows, successor_rows
from drogo.mdp import MDP

MAX_STATES = 5000
MAX_SQUARINGS = 50
"""2**50 power iterations: enough for eigenvalues that differ in the last digits."""
MOST_ELIMINATIONS = 4
"""Each makes the eigenvalue more accurate."""
SPREAD = 1e-9
"""How well, relatively, the bounds of the eigenvalue agree before squaring ends."""


def default_representation(
    mdp: MDP, lam: float, *, delta: float = 0.001, terminal: str = "absorbing"
) -> Float[np.ndarray, "states states"]:
    """Computes the default representation `Z = (R - P)^-1`, every entry by positive arithmetic.

    Args:
        mdp: The MDP, of at most 5,000 states.
        lam: The temperature lambda, positive.
        delta: Minus the reward of an absorbing terminal state, positive.
        terminal: How terminal states enter the representation: `"absorbing"` or `"zero-row"`.

    Returns:
        The matrix. Entries below 1e-308 are 0.
    """
    lam, delta = check_parameters(lam, terminal, delta)
    check_finite(mdp, lam)
    return _inverse(default_rows(mdp, lam, terminal, delta))


def successor_representation(
    mdp: MDP, discount: float = 0.99
) -> Float[np.ndarray, "states states"]:
    """Computes the successor representation `SR = (I - discount P)^-1`.

    Args:
        mdp: The MDP, of at most 5,000 states. Terminal rows of its `P` are zero.
        discount: The discount factor, between 0 and 1.

    Returns:
        The matrix.
    """
    return _inverse(successor_rows(mdp, discount))


def log_perron(
    matrix: Float[np.ndarray, "n n"],
) -> tuple[Float[np.ndarray, " n"], float]:
    """Computes the log of the positive eigenvector of a matrix of non-negative numbers.

    If the matrix is symmetric, its largest entry is fixed and the others follow by elimination.
    Where this is not accurate, and for other matrices, it squares the matrix again and again, which
    does 2, 4, 8, ... power iterations. In both, all terms are positive, so that small entries are
    as accurate as large ones; `numpy.linalg.eigh` loses those that are 1e-16 times the largest.

    Args:
        matrix: The matrix, such as a representation that was learned, with its transpose added.

    Returns:
        The log of the eigenvector of unit norm, minus infinity where it is beyond the range of
        double precision; and by how much the Collatz-Wielandt bounds of the eigenvalue differ,
        relatively, over its other entries. The vector is to be trusted if that is small. If the
        states fall into parts, it is that of one part, and minus infinity in the others.
    """
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ArgumentError("a positive eigenvector needs a matrix of non-negative finite numbers.")
    if (found := _by_elimination(matrix)) is not None:
        return found
    power = matrix / max(matrix.max(initial=0.0), np.finfo(float).tiny)
    x, spread = np.ones(len(matrix)), np.inf
    for _ in range(MAX_SQUARINGS):
        column = power[:, int(power.diagonal().argmax())]
        after, found = matrix @ column, column > 0
        growth = after[found] / column[found]
        now = float(growth.max() / growth.min() - 1) if found.any() else np.inf
        if now < spread:
            x, spread = column, now
        if spread <= SPREAD:
            break
        power = power @ power
        power /= max(power.max(), np.finfo(float).tiny)
    with np.errstate(divide="ignore"):
        return np.log(x) - np.log(np.linalg.norm(x)), spread


def _by_elimination(
    matrix: Float[np.ndarray, "n n"],
) -> tuple[Float[np.ndarray, " n"], float] | None:
    """Returns what `log_perron` does, or None if that is not accurate.

    With the largest entry k fixed to 1, the others solve `(eigenvalue - rest) x = column k`. By
    interlacing the matrix is positive definite, and outside of its diagonal it is not positive: in
    its Cholesky factors and in the substitution no two terms cancel.
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
            if not (x > 0).all():  # a part that is not connected, or beyond double precision
                return None
            growth = (matrix @ x) / x
            spread = float(growth.max() / growth.min() - 1)
            if spread <= SPREAD:
                return np.log(x) - np.log(np.linalg.norm(x)), spread
            eigenvalue = float(growth[k])
    except (np.linalg.LinAlgError, FloatingPointError):
        return None
    return None


def _inverse(rows: Rows) -> Float[np.ndarray, "states states"]:
    if rows.n > MAX_STATES:
        raise ArgumentError(
            f"a dense matrix over {rows.n} states is refused (more than {MAX_STATES}). "
            "Use exact.log_column or exact.log_eigenvector, which need no matrix."
        )
    factor = factorise(rows, np.zeros(rows.n, dtype=bool), np.zeros(rows.n))
    # Rows were multiplied by exp(r/lam), so the identity on the right is multiplied too.
    return factor.lu.solve(np.diag(np.exp(rows.log_scale)))
