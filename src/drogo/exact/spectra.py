"""`spectrum`: the leading eigenvectors of the Laplacian, the successor and the default
representation.

| matrix | | its smallest eigenvalues belong to |
|---|---|---|
| `laplacian` | `D - P~` | the smoothest functions; the first is constant, at 0 |
| `successor` | `I - discount P~` | the leading eigenvectors of the successor representation |
| `default` | `R - P~` | the leading eigenvectors of the default representation |

`P~ = (P + P^T)/2`, and `D` is the diagonal matrix of its row sums. Terminal states absorb, but
those of `successor` have a zero row of `P`, as in the representation itself. The vectors are
accurate to their norm, unlike those of `exact.solve`, whose logs are accurate in every entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from drogo.errors import ArgumentError, NotConverged, check_choice, check_number, check_whole
from drogo.exact.log_solve import NoPositiveSolution, factorise
from drogo.exact.rows import (
    Rows,
    check_parameters,
    default_rows,
    off_diagonals,
    successor_rows,
)
from drogo.mdp import MDP

MATRICES = ("laplacian", "successor", "default")
MOST_DENSE = 1500
"""Worlds of at most so many states are solved by dense matrices."""
EXTRA = 6
"""How many more vectors are asked for where they are found by iteration, which may miss one of
several with the same eigenvalue; twice as many in each further attempt."""
ATTEMPTS = 3
BELOW = 1e-2
"""How far below a bound of the smallest eigenvalue the matrix is inverted, relative to that bound
if it is above 1."""
RESOLVED = 1e-10
"""Eigenvalues that differ by less are equal as far as the solver tells."""
ROUNDED = 1e-13
"""A pivot that is no larger may be mere rounding. The rows have diagonals of about 1."""
TOLERANCE = 1e-8
"""Largest residual of a vector that is returned."""


@dataclass(frozen=True)
class Spectrum:
    """The first eigenvectors of a matrix, those of the smallest eigenvalues."""

    vectors: Float[np.ndarray, "vectors states"]
    """Each of unit norm, with its largest entry positive."""
    eigenvalues: Float[np.ndarray, " vectors"]
    """Of the matrix, in increasing order. The inverse of the matrix has their reciprocals."""
    residuals: Float[np.ndarray, " vectors"]
    """The norm of `M x - eigenvalue x`, each entry relative to its diagonal (if above 1)."""
    next_eigenvalue: float
    """The smallest eigenvalue whose vector is not here; infinite if there is none. One that is
    beyond the precision of a float above the first is bounded from below."""
    matrix: str

    def groups(self, closeness: float = 1e-3) -> list[list[int]]:
        """Returns the vectors that belong together, since their eigenvalues hardly differ.

        Any rotation of such vectors is as good as these, so that they are compared as a subspace. A
        group that is cut off by the number of vectors that were asked for is left out.

        Args:
            closeness: How near two eigenvalues are, relative to how far the larger one is above
                the first.
        """
        values = np.append(self.eigenvalues, self.next_eigenvalue)
        resolved = RESOLVED * max(1.0, abs(float(values[0])))
        nearness = np.maximum(closeness * (values[1:] - values[0]), resolved)
        apart = (np.diff(values) > nearness) | np.isinf(values[1:])
        parts = np.split(np.arange(values.size), np.flatnonzero(apart) + 1)
        last = values.size - 1
        return [part.tolist() for part in parts if last not in part]


def spectrum(
    mdp: MDP,
    k: int = 8,
    *,
    matrix: str = "laplacian",
    lam: float | None = None,
    discount: float = 0.99,
    delta: float = 0.001,
) -> Spectrum:
    """Computes the leading eigenvectors of a representation: those of the smallest eigenvalues of
    the matrix whose inverse it is.

    Args:
        mdp: The MDP.
        k: How many.
        matrix: "laplacian" for `D - P~`, "successor" for `I - discount P~`, or "default" for
            `R - P~`.
        lam: The temperature lambda, for "default" only.
        discount: The discount factor, for "successor" only.
        delta: Minus the reward of an absorbing terminal state, for "default" only.

    Returns:
        The vectors, their eigenvalues, and the residual of each.

    Raises:
        ArgumentError: An argument cannot be used.
        NotConverged: The residual of a vector is too large, or one of them was not found.
    """
    check_choice("matrix", matrix, MATRICES)
    k = check_whole("k", k, 1, mdp.n_states)
    if (lam is None) == (matrix == "default"):
        raise ArgumentError(
            "the default representation needs lam." if lam is None else
            f"lam is for matrix='default', and matrix is {matrix!r}."
        )  # fmt: skip
    if matrix == "default":
        assert lam is not None
        lam, delta = check_parameters(lam, "absorbing", delta)
        rows = default_rows(mdp, lam, "absorbing", delta).symmetric_part()
    elif matrix == "successor":
        rows = successor_rows(mdp, check_number("discount", discount)).symmetric_part()
    else:
        rows = laplacian_rows(mdp)
    return smallest(rows, k, matrix)


def laplacian_rows(mdp: MDP) -> Rows:
    """Returns `D - P~`, whose rows sum to 0."""
    zero = np.zeros(mdp.n_states)
    both = Rows(*off_diagonals(mdp.P, zero), zero, zero, zero).symmetric_part()
    leaving = zero + np.bincount(both.row, np.exp(both.log_weight), both.n)
    return replace(both, diagonal=leaving, total=zero)


def smallest(rows: Rows, k: int, matrix: str) -> Spectrum:
    """Returns the vectors of the smallest eigenvalues of a symmetric Z-matrix.

    The inverse of the matrix, shifted to just below its smallest eigenvalue, has them as its
    largest, where costs beyond any range are entries near 0.

    Args:
        rows: The matrix.
        k: How many vectors.
        matrix: What the matrix is called.
    """
    with np.errstate(over="ignore"):
        unscaled = np.exp(-rows.log_scale)
        # The row sums of a Z-matrix bound its smallest eigenvalue from below.
        bound = float((rows.total * unscaled).min())
        shift = bound - BELOW * max(1.0, abs(bound))
    try:
        factor = factorise(rows.minus(shift), np.zeros(rows.n, dtype=bool), np.zeros(rows.n))
    except NoPositiveSolution as error:
        raise NotConverged(
            f"the matrix {matrix!r} could not be inverted: {error}",
            remedy="Use a larger lam (for the matrix 'default').",
        ) from error
    scale = np.exp(rows.log_scale)

    def inverse(x: np.ndarray) -> np.ndarray:
        return factor.lu.solve(scale[:, None] * x if x.ndim > 1 else scale * x)

    if rows.n <= MOST_DENSE or k + 1 + EXTRA >= rows.n:
        theta, x = _all_largest(inverse, rows.n, min(k + 1, rows.n))
    else:
        theta, x = _iterated(rows, inverse, shift, k + 1, matrix)
    with np.errstate(divide="ignore"):
        values = shift + 1 / theta
    x = x * np.sign(x[np.abs(x).argmax(axis=0), np.arange(x.shape[1])])
    with np.errstate(invalid="ignore"):
        off = _applied(rows, x) - scale[:, None] * values * x
    residuals = np.linalg.norm(off / np.maximum(scale, rows.diagonal)[:, None], axis=0)
    right = residuals < TOLERANCE
    if not right[:k].all():
        raise NotConverged(
            f"the eigenvectors of {matrix!r} did not converge: the largest residual is "
            f"{residuals[:k].max():.1e}.",
            remedy="Ask for fewer vectors, or use a larger lam (for the matrix 'default').",
        )
    following = values[k] if k < rows.n else np.inf
    if k < rows.n and not right[k]:
        following = shift + 1 / (max(theta[k], 0.0) + rows.n * np.finfo(float).eps * theta[0])
    return Spectrum(x.T[:k], values[:k], residuals[:k], float(following), matrix)


def _all_largest(inverse: Any, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the largest eigenvalues of a symmetric matrix, and their vectors in columns.

    Args:
        inverse: Applies the matrix.
        n: Its size.
        k: How many.
    """
    dense = inverse(np.eye(n))
    theta, x = scipy.linalg.eigh((dense + dense.T) / 2, subset_by_index=[n - k, n - 1])
    return theta[::-1], x[:, ::-1]


