"""The four vectors that are called "the principal eigenvector of the DR", by name.

- `column`: `v(T) = terminal_reward(T) / lam` and `(R - P) exp(v) = 0` elsewhere. It is the fixed
  point of the DROGO loss (proposition 3.10) and the log desirability of a linearly solvable MDP.
- `transition`: for the smallest (algebraic) eigenvalue of `R - (P + P^T)/2`; the paper's text.
- `representation`: for the largest eigenvalue of `(Z + Z^T)/2`; the vector of tabular work.
- `right`: the right Perron eigenvector of `Z`, not symmetrised; the subject of theorem 3.11.

Eigenvectors have unit norm before the log. Terminal states are absorbing with reward `-delta`
(`terminal="absorbing"`, as in the paper), or have a zero row of `P` and keep their reward
(`terminal="zero-row"`, Tse et al. 2025).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse import csgraph

from drogo.errors import ArgumentError, check_choice
from drogo.exact.finite import check_finite, check_has_terminal
from drogo.exact.log_solve import NoPositiveSolution, log_solve
from drogo.exact.pencil import Pencil, perron
from drogo.exact.rows import Rows, check_parameters, default_rows, successor_rows
from drogo.exact.solution import Solution, Vector
from drogo.mdp import MDP, check_mdp
from drogo.mdp.arrays import as_floats

DEFINITIONS = ("column", "transition", "representation", "right")
MAX_REFINEMENTS = 10


def solve(
    mdp: MDP,
    lam: float,
    definition: str = "column",
    *,
    delta: float = 0.001,
    terminal: str = "absorbing",
    terminal_reward: npt.ArrayLike | None = None,
) -> Solution:
    """Computes a vector together with its eigenvalue, error estimates and status.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.
        definition: `"column"`, `"transition"`, `"representation"` or `"right"`.
        delta: Minus the reward of an absorbing terminal state, positive.
        terminal: How terminal states enter the representation: `"absorbing"` or `"zero-row"`.
        terminal_reward: For `column` only: one value per terminal state in state order, in units of
            reward, so that `v(T) = terminal_reward / lam`. By default `mdp.reward` of these states.

    Returns:
        The solution. If it is inaccurate, its `status` says so; `solution.checked()` then raises.

    Raises:
        ArgumentError: An argument cannot be used, or the vector is not defined for this MDP.
        NotConverged: No vector could be computed.
    """
    check_mdp(mdp)
    check_choice("definition", definition, DEFINITIONS)
    lam, delta = check_parameters(lam, terminal, delta)
    if terminal_reward is not None and definition != "column":
        problem = f"terminal_reward is for definition='column', not for {definition!r}."
        raise ArgumentError(problem, argument="terminal_reward")
    if definition == "column":
        check_has_terminal(mdp)
    if definition != "transition":  # It is defined for any rewards.
        check_finite(mdp, lam)
    try:
        if definition == "column":
            vector = _column(mdp, lam, terminal_reward)
        else:
            rows = default_rows(mdp, lam, terminal, delta)
            solver = {"transition": _transition, "representation": _representation, "right": _right}
            vector = solver[definition](mdp, rows)
    except NoPositiveSolution as error:
        problem = f"the {definition} vector at lam = {lam:g} could not be computed: {error}"
        raise NoPositiveSolution(problem) from error
    return Solution(definition, lam, delta, terminal, *vector)


def log_column(
    mdp: MDP, lam: float, terminal_reward: npt.ArrayLike | None = None
) -> Float[np.ndarray, " states"]:
    """Computes the vector `column`, which is the exact fixed point of the DROGO loss.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.
        terminal_reward: One value per terminal state in state order, in units of reward. By default
            `mdp.reward` of these states.

    Returns:
        `v`, one number per state. It is `terminal_reward / lam` in terminal states.

    Raises:
        NotConverged: The vector is not accurate in every entry.
    """
    return solve(mdp, lam, "column", terminal_reward=terminal_reward).checked().log_e


def log_eigenvector(
    mdp: MDP,
    lam: float,
    definition: str = "column",
    *,
    delta: float = 0.001,
    terminal: str = "absorbing",
) -> Float[np.ndarray, " states"]:
    """Computes the vector of any definition, in logs. The arguments are those of `solve`.

    Returns:
        `v` for `"column"`, and otherwise the log of the eigenvector of unit norm, for each state.

    Raises:
        NotConverged: The vector is not accurate in every entry.
    """
    return solve(mdp, lam, definition, delta=delta, terminal=terminal).checked().log_e


def successor_eigenvector(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Computes the top eigenvector of `(SR + SR^T)/2`, where `SR = (I - discount P)^-1`.

    Args:
        mdp: The MDP. Its rewards are not used.
        discount: The discount factor, between 0 and 1.

    Returns:
        The eigenvector: positive and of unit norm, one number per state.

    Raises:
        NotConverged: The vector is not accurate in every entry.
    """
    vector = _representation(mdp, successor_rows(check_mdp(mdp), discount))
    return np.exp(Solution("successor", np.inf, 0.0, "zero-row", *vector).checked().log_e)


def _unit(log_e: np.ndarray) -> np.ndarray:
    """Scales to unit norm, in logs."""
    return log_e - np.logaddexp.reduce(2 * log_e) / 2


