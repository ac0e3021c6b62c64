"""The column of every goal: how well each state reaches it.

For any state `g`, `v(s, g) = log E[exp(sum of r/lam over the states left before g)]` under the
default policy, where walks that never reach `g` count for nothing. That is
`log Z(s, g) - log Z(g, g)` for `Z = (R - P)^-1` with zero rows in terminal states. If all
rewards are negative, it is at most 0, and `v(s, g) >= v(s, h) + v(h, g)`: `-v` is a quasimetric.

All goals share one factorisation. Where entries of a goal's column are below the range of a double,
the matrix is scaled by that column, which `log_solve` computes. An entry of another goal's column
is then never smaller than the value of the round trip between the two goals, so the scaled matrix
serves all goals around the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError, NotConverged
from drogo.exact.certified import Found, Solver, solve_goals
from drogo.exact.finite import check_finite
from drogo.exact.log_solve import NoPositiveSolution, factorise, log_solve
from drogo.exact.reach import Reach
from drogo.exact.rows import Rows, check_parameters, default_rows
from drogo.exact.scaled import Scaled
from drogo.files import check_memory
from drogo.mdp import MDP
from drogo.mdp.arrays import as_floats, as_indices

FEWEST, MOST = 8, 32
"""Goals that are solved for at once: few where a processor's cache does not hold their vectors, and
many where the time goes into calling functions."""
CACHE = 2**18
"""About how many numbers the cache holds."""
NEARBY = 320.0
"""Goals whose columns are tried with a matrix that was scaled for another: half of the range of a
double, in logs, because the way back counts too."""


class Factored(NamedTuple):
    """A matrix that was scaled by `exp(u)` and factorised, and the goals that it served."""

    lu: Any
    u: Float[np.ndarray, " states"]
    goals: Int[np.ndarray, " served"]

    def solver(self, right: np.ndarray, near: np.ndarray | None) -> np.ndarray:
        """Solves for some right-hand sides; see `certified.Solver`."""
        return self.lu.solve(right)


class Kept(NamedTuple):
    """What is needed to update a solution: a matrix, and its factorisations."""

    rows: Rows
    parts: tuple[Factored, ...]


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of some goals, in logs, and how accurate they are."""

    log_e: Float[np.ndarray, "goals states"]
    """`v(s, g)`, a row for each goal: 0 in the goal, and minus infinity where it is not reached."""
    goals: Int[np.ndarray, " goals"]
    lam: float
    residual: Float[np.ndarray, " goals"]
    """For each goal, the largest violation of a row's equation, relative to its diagonal term."""
    error: Float[np.ndarray, " goals"]
    """For each goal, a bound on the error of a log entry. It is computed from the violations and
    from what rounding may have done to the matrix and to them, and holds however the column was
    found. The rows of `P` are taken to sum to 1 exactly."""
    method: Literal["factorised", "updated"]
    """Whether the matrix of this MDP was factorised, or that of another one was updated."""
    changed: Int[np.ndarray, " changed"]
    """The states whose rows differ from those that were factorised."""
    terminal: Int[np.ndarray, " terminals"]
    """The terminal states of the MDP."""
    kept: Kept = field(repr=False)
    """The factorisations, for `exact.update`."""

    @property
    def converged(self) -> Bool[np.ndarray, " goals"]:
        """Whether every entry of each goal's column is accurate."""
        return Found(self.log_e, self.residual, self.error).converged

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
                f"{self.residual[worst]:.1e} and a log entry may be off by "
                f"{self.error[worst]:.1e}.",
                remedy="exact.solve_columns returns them as they are.",
            )
        return self

    def transfer(self, terminal_rewards: npt.ArrayLike) -> Float[np.ndarray, "*tasks states"]:
        """Computes what `exact.transfer` does, from columns that are there already.

        Args:
            terminal_rewards: As for `exact.transfer`. The goals must be all terminal states, in
                state order.

        Returns:
            The vector, or one for each task.

        Raises:
            ArgumentError: The goals are others, or the rewards cannot be used.
            NotConverged: An entry is not accurate.
        """
        if not np.array_equal(self.goals, self.terminal):
            raise ArgumentError(
                "these columns are not those of all terminal states in state order, from which "
                "rewards are transferred.",
                remedy="Give goals=mdp.terminal to exact.solve_columns or exact.update.",
            )
        rewards = as_rewards(terminal_rewards, self.goals.size)
        values = np.full((*rewards.shape[:-1], self.log_e.shape[1]), -np.inf)
        for column, reward in zip(self.checked().log_e, np.moveaxis(rewards, -1, 0), strict=True):
            values = np.logaddexp(values, column + reward[..., None] / self.lam)
        return values


def solve_columns(mdp: MDP, lam: float, goals: npt.ArrayLike | None = None) -> Columns:
    """Computes the columns of some goals together with bounds on their errors, and a status.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.
        goals: State numbers, or a mask of states; terminal or not. By default all states.

    Returns:
        The columns. If some are inaccurate, `status` says so; `checked()` then raises. They keep
        the factorisations, for `exact.update`.

    Raises:
        ArgumentError: An argument cannot be used.
        NotConverged: The column of a goal could not be computed.
    """
    return _solve(mdp, lam, goals, keep=True)