def _iterated(
    rows: Rows, inverse: Any, shift: float, k: int, matrix: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the largest eigenvalues of the inverse and their vectors, found by iteration. An
    iteration from one vector may miss some of several vectors with the same eigenvalue, so they are
    counted, as far as `count_below` can."""
    operator = LinearOperator((rows.n, rows.n), matvec=inverse, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    problem = ""
    for attempt in range(ATTEMPTS):
        first = np.random.default_rng(attempt).standard_normal(rows.n)
        asked = min(k + EXTRA * 2**attempt, rows.n - 1)
        try:
            theta, x = eigsh(operator, asked, which="LA", v0=first, ncv=min(rows.n, 4 * asked))
        except ArpackNoConvergence as error:
            problem = str(error)
            continue
        order = np.argsort(-theta)
        below, bound = _gap(shift + 1 / theta[order], k)
        there = count_below(rows, bound)
        if there is None or there == below:
            return theta[order[:k]], x[:, order[:k]]
        problem = f"{below} eigenvalues were found where there are {there}."
    raise NotConverged(f"the eigenvectors of {matrix!r} did not converge: {problem}")


def _gap(values: Float[np.ndarray, " found"], k: int) -> tuple[int, float]:
    """Returns how many of some eigenvalues in increasing order are below a gap, and its middle. It
    is the widest gap after the first k, or the last one before, if those after are all equal: of
    vectors with one eigenvalue, any will do."""
    resolved = RESOLVED * max(1.0, abs(float(values[0])))
    wide = np.diff(values, prepend=values[0] - 1e3 * resolved)
    after = k + int(np.argmax(wide[k:]))
    below = after if wide[after] > resolved else int(np.flatnonzero(wide[:k] > resolved)[-1])
    return below, float(values[below] - wide[below] / 2)


def count_below(rows: Rows, bound: float) -> int | None:
    """Counts the eigenvalues of a symmetric matrix below a bound, by Sylvester's law of inertia:
    as many as elimination on the diagonal of `M - bound I` meets negative pivots.

    Args:
        rows: The matrix.
        bound: The bound, which is no eigenvalue.

    Returns:
        Their number, or None if elimination had to leave the diagonal, or met a pivot that may be
        mere rounding.
    """
    try:
        lu = factorise(rows.minus(bound), np.zeros(rows.n, dtype=bool), np.zeros(rows.n)).lu
    except NoPositiveSolution:
        return None
    pivots = lu.U.diagonal()
    is_sure = np.isfinite(pivots).all() and np.abs(pivots).min() > ROUNDED
    return int((pivots < 0).sum()) if is_sure and (lu.perm_r == lu.perm_c).all() else None


def _applied(rows: Rows, x: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Returns the matrix, its rows scaled, times some vectors."""
    flow = np.exp(rows.log_weight)[:, None] * x[rows.column]
    out = rows.diagonal[:, None] * x
    np.subtract.at(out, rows.row, flow)
    return out
