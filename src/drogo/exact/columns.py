"""Columns of the default representation: the log value of reaching each goal from each state.

For any state `g`, `v(s, g) = log E[exp(sum of r/lam over the states left before g)]` under the
default policy, where walks that never reach `g` contribute nothing. That is
`log Z(s, g) - log Z(g, g)` for `Z = (R - P)^-1` with zero rows in terminal states. If all
rewards are negative, it is at most 0, and `v(s, g) >= v(s, h) + v(h, g)`: `-v` is a quasimetric.

All goals share one factorisation. Where entries of a goal's column are below the range of a double,
the matrix is scaled by that column, which `log_solve` computes. An entry of another goal's column
is then never smaller than the value of the round trip between the two goals, so the scaled matrix
serves all goals around the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError, NotConverged, check_positive
from drogo.exact.certified import CertifiedColumns, Scaled, solve_goals
from drogo.exact.finite import check_finite, check_has_terminal
from drogo.exact.log_solve import NoPositiveSolution, factorise, log_solve
from drogo.exact.reach import Reach
from drogo.exact.rows import Rows, default_rows
from drogo.files import check_memory
from drogo.mdp import MDP, check_mdp
from drogo.mdp.arrays import as_floats, as_indices

FEWEST, MOST = 8, 32
"""The range of the number of goals per batch: few where the vectors would not fit into the cache,
and many where the time goes into calling functions."""
CACHE = 2**18
"""The approximate number of floats that a processor's cache holds."""
NEARBY = 320.0
"""A matrix that is scaled for one goal is also tried for goals within this distance. It is half of
the range of a double, in logs, because the way back counts too."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of some goals, in logs, and their accuracy."""

    log_e: Float[np.ndarray, "goals states"]
    """`v(s, g)`, a row for each goal: 0 in the goal, and minus infinity where it is not reached."""
    goals: Int[np.ndarray, " goals"]
    lam: float
    residual: Float[np.ndarray, " goals"]
    """For each goal, the largest violation of a row's equation, relative to its diagonal term."""
    error: Float[np.ndarray, " goals"]
    """For each goal, a proven bound on the error of a log entry. It includes the rounding of the
    matrix, and takes the rows of `P` to sum to 1 exactly."""
    terminal: Int[np.ndarray, " terminals"]
    """The terminal states of the MDP."""

    @property
    def converged(self) -> Bool[np.ndarray, " goals"]:
        """Whether every entry of each goal's column is accurate."""
        return CertifiedColumns(self.log_e, self.residual, self.error).converged

    @property
    def status(self) -> Literal["converged", "inaccurate"]:
        """Whether every entry is accurate."""
        return "converged" if self.converged.all() else "inaccurate"

    def checked(self) -> Columns:
        """Returns these columns, or raises `NotConverged` if some entry is not accurate."""
        wrong = np.flatnonzero(~self.converged)
        if wrong.size:
            worst = wrong[self.error[wrong].argmax()]
            raise NotConverged(
                f"the columns of {wrong.size} of {self.goals.size} goals at lam = {self.lam:g} are "
                f"not accurate. In that of state {self.goals[worst]} the residual is "
                f"{self.residual[worst]:.1e} and the error bound {self.error[worst]:.1e}.",
                remedy="exact.solve_columns returns them as they are.",
            )
        return self

    def transfer(self, terminal_rewards: npt.ArrayLike) -> Float[np.ndarray, "*tasks states"]:
        """Computes the result of `exact.transfer` from these columns, whose goals must be all
        terminal states in state order."""
        if not np.array_equal(self.goals, self.terminal):
            problem = "these columns are not those of all terminal states in state order."
            remedy = "Give goals=mdp.terminal to exact.solve_columns."
            raise ArgumentError(problem, remedy=remedy, argument="goals")
        rewards = as_rewards(terminal_rewards, self.goals.size, lam=self.lam)
        values = np.full((*rewards.shape[:-1], self.log_e.shape[1]), -np.inf)
        for column, reward in zip(self.checked().log_e, np.moveaxis(rewards, -1, 0), strict=True):
            values = np.logaddexp(values, column + _quotient(reward[..., None], self.lam))
        return values


