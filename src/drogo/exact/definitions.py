"""The four vectors that are called "the principal eigenvector of the DR", by name, and the dense
representations of small MDPs.

- `column`: `v(T) = terminal_reward(T) / lam` and `(R - P) exp(v) = 0` elsewhere. It is the fixed
  point of the DROGO loss (proposition 3.10) and the log desirability of a linearly solvable MDP.
- `transition`: for the smallest (algebraic) eigenvalue of `R - (P + P^T)/2`; the paper's text.
- `representation`: for the largest eigenvalue of `(Z + Z^T)/2`; the vector of tabular work.
- `right`: the right Perron eigenvector of `Z`, not symmetrised; the subject of theorem 3.11.

Eigenvectors have unit norm before the log. Terminal states are absorbing with reward `-delta`
(`terminal="absorbing"`, as in the paper), or have a zero row of `P` and keep their reward
(`terminal="zero-row"`, Tse et al. 2025).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse import csgraph

from drogo.errors import ArgumentError, check_choice
from drogo.exact.growth import check_finite, check_has_terminal
from drogo.exact.positive import (
    InLogs,
    NoPositiveSolution,
    Pencil,
    Vector,
    factorise,
    positive_eigenvector,
    refined_solve,
)
from drogo.exact.rows import Rows, Values, check_parameters, default_rows, successor_rows
from drogo.mdp.arrays import as_floats
from drogo.mdp.model import MDP

DEFINITIONS = ("column", "transition", "representation", "right")
MAX_STATES_DENSE = 5000
Square = Float[np.ndarray, "states states"]


@dataclass(frozen=True)
class LogVector(InLogs):
    """A vector in logs, the parameters that define it, and its accuracy."""

    definition: str
    lam: float
    delta: float
    terminal: str
    log_e: Float[np.ndarray, " states"]
    """The vector: `v` for `column`, otherwise the log of an eigenvector of unit norm."""
    eigenvalue: float | None
    """For `transition`, the smallest of `R - (P + P^T)/2`. For `representation`, the largest of
    `(Z + Z^T)/2`. For `right`, the smallest of `R - P`. None for `column`."""
    bracket: tuple[float, float] | None
    """Collatz-Wielandt bounds of the eigenvalue, but for rounding. None for `column`."""
    residual: float
    """The largest violation of a row's equation, relative to that row's diagonal term."""
    error: float
    """The estimated largest error of a log entry."""

    causes: ClassVar = " Terminal states hardly interact, or costs are beyond double precision."
    remedies: ClassVar = {
        "remedy": "exact.log_column has neither problem; exact.solve returns the vector as it is.",
        "command_remedy": "--definition column has neither problem.",
    }


def solve(
    mdp: MDP,
    lam: float,
    definition: str = "column",
    *,
    delta: float = 0.001,
    terminal: str = "absorbing",
    terminal_rewards: npt.ArrayLike | None = None,
) -> LogVector:
    """Computes a vector together with its eigenvalue, error estimates and status.

    Args:
        lam: The temperature lambda, positive.
        definition: `"column"`, `"transition"`, `"representation"` or `"right"`.
        delta: Minus the reward of an absorbing terminal state, positive.
        terminal: How terminal states enter the representation: `"absorbing"` or `"zero-row"`.
        terminal_rewards: For `column` only: one value per terminal state in state order, in units
            of reward, so that `v(T) = terminal_reward / lam`. By default `mdp.reward` of these.

    Returns:
        The solution. If it is inaccurate, its `status` says so; `solution.checked()` then raises.
    """
    check_choice("definition", definition, DEFINITIONS)
    lam, delta = check_parameters(lam, terminal, delta)
    if terminal_rewards is not None and definition != "column":
        problem = f"terminal_rewards is for definition='column', not for {definition!r}."
        raise ArgumentError(problem, argument="terminal_rewards")
    if definition == "column":
        check_has_terminal(mdp)
    if definition == "right" and mdp.stuck.any():
        problem = f"the right eigenvector: {mdp.stuck_text}"
        raise ArgumentError(problem, remedy="Use definition='column'.", argument="definition")
    if definition != "transition":  # It is defined for any rewards.
        check_finite(mdp, lam)
    try:
        if definition == "column":
            vector = _column(mdp, lam, terminal_rewards)
        else:
            vector = _eigenvector(definition, mdp, default_rows(mdp, lam, terminal, delta))
    except NoPositiveSolution as error:
        problem = f"the {definition} vector at lam = {lam:g} could not be computed: {error}"
        raise NoPositiveSolution(problem) from error
    return LogVector(definition, lam, delta, terminal, *vector)


def log_column(mdp: MDP, lam: float, terminal_rewards: npt.ArrayLike | None = None) -> Values:
    """Computes the vector `column`, which is the exact fixed point of the DROGO loss.

    Args:
        lam: The temperature lambda, positive.
        terminal_rewards: One value per terminal state in state order, in units of reward. By
            default `mdp.reward` of these states.

    An inaccurate entry is an error.
    """
    return solve(mdp, lam, "column", terminal_rewards=terminal_rewards).checked().log_e


def successor_eigenvector(mdp: MDP, discount: float = 0.99) -> Values:
    """Computes the top eigenvector of `(SR + SR^T)/2`, where `SR = (I - discount P)^-1`."""
    vector = _eigenvector("representation", mdp, successor_rows(mdp, discount))
    return np.exp(LogVector("successor", np.inf, 0.0, "zero-row", *vector).checked().log_e)


def _column(mdp: MDP, lam: float, terminal_rewards: npt.ArrayLike | None) -> Vector:
    rewards = mdp.reward[mdp.terminal] if terminal_rewards is None else terminal_rewards
    rewards = as_floats("terminal_rewards", rewards)
    count = int(mdp.terminal.sum())
    with np.errstate(over="ignore"):
        ratio = rewards / lam
    usable = np.isfinite(rewards).all() and np.isfinite(ratio.max(initial=-np.inf))
    if rewards.shape != (count,) or not usable:
        problem = f"terminal_rewards is {rewards!r}; give one finite value for each of the {count} "
        problem += f"terminal state(s), also after division by lam = {lam:g}."
        raise ArgumentError(problem, argument="terminal_rewards")
    values = np.zeros(mdp.n_states)
    values[mdp.terminal] = ratio
    # The rows of terminal states are not used, and the others are those of any formulation.
    rows, leads = default_rows(mdp, lam, "absorbing", 1.0), ~mdp.stuck
    vector = refined_solve(rows.block(leads), mdp.terminal[leads], values[leads])
    values[leads], values[mdp.stuck] = vector.log_e, -np.inf
    return vector._replace(log_e=values)


def _eigenvector(definition: str, mdp: MDP, rows: Rows) -> Vector:
    if definition == "right":
        vector = _right(mdp, rows)
    else:
        parts, label = csgraph.connected_components(sp.csr_array(mdp.P), directed=False)
        if parts > 1:
            sizes = ", ".join(map(str, np.bincount(label)[:5]))
            problem = f"no transition leads between {parts} parts of the states ({sizes}, ...)."
            remedy = "Use definition='column', or one MDP for each part."
            raise ArgumentError(problem, remedy=remedy, argument="mdp")
        symmetric = definition == "transition"
        vector = positive_eigenvector(Pencil(rows.symmetric_part())) if symmetric else _of_Z(rows)
    return vector._replace(log_e=vector.log_e - np.logaddexp.reduce(2 * vector.log_e) / 2)


def _of_Z(rows: Rows) -> Vector:
    """Solves `(Z + Z^T)/2 x = k x` by a sparse pencil of twice the size. With `p = Z x`,
    `q = Z^T x` and `s = 1/(2k)`, it is `M p = s (p + q)`, `M^T q = s (p + q)`, `x = s (p + q)`."""
    n = rows.n
    partner = np.concatenate([np.arange(n) + n, np.arange(n)])
    pencil = Pencil(rows.beside(rows.transpose()), partner)
    v, eigenvalue, (below, above), residual, error = positive_eigenvector(pencil)
    high, largest, low = (0.5 / s if s > 0 else np.inf for s in (below, eigenvalue, above))
    return Vector(np.logaddexp(v[:n], v[n:]), largest, (low, high), residual, error)


def _right(mdp: MDP, rows: Rows) -> Vector:
    """Solves a block triangular eigenproblem; the vector may vanish in terminal states."""
    terminal = mdp.terminal
    # exp(r/lam) may underflow to 0, and then the row sum is infinite.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        row_sum = rows.total / np.exp(rows.log_scale)
        least_row_sum = float(row_sum[~terminal].min(initial=np.inf))
    t = float(row_sum[terminal].min(initial=np.inf))
    if t >= least_row_sum:  # The row sums bound the block's smallest eigenvalue from below.
        parts, _ = csgraph.connected_components(mdp.P[~terminal][:, ~terminal], connection="strong")
        if parts > 1:
            problem = f"the right eigenvector vanishes on some of {parts} classes of states."
            remedy = "Use definition='column', or terminal='absorbing' with a small delta."
            raise ArgumentError(problem, remedy=remedy, argument="definition")
        inner = positive_eigenvector(Pencil(rows.block(~terminal)))
        if inner.eigenvalue <= t:
            v = np.full(mdp.n_states, -np.inf)
            v[~terminal] = inner.log_e
            return inner._replace(log_e=v)
    if not np.allclose(row_sum[terminal], t, rtol=1e-12, atol=0):
        problem = "the right eigenvector vanishes where only lower terminal rewards are reached."
        raise ArgumentError(problem, remedy="Use definition='column'.", argument="definition")
    outer = refined_solve(rows.minus(t), terminal, np.zeros(rows.n))
    return outer._replace(eigenvalue=t, bracket=Pencil(rows).bracket(outer.log_e))


def default_representation(
    mdp: MDP, lam: float, *, delta: float = 0.001, terminal: str = "absorbing"
) -> Square:
    """Computes `Z = (R - P)^-1` of at most 5,000 states with the arguments of `exact.solve`. Every
    entry is accurate; those below 1e-308 are 0."""
    lam, delta = check_parameters(lam, terminal, delta)
    check_finite(mdp, lam)
    return _inverse(default_rows(mdp, lam, terminal, delta))


def successor_representation(mdp: MDP, discount: float = 0.99) -> Square:
    """Computes `SR = (I - discount P)^-1` of at most 5,000 states; terminal rows of P are zero."""
    return _inverse(successor_rows(mdp, discount))


def _inverse(rows: Rows) -> Square:
    if rows.n > MAX_STATES_DENSE:
        problem = f"a dense matrix over {rows.n} states is refused (more than {MAX_STATES_DENSE})."
        remedy = "Use exact.log_column or exact.solve, which need no matrix."
        raise ArgumentError(problem, remedy=remedy, argument="mdp")
    # Rows were multiplied by exp(r/lam), so the identity on the right is multiplied too.
    return factorise(rows).lu.solve(np.diag(np.exp(rows.log_scale)))
