"""Columns of the default representation: the log value of reaching each goal from each state.

`v(s, g) = log E[exp(sum of r/lam over the states left before g)]` under the default policy is
`log Z(s, g) - log Z(g, g)` for `Z = (R - P)^-1` with zero rows in terminal states.

All goals share one factorisation. Where entries of a column are below the range of doubles, the
matrix is scaled by that column. An entry of another goal's column is then never smaller than the
value of the round trip between the two goals, so the scaled matrix serves all goals around.

Each error has a proven bound. For an approximate column `x`, let `d` bound the violation of its
equation in every row, rounding included. The inverse of an M-matrix `M` has no negative entry,
so if `M z >= share d`, then `z / share` bounds the error. Both are checked by multiplication.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError, NotConverged, check_positive
from drogo.exact.growth import check_finite, check_has_terminal
from drogo.exact.positive import (
    SMALLEST,
    InLogs,
    NoPositiveSolution,
    factorise,
    log_solve,
    refined_solve,
    tolerance_at,
)
from drogo.exact.rows import Reach, Rows, default_rows, weighted_rows
from drogo.files import check_memory
from drogo.mdp.arrays import as_floats, as_indices, leads_to
from drogo.mdp.model import MDP, Edges

Table = Float[np.ndarray, "goals states"]
Tasks = Float[np.ndarray, "*tasks states"]
FEWEST, MOST = 8, 32  # The range of the number of goals per batch.
CACHE = 2**18  # The approximate number of floats that a processor's cache holds.
NEARBY = 320.0
"""The distance of goals that share a scaled matrix: half of the range of a double, in logs."""
ENOUGH = 4.0  # A column is refined above this multiple of the rounding error.
MAX_REFINEMENTS = 5
LEAST = 1e-22
"""The least assumed violation of a row, relative to its diagonal, for the rounding of the bound."""
LEAST_SHARE = 0.5  # The least share of the violations that a bound z must cover.


@dataclass(frozen=True, eq=False)
class Columns(InLogs):
    """The columns of some goals, in logs, and their accuracy."""

    log_e: Table
    """`v(s, g)`, a row for each goal: 0 in the goal, and minus infinity where it is not reached.
    NaN in a column with an entry that is out of range."""
    residual: Float[np.ndarray, " goals"]
    """For each goal, the largest violation of a row's equation, relative to its diagonal term."""
    error: Float[np.ndarray, " goals"]
    """For each goal, a proven bound on the error of a log entry. It includes the rounding of the
    matrix, and takes the rows of `P` to sum to 1 exactly. It is infinite if nothing is proven."""
    goals: Int[np.ndarray, " goals"]

    @property
    def tolerance(self) -> Float[np.ndarray, " goals"]:
        """The largest residual and error of each converged column."""
        return tolerance_at(-np.min(self.log_e, axis=1, where=np.isfinite(self.log_e), initial=0.0))

    def checked(self) -> "Columns":
        """Returns these columns, or raises `NotConverged` if some entry is not accurate."""
        wrong = np.flatnonzero(~self.converged)
        if wrong.size:
            worst = wrong[self.error[wrong].argmax()]
            problem = f"{wrong.size} of {self.goals.size} columns are not accurate (state "
            problem += f"{self.goals[worst]}: error bound {self.error[worst]:.1e})."
            raise NotConverged(problem, remedy="exact.solve_columns returns them as they are.")
        return self


def solve_columns(mdp: MDP, lam: float, goals: npt.ArrayLike | None = None) -> Columns:
    """Computes the columns of some goals together with bounds on their errors, and a status.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.
        goals: State numbers, or a mask of states; terminal or not. By default all states.

    Returns:
        The columns. If some are inaccurate, `status` says so; `checked()` then raises.
    """
    n, lam = mdp.n_states, check_positive("lam", lam)
    numbers = np.arange(n) if goals is None else as_indices("goals", goals, n)
    if not numbers.size:
        raise ArgumentError("goals is empty; name at least one state.", argument="goals")
    table = f"a table of {numbers.size} goals and {n} states"
    check_memory(table, 8 * n * numbers.size, "Give fewer goals at a time.")
    check_finite(mdp, lam)
    return solve_rows(default_rows(mdp, lam, "zero-row", 1.0), numbers)