def solve_columns(mdp: MDP, lam: float, goals: npt.ArrayLike | None = None) -> Columns:
    """Computes the columns of some goals together with bounds on their errors, and a status.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.
        goals: State numbers, or a mask of states; terminal or not. By default all states.

    Returns:
        The columns. If some are inaccurate, `status` says so; `checked()` then raises.

    Raises:
        ArgumentError: An argument cannot be used.
        NotConverged: The column of a goal could not be computed.
    """
    n, lam = check_mdp(mdp).n_states, check_positive("lam", lam)
    numbers = np.arange(n) if goals is None else as_indices("goals", goals, n)
    if not numbers.size:
        raise ArgumentError("goals is empty; name at least one state.", argument="goals")
    table = f"a table of {numbers.size} goals and {n} states"
    check_memory(table, 8 * n * numbers.size, "Give fewer goals at a time.")
    check_finite(mdp, lam)
    columns = solve_rows(default_rows(mdp, lam, "zero-row", 1.0), numbers)
    terminal = np.flatnonzero(mdp.terminal)
    return Columns(**columns._asdict(), goals=numbers, lam=lam, terminal=terminal)


def log_columns(
    mdp: MDP, lam: float, goals: npt.ArrayLike | None = None
) -> Float[np.ndarray, "goals states"]:
    """Computes the columns of some goals, in logs. The arguments are those of `solve_columns`.

    Returns:
        `v(s, g)`, a row for each goal: 0 in the goal, and minus infinity where it is not reached.

    Raises:
        NotConverged: An entry is not accurate.
    """
    return solve_columns(mdp, lam, goals).checked().log_e


def transfer(
    mdp: MDP, lam: float, terminal_rewards: npt.ArrayLike
) -> Float[np.ndarray, "*tasks states"]:
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
        state of finite reward.

    Raises:
        ArgumentError: An argument cannot be used.
        NotConverged: An entry is not accurate.
    """
    check_has_terminal(check_mdp(mdp))
    # The rewards are checked before the columns are computed.
    as_rewards(terminal_rewards, int(mdp.terminal.sum()), lam=check_positive("lam", lam))
    return solve_columns(mdp, lam, mdp.terminal).transfer(terminal_rewards)


def solve_rows(rows: Rows, goals: Int[np.ndarray, " goals"]) -> CertifiedColumns:
    """Computes some columns of the inverse of an M-matrix."""
    columns = CertifiedColumns(np.empty((goals.size, rows.n)), *np.full((2, goals.size), np.inf))
    reach, accurate = Reach(rows), np.zeros(goals.size, dtype=bool)
    size = int(np.clip(CACHE // rows.n, FEWEST, MOST))
    # The numbers of the columns that are pending, and of those that are tried with this scaling.
    u, scaled_for = np.zeros(rows.n), -1
    pending = tried = np.arange(goals.size)
    while True:
        matrix, lu = Scaled.of(rows, u), factorise(rows, u).lu
        for first in range(0, tried.size, size):
            batch = tried[first : first + size]
            part = solve_goals(matrix, lu.solve, goals[batch], reach(goals[batch]))
            for whole, some in zip(columns, part, strict=True):
                whole[batch] = some
            accurate[batch] = part.converged
        # The goal that the matrix was scaled for is not tried again.
        pending = pending[~accurate[pending] & (pending != scaled_for)]
        if not pending.size:
            return columns
        scaled_for = pending[0]
        u = _log_column_of(rows, int(goals[scaled_for]), reach)
        tried = pending[u[goals[pending]] > -NEARBY]


def _log_column_of(rows: Rows, goal: int, reach: Reach) -> Float[np.ndarray, " n"]:
    """Returns the column of a goal, and its lowest entry where the goal is not reached."""
    arrives = reach(np.array([goal]))[:, 0]
    fixed = np.flatnonzero(arrives) == goal
    try:
        v, _ = log_solve(rows.block(arrives), fixed, np.zeros(fixed.size))
    except NoPositiveSolution as error:
        raise NoPositiveSolution(f"the column of state {goal} failed: {error}") from error
    u = np.full(rows.n, v.min())
    u[arrives] = v
    return u


def as_rewards(
    rewards: npt.ArrayLike, terminals: int, name: str = "terminal_rewards", lam: float = 1.0
) -> Float[np.ndarray, "*tasks terminals"]:
    """Converts and checks the rewards of the terminal states in one task, or in several."""
    array = as_floats(name, rewards)
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