def log_columns(
    mdp: MDP, lam: float, goals: npt.ArrayLike | None = None
) -> Float[np.ndarray, "goals states"]:
    """Computes how well each state reaches each goal, in logs.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.
        goals: State numbers, or a mask of states; terminal or not. By default all states.

    Returns:
        `v(s, g)`, a row for each goal: 0 in the goal, and minus infinity where it is not reached.

    Raises:
        NotConverged: An entry is not accurate.
    """
    return _solve(mdp, lam, goals, keep=False).checked().log_e


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
            terminal state that is worth nothing.

    Returns:
        The vector, or one for each task. Its log is minus infinity in a state from which no
        terminal state that is worth something is reached.

    Raises:
        ArgumentError: An argument cannot be used.
        NotConverged: An entry is not accurate.
    """
    as_rewards(terminal_rewards, int(mdp.terminal.sum()))  # Errors come before the work.
    return _solve(mdp, lam, mdp.terminal, keep=False).transfer(terminal_rewards)


def as_goals(mdp: MDP, goals: npt.ArrayLike | None) -> Int[np.ndarray, " goals"]:
    """Converts and checks the numbers of the goals."""
    n = mdp.n_states
    numbers = np.arange(n) if goals is None else as_indices("goals", goals, n)
    if not numbers.size:
        raise ArgumentError("goals is empty; name at least one state.")
    remedy = "Give fewer goals at a time."
    check_memory(f"a table of {numbers.size} goals and {n} states", 8 * n * numbers.size, remedy)
    return numbers


def fill(
    found: Found,
    places: Int[np.ndarray, " some"],
    matrix: Scaled,
    solver: Solver,
    goals: Int[np.ndarray, " goals"],
    reach: Reach,
) -> Bool[np.ndarray, " some"]:
    """Computes the columns of the goals in some places, and returns which of them are accurate."""
    accurate = np.zeros(places.size, dtype=bool)
    size = int(np.clip(CACHE // matrix.u.size, FEWEST, MOST))
    for first in range(0, places.size, size):
        now = places[first : first + size]
        part = solve_goals(matrix, solver, goals[now], reach(goals[now]))
        for whole, some in zip(found, part, strict=True):
            whole[now] = some
        accurate[first : first + size] = part.converged
    return accurate


def solve_rows(
    rows: Rows, numbers: Int[np.ndarray, " goals"], *, keep: bool = False
) -> tuple[Found, tuple[Factored, ...]]:
    """Computes columns of the inverse of a matrix, and returns its factorisations if asked to.

    Args:
        rows: The matrix, an M-matrix.
        numbers: The goals.
        keep: Whether to return the factorisations that served some goals.
    """
    found = Found.none(numbers.size, rows.n)
    reach = Reach(rows)
    parts, pending, first = [], np.arange(numbers.size), -1
    u, tried = np.zeros(rows.n), pending
    while True:
        part = Factored(_factorise(rows, u), u, numbers[tried])
        accurate = fill(found, tried, Scaled.of(rows, u), part.solver, numbers, reach)
        if keep and accurate.any():
            parts.append(part._replace(goals=part.goals[accurate]))
        # The goal that the matrix was scaled for is not tried again.
        pending = np.setdiff1d(pending, tried[accurate | (tried == first)])
        if not pending.size:
            return found, tuple(parts)
        first = pending[0]
        u = _guess(rows, int(numbers[first]), reach)
        tried = pending[u[numbers[pending]] > -NEARBY]


def _solve(mdp: MDP, lam: float, goals: npt.ArrayLike | None, *, keep: bool) -> Columns:
    lam, _ = check_parameters(lam, "zero-row", 1.0)
    numbers = as_goals(mdp, goals)
    check_finite(mdp, lam)
    rows = default_rows(mdp, lam, "zero-row", 1.0)
    found, parts = solve_rows(rows, numbers, keep=keep)
    return Columns(
        **found._asdict(),
        goals=numbers,
        lam=lam,
        method="factorised",
        changed=np.zeros(0, dtype=np.int64),
        terminal=np.flatnonzero(mdp.terminal),
        kept=Kept(rows, parts),
    )


def _factorise(rows: Rows, u: Float[np.ndarray, " n"]) -> Any:
    return factorise(rows, np.zeros(rows.n, dtype=bool), u).lu


def _guess(rows: Rows, goal: int, reach: Reach) -> Float[np.ndarray, " n"]:
    """Returns the column of a goal, and its lowest entry where the goal is not reached."""
    arrives = reach(np.array([goal]))[:, 0]
    fixed = np.flatnonzero(arrives) == goal
    try:
        v, _ = log_solve(rows.block(arrives), fixed, np.zeros(fixed.size))
    except NoPositiveSolution as error:
        raise NoPositiveSolution(f"the column of state {goal} was not found: {error}") from error
    u = np.full(rows.n, v.min())
    u[arrives] = v
    return u


def as_rewards(
    rewards: npt.ArrayLike, terminals: int, name: str = "terminal_rewards"
) -> Float[np.ndarray, "*tasks terminals"]:
    """Converts and checks the rewards of the terminal states in one task, or in several."""
    array = as_floats(name, rewards)
    if array.ndim not in (1, 2) or array.shape[-1] != terminals:
        raise ArgumentError(
            f"{name} has shape {array.shape}; expected (terminals,) or (tasks, terminals), and "
            f"there are {terminals} terminal state(s)."
        )
    if np.isnan(array).any() or np.isposinf(array).any():
        raise ArgumentError(f"{name} has NaN or plus infinity; give numbers or -inf.")
    if np.isneginf(array).all(axis=-1).any():
        raise ArgumentError(
            f"{name} is -inf in all terminal states of a task, so that nothing is worth reaching. "
            "Give at least one of them a finite reward."
        )
    return array
