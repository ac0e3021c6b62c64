"""`spectrum`: the leading eigenvectors of the Laplacian, the successor and the default
representation.

| matrix | | its smallest eigenvalues belong to |
|---|---|---|
| `laplacian` | `D - P~` | the smoothest functions; the first is constant, at 0 |
| `successor` | `I - discount P~` | the leading eigenvectors of the successor representation |
| `default` | `R - P~` | the leading eigenvectors of the default representation |

`P~ = (P + P^T)/2`, and `D` is the diagonal matrix of its row sums. Terminal states are absorbing,
or for `successor` have a zero row of `P`. Vectors are accurate relative to their norm.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from drogo import errors
from drogo.errors import ArgumentError, NotConverged
from drogo.exact.positive import NoPositiveSolution, factorise
from drogo.exact.rows import Rows, check_parameters, with_sums
from drogo.mdp.model import MDP, Edges

Vectors = Float[np.ndarray, "vectors states"]
MATRICES = ("laplacian", "successor", "default")
MOST_DENSE = 1500  # The largest number of states that is solved by dense matrices.
EXTRA = 6  # The additional vectors of the first attempt of an iteration.
ATTEMPTS = 3
BELOW = 1e-2  # The relative distance of the shift below a bound of the smallest eigenvalue.
CLOSENESS = 1e-3
"""The largest distance of nearly equal eigenvalues, relative to that to the first one."""
RESOLVED = 1e-10  # Eigenvalues that differ by less count as equal.
ROUNDED = 1e-13  # The largest pivot that may be a rounding error. Diagonals are about 1.
TOLERANCE = 1e-8  # The largest residual of a vector that is returned.
INDEPENDENT = 1e-6  # The least singular value of independent vectors, relative to the largest.


@dataclass(frozen=True)
class Eigenvectors:
    """The first eigenvectors of a matrix, those of the smallest eigenvalues."""

    vectors: Vectors
    """Each of unit norm, with its largest entry positive."""
    eigenvalues: Float[np.ndarray, " vectors"]
    """The eigenvalues of the matrix, in increasing order. Its inverse has their reciprocals."""
    residuals: Float[np.ndarray, " vectors"]
    """The norm of `M x - eigenvalue x`, each entry relative to its diagonal (if above 1)."""
    next_eigenvalue: float
    """The smallest eigenvalue of the other vectors, or a lower bound of it; infinite if none."""

    def groups(self) -> list[list[int]]:
        """Groups the vectors whose eigenvalues are nearly equal, because any rotation of these is
        equally valid. A group that the number of vectors cuts off is left out."""
        values = np.append(self.eigenvalues, self.next_eigenvalue)
        resolved = RESOLVED * max(1.0, abs(float(values[0])))
        nearness = np.maximum(CLOSENESS * (values[1:] - values[0]), resolved)
        apart = (np.diff(values) > nearness) | np.isinf(values[1:])
        *parts, _ = np.split(np.arange(values.size), np.flatnonzero(apart) + 1)
        return [part.tolist() for part in parts]


def spectrum(
    mdp: MDP,
    k: int = 8,
    *,
    matrix: str = "laplacian",
    lam: float | None = None,
    discount: float = 0.99,
    delta: float = 0.001,
) -> Eigenvectors:
    """Computes the leading eigenvectors of a representation: those of the smallest eigenvalues of
    the matrix whose inverse it is.

    Args:
        k: The number of vectors.
        matrix: "laplacian" for `D - P~`, "successor" for `I - discount P~`, or "default" for
            `R - P~`.
        lam: The temperature lambda, for "default" only.
        discount: The discount factor, for "successor" only.
        delta: Minus the reward of an absorbing terminal state, for "default" only.
    """
    errors.check_choice("matrix", matrix, MATRICES)
    k = errors.check_whole("k", k, 1, mdp.n_states)
    if (matrix == "default") == (lam is None):
        raise ArgumentError(f"lam is {lam}; it is for matrix='default' alone.", argument="lam")
    lam, delta = check_parameters(1.0 if lam is None else lam, "absorbing", delta)
    discount, end = errors.check_inside("discount", discount), np.flatnonzero(mdp.terminal)
    into, ones = mdp.edges, np.ones(end.size)
    into = replace(into, terminated=np.zeros(into.state.size, dtype=bool))
    edges = into + Edges(into.n, end, end, ones, -delta * ones, ones > 0, 0 * ones)
    return smallest(symmetric_rows(edges, matrix, lam, discount), k, matrix)


def symmetric_rows(edges: Edges, matrix: str, lam: float, discount: float) -> Rows:
    """Returns the symmetric part of a matrix of this name over states that are all left."""
    n, share, gain = edges.n, edges.share, edges.reward / lam
    log_scale, total = np.zeros(n), np.zeros(n)
    if matrix == "default":
        least = np.full(n, np.inf)
        np.minimum.at(least, edges.state, gain)
        excess = np.bincount(edges.state, share * np.exp(least[edges.state] - gain), n)
        log_scale = least - np.log(excess)  # minus the log of the mean of exp(-r/lam)
        total = -np.expm1(log_scale)
    elif matrix == "successor":
        share = share * discount * ~edges.terminated
        total = 1 - np.bincount(edges.state, share, n)
    P = sp.csr_array((share, (edges.state, edges.next_state)), shape=(n, n))
    rows = with_sums(P, total, log_scale).symmetric_part()
    if matrix == "laplacian":
        rows = replace(rows, diagonal=rows.diagonal - rows.total, total=total)
    return rows


def smallest(rows: Rows, k: int, matrix: str) -> Eigenvectors:
    """Returns the vectors of the smallest eigenvalues of a symmetric Z-matrix, by its inverse."""
    with np.errstate(over="ignore"):
        unscaled = np.exp(-rows.log_scale)
        # The row sums of a Z-matrix bound its smallest eigenvalue from below.
        bound = float((rows.total * unscaled).min())
        shift = bound - BELOW * max(1.0, abs(bound))
    try:
        lu = factorise(rows.minus(shift)).lu
    except NoPositiveSolution as error:
        remedy = "Use a larger lam (for the matrix 'default')."
        problem = f"the matrix {matrix!r} could not be inverted: {error}"
        raise NotConverged(problem, remedy=remedy) from error
    scale = np.exp(rows.log_scale)

    def inverse(x: np.ndarray) -> np.ndarray:
        return lu.solve(scale[:, None] * x if x.ndim > 1 else scale * x)

    if rows.n <= MOST_DENSE or k + 1 + EXTRA >= rows.n:
        dense, count = inverse(np.eye(rows.n)), min(k + 1, rows.n)
        last = [rows.n - count, rows.n - 1]
        theta, x = scipy.linalg.eigh((dense + dense.T) / 2, subset_by_index=last)
        theta, x = theta[::-1], x[:, ::-1]
    else:
        theta, x = _iterated(rows, inverse, shift, k + 1, matrix)
    with np.errstate(divide="ignore"):
        values = shift + 1 / theta
    x = x * np.sign(x[np.abs(x).argmax(axis=0), np.arange(x.shape[1])])
    with np.errstate(invalid="ignore"):
        product = rows.diagonal[:, None] * x
        np.subtract.at(product, rows.row, np.exp(rows.log_weight)[:, None] * x[rows.column])
        off = product - scale[:, None] * values * x
    residuals = np.linalg.norm(off / np.maximum(scale, rows.diagonal)[:, None], axis=0)
    right = residuals < TOLERANCE
    if not right[:k].all():
        problem = f"the largest residual of the vectors of {matrix!r} is {residuals[:k].max():.1e}."
        remedy = "Use a smaller k, or a larger lam (for the matrix 'default')."
        raise NotConverged(problem, remedy=remedy)
    following = values[k] if k < rows.n else np.inf
    if k < rows.n and not right[k]:
        following = shift + 1 / (max(theta[k], 0.0) + rows.n * np.finfo(float).eps * theta[0])
    return Eigenvectors(x.T[:k], values[:k], residuals[:k], float(following))


def _iterated(
    rows: Rows, inverse: Any, shift: float, k: int, matrix: str
) -> tuple[np.ndarray, ...]:
    """Computes the largest eigenvalues of the inverse by iteration, and checks their number."""
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
        values = shift + 1 / theta[order]
        resolved = RESOLVED * max(1.0, abs(float(values[0])))
        wide = np.diff(values, prepend=values[0] - 1e3 * resolved)
        # Counted are those below the middle of the widest gap after the first k.
        after = k + int(np.argmax(wide[k:]))
        below = after if wide[after] > resolved else int(np.flatnonzero(wide[:k] > resolved)[-1])
        expected = count_below(rows, float(values[below] - wide[below] / 2))
        if expected is None or expected == below:
            return theta[order[:k]], x[:, order[:k]]
        problem = f"the iteration returned {below} of {expected} eigenvalues."
    raise NotConverged(f"the eigenvectors of {matrix!r} did not converge: {problem}")


def count_below(rows: Rows, bound: float) -> int | None:
    """Counts the eigenvalues of a symmetric matrix below a bound, which are as many as the negative
    pivots of elimination on the diagonal (Sylvester's law of inertia), or returns None if
    elimination left the diagonal, or met a pivot that may be a rounding error."""
    try:
        lu = factorise(rows.minus(bound)).lu
    except NoPositiveSolution:
        return None
    pivots = lu.U.diagonal()
    is_sure = np.isfinite(pivots).all() and np.abs(pivots).min() > ROUNDED
    return int((pivots < 0).sum()) if is_sure and (lu.perm_r == lu.perm_c).all() else None


def cosines(vectors: Vectors, truth: Eigenvectors) -> Float[np.ndarray, " vectors"]:
    """Computes the absolute cosine of each vector, of any norm, with its eigenvector in `truth`.

    Vectors of nearly equal eigenvalues are compared as a subspace: all of them have the cosine of
    the largest angle between the two subspaces, which is 0 if they are not independent. If `truth`
    does not include the whole subspace, the cosine is NaN.
    """
    _check_shapes(vectors, truth)
    result = np.full(len(vectors), np.nan)
    for group in truth.groups():
        members = [k for k in group if k < len(vectors)]
        if not members:  # There are more eigenvectors than vectors.
            break
        basis = _basis(vectors[members])
        inside = np.linalg.svd(basis @ truth.vectors[group].T, compute_uv=False)
        result[members] = inside.min() if len(basis) == len(members) else 0.0
    return result


def overlap(vectors: Vectors, truth: Eigenvectors) -> float:
    """Computes the overlap of the subspace of any vectors with that of as many eigenvectors, from
    0 to 1: the mean of the squared cosines of the angles between the two."""
    return float((contained(vectors, truth) ** 2).mean())


def contained(vectors: Vectors, truth: Eigenvectors) -> Float[np.ndarray, " vectors"]:
    """Computes the cosine of the angle between each of as many eigenvectors and the subspace that
    some vectors span; for nearly equal eigenvalues, of the angles between the two subspaces."""
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


def _basis(vectors: Vectors) -> Float[np.ndarray, "basis states"]:
    """Returns an orthonormal basis of the span of some vectors, each of which counts the same."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length > 0, length, 1.0)
    _, sizes, basis = np.linalg.svd(unit, full_matrices=False)
    return basis[(sizes > INDEPENDENT * sizes.max(initial=0.0)) & (sizes > 0)]


def _check_shapes(vectors: Any, truth: Any) -> None:
    errors.check_type("vectors", vectors, np.ndarray, "an array with a vector in each row")
    count, states = truth.vectors.shape
    if vectors.ndim != 2 or vectors.shape[1] != states or len(vectors) > count:
        problem = f"vectors has shape {vectors.shape}; give at most {count}, over {states} states."
        raise ArgumentError(problem, argument="vectors")
    if vectors.dtype.kind not in "iuf" or not np.isfinite(vectors).all():
        raise ArgumentError("vectors has entries that are not finite.", argument="vectors")