def _column(mdp: MDP, lam: float, terminal_reward: npt.ArrayLike | None) -> Vector:
    rewards = mdp.reward[mdp.terminal] if terminal_reward is None else terminal_reward
    rewards = as_floats("terminal_reward", rewards)
    count = int(mdp.terminal.sum())
    with np.errstate(over="ignore"):
        ratio = rewards / lam
    if rewards.shape != (count,) or not np.isfinite(rewards).all() or np.isposinf(ratio).any():
        raise ArgumentError(
            f"terminal_reward needs one finite value for each of the {count} terminal state(s), in "
            f"state order, also after division by lam = {lam:g}; got {rewards!r}.",
            argument="terminal_reward",
        )
    values = np.zeros(mdp.n_states)
    values[mdp.terminal] = ratio
    # The rows of terminal states are not used, and the others are those of any formulation.
    return refined_solve(default_rows(mdp, lam, "absorbing", 1.0), mdp.terminal, values)


def refined_solve(rows: Rows, fixed: np.ndarray, values: np.ndarray) -> Vector:
    """Solves `(M e)(s) = 0` for the entries that are not fixed, and refines the solution."""
    v, factor = log_solve(rows, fixed, values)
    correction = np.inf
    for _ in range(MAX_REFINEMENTS):
        change = factor.relative(v, -rows.ratio(v)[factor.unknown])
        size = float(np.abs(change).max(initial=0.0))
        if not size < 0.5 * correction:
            break
        v = v.copy()
        v[factor.unknown] += np.log1p(np.maximum(change, -0.5))
        correction = size
    residual = float(np.abs(rows.ratio(v)[factor.unknown]).max(initial=0.0))
    return Vector(v, None, None, residual, max(correction, factor.rounding_error(rows, v)))


def _transition(mdp: MDP, rows: Rows) -> Vector:
    _check_connected(mdp)
    result = perron(Pencil(rows.symmetric_part()))
    return result._replace(log_e=_unit(result.log_e))


def _representation(mdp: MDP, rows: Rows) -> Vector:
    """Solves `(Z + Z^T)/2 x = k x` without an inverse.

    With `p = Z x`, `q = Z^T x` and `s = 1/(2k)` it reads `M p = s (p + q)`, `M^T q = s (p + q)`,
    `x = s (p + q)`: a sparse pencil of twice the size.
    """
    _check_connected(mdp)
    n = rows.n
    partner = np.concatenate([np.arange(n) + n, np.arange(n)])
    pencil = Pencil(rows.beside(rows.transpose()), partner)
    v, eigenvalue, (below, above), residual, error = perron(pencil)
    high, largest, low = (0.5 / s if s > 0 else np.inf for s in (below, eigenvalue, above))
    log_e = _unit(np.logaddexp(v[:n], v[n:]))
    return Vector(log_e, largest, (low, high), residual, error)


def _right(mdp: MDP, rows: Rows) -> Vector:
    """Solves a block triangular eigenproblem, of the non-terminal block and the terminal states.

    If the terminal states have the smaller eigenvalue, `e = 1` there (in an eigenspace of several
    dimensions, this vector is chosen). Otherwise the vector vanishes in terminal states, where its
    log is minus infinity.
    """
    terminal = mdp.terminal
    # exp(r/lam) may underflow to 0, and then the row sum is infinite.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        row_sum = rows.total / np.exp(rows.log_scale)
        least_row_sum = float(row_sum[~terminal].min(initial=np.inf))
    t = float(row_sum[terminal].min(initial=np.inf))
    if t >= least_row_sum:  # The row sums bound the block's smallest eigenvalue from below.
        inside = mdp.P[~terminal][:, ~terminal]
        parts, _ = csgraph.connected_components(inside, connection="strong")
        if parts > 1:
            raise ArgumentError(
                f"the non-terminal states fall into {parts} classes that cannot all reach each "
                "other, and the right eigenvector of this lam and reward vanishes on some.",
                remedy="Use definition='column', or terminal='absorbing' with a small delta.",
                argument="definition",
            )
        inner = perron(Pencil(rows.block(~terminal)))
        if inner.eigenvalue <= t:
            v = np.full(mdp.n_states, -np.inf)
            v[~terminal] = inner.log_e
            return inner._replace(log_e=_unit(v))
    if not np.allclose(row_sum[terminal], t, rtol=1e-12, atol=0):
        problem = "the right eigenvector vanishes where only terminal states of a lower reward are "
        remedy = "Use definition='column'."
        raise ArgumentError(problem + "reached.", remedy=remedy, argument="definition")
    outer = refined_solve(rows.minus(t), terminal, np.zeros(rows.n))
    bracket = Pencil(rows).bracket(outer.log_e)
    return outer._replace(log_e=_unit(outer.log_e), eigenvalue=t, bracket=bracket)


def _check_connected(mdp: MDP) -> None:
    parts, label = csgraph.connected_components(sp.csr_array(mdp.P), directed=False)
    if parts > 1:
        sizes = ", ".join(map(str, np.bincount(label)[:5]))
        raise ArgumentError(
            f"the states fall into {parts} parts with no transition between them ({sizes} states "
            "...), and an eigenvector of the whole is zero on all parts but one.",
            remedy="Use definition='column', or one MDP for each part.",
            argument="mdp",
        )
