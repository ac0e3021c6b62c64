"""The four vectors that get called "the principal eigenvector of the DR", each by its name.

- `column`: `v(T) = r(T)/lam`, `(R - P) exp(v) = 0` elsewhere. The fixed point of the DROGO loss
  (proposition 3.10) and the log desirability of a linearly solvable MDP.
- `transition`: smallest (algebraic) eigenvalue of `R - (P + P^T)/2`; the paper's text.
- `representation`: largest eigenvalue of `(Z + Z^T)/2`; what tabular work computes.
- `right`: the right Perron eigenvector of `Z`, not symmetrised; theorem 3.11 speaks of it.

Eigenvectors have unit norm before the log. Terminal states absorb at reward `-delta`
(`terminal="absorbing"`, the paper's), or have a zero row of `P` and keep their own reward
(`"zero-row"`, Tse et al. 2025).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse import csgraph

from drogo.errors import ArgumentError
from drogo.exact.log_solve import Factor, NoPositiveSolution, log_solve
from drogo.exact.perron import Pencil, Perron, perron
from drogo.exact.rows import (
    Rows,
    block,
    check_parameters,
    default_rows,
    successor_rows,
    symmetric_part,
    transpose,
)
from drogo.exact.solution import Solution
from drogo.mdp import MDP

DEFINITIONS = ("column", "transition", "representation", "right")
MOST_REFINEMENTS = 10


def solve(
    mdp: MDP,
    lam: float,
    definition: str = "column",
    *,
    delta: float = 0.001,
    terminal: str = "absorbing",
    boundary: Float[np.ndarray, " terminal_states"] | None = None,
) -> Solution:
    """The whole answer: vector, eigenvalue, certificates, status.

    An inaccurate vector is returned as such (`status`); `NotConverged` is raised only if there is
    none at all. `boundary` replaces the values `v(T)` of `column`, one per terminal state in state
    order.
    """
    if definition not in DEFINITIONS:
        raise ArgumentError(
            f"definition is {definition!r}; choose one of {', '.join(DEFINITIONS)}."
        )
    check_parameters(lam, terminal, delta)
    if boundary is not None and definition != "column":
        raise ArgumentError(f"boundary values belong to 'column', not to {definition!r}.")
    try:
        return _solve(mdp, lam, definition, delta, terminal, boundary)
    except NoPositiveSolution as error:
        raise NoPositiveSolution(
            f"the {definition} vector at lam = {lam:g} could not be computed: {error}"
        ) from error


def _solve(
    mdp: MDP,
    lam: float,
    definition: str,
    delta: float,
    terminal: str,
    boundary: np.ndarray | None,
) -> Solution:
    if definition == "column":
        log_e, residual, error = _column(mdp, lam, boundary)
        return Solution(log_e, definition, lam, delta, terminal, None, None, residual, error)
    solver: Callable[[MDP, Rows], tuple[np.ndarray, Perron]] = {
        "transition": _transition,
        "representation": _representation,
        "right": _right,
    }[definition]
    log_e, found = solver(mdp, default_rows(mdp, lam, terminal, delta))
    return Solution(
        _unit(log_e),
        definition,
        lam,
        delta,
        terminal,
        found.eigenvalue,
        found.bracket,
        found.residual,
        found.error,
    )


def log_column(
    mdp: MDP, lam: float, boundary: Float[np.ndarray, " terminal_states"] | None = None
) -> Float[np.ndarray, " states"]:
    """`column`: the exact fixed point of the DROGO loss. Raises if it did not converge."""
    return solve(mdp, lam, "column", boundary=boundary).checked().log_e


def log_eigenvector(
    mdp: MDP,
    lam: float,
    definition: str = "transition",
    *,
    delta: float = 0.001,
    terminal: str = "absorbing",
) -> Float[np.ndarray, " states"]:
    """Log of a unit-norm eigenvector of the DR. Raises if it did not converge."""
    if definition == "column":
        raise ArgumentError("'column' is not an eigenvector; use exact.log_column.")
    return solve(mdp, lam, definition, delta=delta, terminal=terminal).checked().log_e


def successor_eigenvector(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Top eigenvector of `(SR + SR^T)/2`, `SR = (I - discount P)^-1`: positive, of unit norm."""
    log_e, found = _representation(mdp, successor_rows(mdp, discount))
    checked = Solution(
        _unit(log_e),
        "successor",
        np.inf,
        0.0,
        "zero-row",
        found.eigenvalue,
        found.bracket,
        found.residual,
        found.error,
    ).checked()
    return np.exp(checked.log_e)


def _unit(log_e: np.ndarray) -> np.ndarray:
    """Scaled to norm 1, in logs."""
    return log_e - np.logaddexp.reduce(2 * log_e) / 2


def _column(mdp: MDP, lam: float, boundary: np.ndarray | None) -> tuple[np.ndarray, float, float]:
    end = mdp.terminal
    values = np.zeros(mdp.n_states)
    values[end] = mdp.reward[end] / lam if boundary is None else _checked(boundary, mdp)
    # The rows of terminal states are not used; any formulation gives the same others.
    rows = default_rows(mdp, lam, "absorbing", 1.0)
    v, factor = log_solve(rows, end, values)
    return _refine(rows, v, factor)