def log_columns(mdp: MDP, lam: float, goals: npt.ArrayLike | None = None) -> Table:
    """Computes `v(s, g)`, a row for each goal: 0 in the goal, and minus infinity where it is not
    reached. The arguments are those of `solve_columns`; an inaccurate entry is an error."""
    return solve_columns(mdp, lam, goals).checked().log_e


def transfer(mdp: MDP, lam: float, terminal_rewards: npt.ArrayLike) -> Tasks:
    """Computes `log_column` for any number of terminal rewards, with one solve per terminal state.

    With the reward `r(T)` of each terminal state, `exp(v(s))` is the sum over them of
    `exp(v(s, T) + r(T) / lam)`.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.
        terminal_rewards: One reward for each terminal state in state order, of shape (terminals,),
            or several such tasks, of shape (tasks, terminals). Minus infinity stands for a
            terminal state without value.

    Returns:
        The vector, or one for each task. It is minus infinity in a state that reaches no terminal
        state of finite reward. An inaccurate entry is an error.
    """
    check_has_terminal(mdp)
    lam = check_positive("lam", lam)
    rewards = as_rewards(terminal_rewards, int(mdp.terminal.sum()), lam)
    values = np.full((*rewards.shape[:-1], mdp.n_states), -np.inf)
    columns = log_columns(mdp, lam, mdp.terminal)
    for column, reward in zip(columns, np.moveaxis(rewards, -1, 0), strict=True):
        values = np.logaddexp(values, column + _quotient(reward[..., None], lam))
    return values