def _refine(rows: Rows, v: np.ndarray, factor: Factor) -> tuple[np.ndarray, float, float]:
    """Correct `(M e)(s) = 0` on the unknown entries by its own accurate residual."""
    correction = np.inf
    for _ in range(MOST_REFINEMENTS):
        change = factor.relative(v, -rows.ratio(v)[factor.unknown])
        size = float(np.abs(change).max(initial=0.0))
        if not size < 0.5 * correction:
            break
        v = v.copy()
        v[factor.unknown] += np.log1p(np.maximum(change, -0.5))
        correction = size
    residual = float(np.abs(rows.ratio(v)[factor.unknown]).max(initial=0.0))
    return v, residual, max(correction, factor.rounding_error(rows, v))


def _checked(boundary: np.ndarray, mdp: MDP) -> np.ndarray:
    values = np.asarray(boundary, dtype=np.float64)
    ends = int(mdp.terminal.sum())
    if values.shape != (ends,) or not np.isfinite(values).all():
        raise ArgumentError(
            f"boundary needs one finite value for each of the {ends} terminal state(s), in state "
            f"order; got {values!r}."
        )
    return values


def _transition(mdp: MDP, rows: Rows) -> tuple[np.ndarray, Perron]:
    _check_connected(mdp)
    found = perron(Pencil(symmetric_part(rows)))
    return found.v, found


def _representation(mdp: MDP, rows: Rows) -> tuple[np.ndarray, Perron]:
    """`(Z + Z^T)/2 x = k x` without an inverse.

    With `p = Z x`, `q = Z^T x` and `s = 1/(2k)` it reads `M p = s (p + q)`, `M^T q = s (p + q)`,
    `x = s (p + q)`: a sparse pencil of twice the size.
    """
    _check_connected(mdp)
    n = rows.n
    partner = np.concatenate([np.arange(n) + n, np.arange(n)])
    found = perron(Pencil(block(rows, transpose(rows)), partner))
    low, high = found.bracket
    bracket = (0.5 / high if high > 0 else np.inf, 0.5 / low if low > 0 else np.inf)
    largest = 0.5 / found.eigenvalue if found.eigenvalue > 0 else np.inf
    top = Perron(found.v, largest, bracket, found.residual, found.error)
    return np.logaddexp(found.v[:n], found.v[n:]), top


def _right(mdp: MDP, rows: Rows) -> tuple[np.ndarray, Perron]:
    """Upper triangular: the eigenvalues are those of the non-terminal block and of the ends.

    If the ends have the smaller one, `e = 1` there (in an eigenspace of several, this vector)
    and the rest follows. Otherwise the vector lives on the non-terminal states alone, and its
    log is minus infinity at the ends.
    """
    end = mdp.terminal
    # exp(r/lam) may be 0: then the row sum is infinite.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        at_end = rows.total[end] / np.exp(rows.log_scale[end])
        least_row_sum = float((rows.total[~end] / np.exp(rows.log_scale[~end])).min(initial=np.inf))
    t = float(at_end.min())
    inner = None
    if t >= least_row_sum:  # the row sums bound the block's smallest eigenvalue from below
        inner = perron(Pencil(_inner_rows(mdp, rows)))
    if inner is not None and inner.eigenvalue <= t:
        v = np.full(mdp.n_states, -np.inf)
        v[~end] = inner.v
        return v, inner
    if not np.allclose(at_end, t, rtol=1e-12, atol=0):
        raise ArgumentError(
            "the terminal states have different rewards, so that the right eigenvector vanishes "
            "wherever only the worse ones can be reached. Use definition='column'."
        )
    shifted = rows.minus(t)
    v, factor = log_solve(shifted, end, np.zeros(rows.n))
    v, residual, error = _refine(shifted, v, factor)
    return v, Perron(v, t, Pencil(rows).bracket(v), residual, error)


def _inner_rows(mdp: MDP, rows: Rows) -> Rows:
    """The block over non-terminal states, which must be strongly connected."""
    inside = ~mdp.terminal
    parts, _ = csgraph.connected_components(mdp.P[inside][:, inside], connection="strong")
    if parts > 1:
        raise ArgumentError(
            f"the non-terminal states fall into {parts} classes that cannot all reach each other, "
            "and with this lam and terminal reward the right eigenvector vanishes on some. Use "
            "definition='column', or terminal='absorbing' with a small delta."
        )
    local = np.cumsum(inside) - 1
    keep = inside[rows.row] & inside[rows.column]
    leaves = inside[rows.row] & ~inside[rows.column]
    leaving = np.bincount(rows.row[leaves], np.exp(rows.log_weight[leaves]), rows.n)
    return Rows(
        local[rows.row[keep]],
        local[rows.column[keep]],
        rows.log_weight[keep],
        rows.diagonal[inside],
        (rows.total + leaving)[inside],
        rows.log_scale[inside],
    )


def _check_connected(mdp: MDP) -> None:
    parts, label = csgraph.connected_components(sp.csr_array(mdp.P), directed=False)
    if parts > 1:
        sizes = ", ".join(map(str, np.bincount(label)[:5]))
        raise ArgumentError(
            f"the states fall into {parts} parts with no transition between them ({sizes} states "
            "...): an eigenvector of the whole is zero on all parts but one. Use "
            "definition='column', or one MDP for each part."
        )