def solve_rows(rows: Rows, goals: Int[np.ndarray, " goals"]) -> Columns:
    """Computes some columns of the inverse of an M-matrix."""
    log_e, (residual, error) = np.empty((goals.size, rows.n)), np.full((2, goals.size), np.inf)
    reach, accurate = Reach(rows), np.zeros(goals.size, dtype=bool)
    size = int(np.clip(CACHE // rows.n, FEWEST, MOST))
    # The numbers of the columns that are pending, and of those that are tried with this scaling.
    u, scaled_for = np.zeros(rows.n), -1
    pending = tried = np.arange(goals.size)
    while True:
        matrix = Scaled(rows, u)
        for first in range(0, tried.size, size):
            batch = tried[first : first + size]
            part = solve_goals(matrix, goals[batch], reach(goals[batch]))
            log_e[batch], residual[batch], error[batch] = part.log_e, part.residual, part.error
            accurate[batch] = part.converged
        # The goal that the matrix was scaled for is not tried again.
        pending = pending[~accurate[pending] & (pending != scaled_for)]
        if not pending.size:
            return Columns(log_e, residual, error, goals)
        scaled_for = pending[0]
        arrives = reach(goals[[scaled_for]])[:, 0]
        fixed = np.flatnonzero(arrives) == goals[scaled_for]
        try:
            v, _ = log_solve(rows.block(arrives), fixed, np.zeros(fixed.size))
        except NoPositiveSolution as error:
            problem = f"the column of state {goals[scaled_for]} failed: {error}"
            raise NoPositiveSolution(problem) from error
        # Where the goal is not reached, its column has its lowest entry.
        u = np.full(rows.n, v.min())
        u[arrives] = v
        tried = pending[u[goals[pending]] > -NEARBY]


def solve_edges(edges: Edges, lam: float, *, scaled: bool = True) -> Float[np.ndarray, " states"]:
    """Computes `v` from `exp(v(s)) = E[exp(r/lam + v(s'))]`, with the mean over the edges.

    If not `scaled`, the equation is `E[exp(-r/lam)] exp(v(s)) = E[exp(v(s'))]`. The two agree where
    the reward depends on the state alone. An entry is NaN in an unknown state, and minus infinity
    where no edges lead to any terminal state.
    """
    edges = edges.known
    n, state, gain = edges.n, edges.state, edges.reward / lam
    if not scaled:
        # Minus the log of the mean of exp(-r/lam) in each state replaces that of each edge.
        largest = np.full(n, -np.inf)
        np.maximum.at(largest, state, -gain)
        mean = np.bincount(state, edges.share * np.exp(-gain - largest[state]), n)
        gain = -(largest[state] + np.log(mean[state]))
    values, fixed = np.unique(edges.terminal_reward[edges.terminated] / lam, return_inverse=True)
    column = edges.next_state.astype(np.int64)
    column[edges.terminated] = n + fixed  # one more node for each value
    v = np.full(n + values.size, np.nan)
    v[n:] = values
    v[state] = -np.inf
    arrives = leads_to(state, column, v.size, np.arange(n, v.size))
    rows = weighted_rows(arrives, state, column, edges.share, gain)
    is_fixed = np.flatnonzero(arrives) >= n
    values = np.where(is_fixed, v[arrives], 0.0)
    v[arrives] = refined_solve(rows, is_fixed, values).log_e
    return v[:n]


def columns_of_edges(edges: Edges, lam: float, goals: Int[np.ndarray, " goals"]) -> Columns:
    """Computes the columns of some goals: `exp(v(s, g)) = E[exp(r/lam + v(s', g))]` for all s other
    than g, with the mean over the edges.

    No state may be terminal in some edges and left by others, and each goal must be terminal or
    left by a usable edge. Terminal values are not used. An entry is NaN in an unknown state, and
    minus infinity where no edges lead to the goal.
    """
    known, n = edges.known, edges.n
    parts = known.state, known.next_state, known.share, known.reward / lam
    rows = weighted_rows(np.ones(n, dtype=bool), *parts)
    never_left = np.bincount(known.state, minlength=n) == 0  # a zero row of W
    rows = replace(rows, total=rows.total + never_left, diagonal=rows.diagonal + never_left)
    columns = solve_rows(rows, goals)
    unknown = never_left & ~np.isin(np.arange(n), edges.next_state[edges.terminated])
    columns.log_e[:, unknown] = np.nan
    return columns


def as_rewards(rewards: npt.ArrayLike, terminals: int, lam: float = 1.0) -> np.ndarray:
    """Converts and checks the rewards of the terminal states in one task, or in several."""
    array = as_floats(name := "terminal_rewards", rewards)
    problem = ""
    if array.ndim not in (1, 2) or array.shape[-1] != terminals:
        axes = f"(terminals,) or (tasks, terminals), with {terminals} terminal state(s)"
        problem = f"has shape {array.shape}; expected {axes}."
    elif np.isnan(array).any() or np.isposinf(array).any():
        problem = "has NaN or plus infinity; give numbers or -inf."
    elif np.isposinf(_quotient(array, lam)).any():
        problem = f"divided by lam = {lam:g} is beyond the range of a float; use a larger lam."
    elif np.isneginf(array).all(axis=-1).any():
        problem = "is -inf in all terminal states of a task; give one of them a finite reward."
    if problem:
        raise ArgumentError(f"{name} {problem}", argument=name)
    return array


def _quotient(rewards: np.ndarray, lam: float) -> np.ndarray:
    """Returns `rewards / lam`, which is infinite if it overflows."""
    with np.errstate(over="ignore"):
        return rewards / lam


class Scaled:
    """`diag(exp(-u)) M diag(exp(u))`, for a guess `u` of the logs of a solution.

    It is applied as `total(s) x(s) - sum_s' w(s, s') (x(s') - x(s))`: differences of doubles that
    are close are exact, so little is lost where costs are tiny and neighbours nearly equal.
    """

    def __init__(self, rows: Rows, u: Float[np.ndarray, " n"]) -> None:
        n, entries = rows.n, rows.row.size
        step, weight = u[rows.column] - u[rows.row], rows.scaled_weight(u)
        self.u, self.diagonal = u, rows.diagonal
        self.solve: Callable[[np.ndarray], np.ndarray] = factorise(rows, u).lu.solve
        self.total = rows.ratio(u) if u.any() else rows.total
        # `difference` maps x to x(s') - x(s) for each off-diagonal, and `weight` maps one number
        # per off-diagonal to their weighted sum in each row.
        pairs = np.stack([rows.column, rows.row], axis=1).ravel()
        ends, signs = np.arange(0, 2 * entries + 1, 2), np.tile([1.0, -1.0], entries)
        self.difference = sp.csr_array((signs, pairs, ends), (entries, n))
        self.weight = sp.csr_array((weight, (rows.row, np.arange(entries))), (n, entries))
        # `rounding` bounds the relative error of a weight of each row, and of a sum of as many
        # terms. A weight is the exponential of a sum of rounded logs; the sum of a row is not.
        log_error = np.zeros(n)
        np.maximum.at(log_error, rows.row, np.abs(rows.log_weight) + np.abs(step) / 2)
        sum_error = 4 + np.bincount(rows.row, minlength=n)
        self.rounding = np.finfo(float).eps * (sum_error + log_error)
        # `doubt` bounds the rounding error of `total`, in units of `rounding`.
        moved = np.bincount(rows.row, np.abs(weight - np.exp(rows.log_weight)), n)
        self.doubt = moved + rows.total * sum_error / (sum_error + log_error)

    def apply(self, x: Float[np.ndarray, "n vectors"]) -> Float[np.ndarray, "n vectors"]:
        """Multiplies vectors by the matrix."""
        return self.total[:, None] * x - self.weight @ (self.difference @ x)

    def apply_with_noise(self, x: Float[np.ndarray, "n vectors"]) -> tuple[np.ndarray, np.ndarray]:
        """Multiplies vectors by the matrix, and bounds the rounding error of each number."""
        step = self.difference @ x
        product = self.total[:, None] * x - self.weight @ step
        terms = self.doubt[:, None] * np.abs(x) + self.weight @ np.abs(step, out=step)
        return product, self.rounding[:, None] * terms


def solve_goals(
    matrix: Scaled, goals: Int[np.ndarray, " goals"], arrives: Bool[np.ndarray, "states goals"]
) -> Columns:
    """Computes the columns of some goals by one scaled matrix, where a walk `arrives` there."""
    right = np.zeros(arrives.shape)
    right[goals, np.arange(goals.size)] = 1.0
    residual, error = np.full((2, goals.size), np.inf)
    # A number that overflows, or is NaN, fails its check.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = np.where(arrives, matrix.solve(right), 0.0)
        in_range = ((x > SMALLEST) | ~arrives).all(axis=0) & np.isfinite(x).all(axis=0)
        x[:, ~in_range] = np.nan
        if in_range.any():
            wanted, reached = right[:, in_range], arrives[:, in_range]
            best = _check(matrix, wanted, x[:, in_range], reached)
            for _ in range(MAX_REFINEMENTS):
                if best.settled.all():
                    break
                change = np.where(reached, matrix.solve(best.gap), 0.0)
                # An entry that would lose more than half of its value stays positive, inaccurate.
                trial = best.x + np.maximum(change, -best.x / 2)
                new = _check(matrix, wanted, trial, reached)
                better = new.error < best.error / 2
                if not better.any():
                    break
                best = _Checked(*(np.where(better, a, b) for a, b in zip(new, best, strict=True)))
            x[:, in_range], residual[in_range], error[in_range] = best.x, best.residual, best.error
        log_e = np.log(x) + matrix.u[:, None]
        log_e = (log_e - log_e[goals, np.arange(goals.size)]).T
    depth = -np.min(log_e, axis=1, where=np.isfinite(log_e), initial=0.0)
    return Columns(log_e, residual, error + 2 * np.finfo(float).eps * (1 + depth), goals)


class _Checked(NamedTuple):
    """Proposed columns with the violations of their rows and error bounds."""

    x: np.ndarray
    gap: np.ndarray
    residual: np.ndarray
    error: np.ndarray
    settled: np.ndarray  # whether refining would not prove much more


def _check(matrix: Scaled, right: np.ndarray, x: np.ndarray, arrives: np.ndarray) -> _Checked:
    product, noise = matrix.apply_with_noise(x)
    gap = np.where(arrives, right - product, 0.0)
    positive = np.where(arrives, x, 1.0)
    terms = matrix.diagonal[:, None] * positive
    amount = np.where(arrives, np.abs(gap) + noise + LEAST * terms, 0.0)
    bound = np.where(arrives, matrix.solve(amount), 0.0)
    share = np.where(arrives, matrix.apply(bound) / amount, 1.0).min(axis=0)
    # A relative error d of an entry moves its log by at most -log(1 - d).
    moved = -np.log1p(-np.minimum(bound / positive / share, 1.0))
    error = moved.max(axis=0) + np.where(right > 0, moved, 0.0).max(axis=0)
    residual = (np.abs(gap) / terms).max(axis=0)
    error = np.where(share >= LEAST_SHARE, error, np.inf)
    return _Checked(x, gap, residual, error, np.all(np.abs(gap) <= ENOUGH * noise, axis=0))
