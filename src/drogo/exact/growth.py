"""The largest eigenvalue of a non-negative matrix and its positive eigenvector, in logs.

`W(s, s')` is the sum of `share * exp(r/lam)` over the edges from s to s'. With terminal states, the
desirability is finite if and only if the eigenvalue over the other states is below 1. In a
continuing task `W e = k e`: `lam log k` is the gain, and `v = log e` is 0 in a reference state.

All `r/lam` are lowered by a level that is adjusted until the eigenvalue is 1. The matrix `I - W` is
then singular, and its smallest eigenvalue is accurate to the last digit however small `W` was.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError, MDPError, NotConverged, check_positive, check_whole
from drogo.exact.positive import InLogs, NoPositiveSolution, Pencil, factorise, positive_eigenvector
from drogo.exact.rows import Mask, Values, edge_rows, strong_classes
from drogo.mdp.model import MDP, Edges

MOST_STEPS, MOST_POLISHED = 200, 3
CLOSE = 1e-9  # The distance of the bounds of the log eigenvalue at which the vector is polished.
NARROW = 1e-6  # The largest relative distance of the bounds of a known log eigenvalue.
MARGIN = 1e-13  # The shift that keeps the matrix of an inverse iteration from being singular.
ROUNDING = 1e-12  # A log of the spectral radius above minus this number counts as 0.
LARGER_LAM = "Use a larger lam: rewards of several hundred lam are beyond double precision."


@dataclass(frozen=True)
class Growth:
    """The largest eigenvalue of `W` over one class of states, its vector, and their accuracy."""

    log_e: Float[np.ndarray, " kept"]
    """The log of the positive eigenvector of `W`. Its largest entry is 0."""
    log_eigenvalue: float
    bracket: tuple[float, float]
    """Collatz-Wielandt bounds of `log_eigenvalue`, valid for any positive vector."""
    residual: float  # The largest `|(W e)(s) / (eigenvalue e(s)) - 1|`.
    error: float  # The estimated largest error of an entry of `log_e`.

    @property
    def is_known(self) -> bool:
        """Whether the bounds of the eigenvalue are close enough to determine it."""
        return _is_narrow(*self.bracket)


def classes(edges: Edges, kept: Mask) -> list[Mask]:
    """Returns the classes of the kept states that can reach each other by at least one edge."""
    inside = kept[edges.state] & kept[edges.next_state] & ~edges.terminated
    row, column = edges.state[inside], edges.next_state[inside]
    _, label = strong_classes(row, column, edges.n)
    looping = np.unique(label[row[label[row] == label[column]]])
    return [(label == k) & kept for k in looping]


def growth(edges: Edges, kept: Mask, lam: float) -> Growth:
    """Computes the largest eigenvalue of `W` over one of its `classes`, and its vector."""
    level, v = _noda(edges, kept, lam)
    vector = positive_eigenvector(Pencil(edge_rows(edges, kept, lam, level)), near=(0.0, v))
    for _ in range(MOST_POLISHED):  # The eigenvalue is 1 - s, which loses no digit if s is 0.
        if not 4 * np.finfo(float).eps <= abs(vector.eigenvalue) < 0.5:
            break
        level += float(np.log1p(-vector.eigenvalue))
        vector = positive_eigenvector(Pencil(edge_rows(edges, kept, lam, level)), near=(0.0, v))
    with np.errstate(divide="ignore"):  # An eigenvalue of 0 already has an infinite error.
        low, high = (float(level + np.log1p(-min(s, 1.0))) for s in reversed(vector.bracket))
        log_eigenvalue = float(level + np.log1p(-min(vector.eigenvalue, 1.0)))
    rounding = 1e-12 * (1 + abs(log_eigenvalue))
    holds = low - rounding <= log_eigenvalue <= high + rounding and np.isfinite(log_eigenvalue)
    bracket = (min(low, log_eigenvalue), max(high, log_eigenvalue))
    log_e, error = vector.log_e - vector.log_e.max(), vector.error if holds else np.inf
    return Growth(log_e, log_eigenvalue, bracket, vector.residual, error)


def _is_narrow(low: float, high: float) -> bool:
    return bool(np.isfinite(low) and high - low <= NARROW * (1 + abs(high)))


def radius_bounds(edges: Edges, kept: Mask, lam: float) -> tuple[float, float]:
    """Returns bounds of the log of the spectral radius of `W`, the largest of its classes."""
    brackets = [growth(edges, part, lam).bracket for part in classes(edges, kept)]
    low, high = zip(*brackets or [(-np.inf, -np.inf)], strict=True)
    return max(low), max(high)


@dataclass(frozen=True)
class Perron(Growth, InLogs):
    """The vector of a continuing task, 0 in the state `reference`, and the gain of a step."""

    lam: float
    reference: int
    definition = "continuing"
    remedies: ClassVar = {"remedy": LARGER_LAM}

    @property
    def gain(self) -> float:
        """The gain per step, `lam log(eigenvalue)`: where each action has one outcome, the average
        reward of the optimal policy less `lam` times its divergence from the default policy.
        Random outcomes count as if they could be chosen, at the cost of their divergence."""
        return self.lam * self.log_eigenvalue


def perron(mdp: MDP, lam: float, reference: int = 0) -> Perron:
    """Computes the vector of a continuing task, and its gain.

    Args:
        mdp: An MDP without terminal states, all of whose states can reach each other. Its rewards
            may have any sign.
        lam: The temperature lambda, positive.
        reference: The state in which the vector is 0. Another one shifts the vector by a constant.

    Returns:
        The solution. If it is inaccurate, its `status` says so; `solution.checked()` then raises.
    """
    if mdp.terminal.any():
        problem = f"this MDP is not a continuing task: {int(mdp.terminal.sum())} state(s) end it."
        raise ArgumentError(problem, remedy="Use exact.log_column.", argument="mdp")
    return perron_of_edges(mdp.edges, lam, reference)


def perron_of_edges(edges: Edges, lam: float, reference: int = 0) -> Perron:
    """Solves a continuing task whose rewards may depend on the action and on the next state."""
    lam = check_positive("lam", lam)
    reference = check_whole("reference", reference, 0, edges.n - 1)
    parts, label = strong_classes(edges.state, edges.next_state, edges.n)
    if parts > 1:
        other = int(np.flatnonzero(label != label[reference])[0])
        problem = f"not all of the {parts} classes of states lead to each other (states "
        problem += f"{reference} and {other} are in two of them)."
        remedy = "Remove states that are never visited again, or mark them as terminal."
        raise ArgumentError(problem, remedy=remedy)
    fields = vars(growth(edges, np.ones(edges.n, dtype=bool), lam))
    log_e = fields["log_e"] - fields["log_e"][reference]
    return Perron(**{**fields, "log_e": log_e}, lam=lam, reference=reference)


def spectral_radius(mdp: MDP, lam: float) -> float:
    """Computes the spectral radius of `diag(exp(r/lam)) P` over the non-terminal states.

    The column is finite if and only if it is below 1, as it always is if rewards are negative. It
    is 0 if no state can be visited twice, and infinity beyond the range of a float.
    """
    low, high = radius_bounds(mdp.edges, ~mdp.terminal, check_positive("lam", lam))
    if low != high and not _is_narrow(low, high):  # both may be infinite
        problem = "the log of the spectral radius could not be computed: its bounds are "
        raise NotConverged(f"{problem}{low:.6g} and {high:.6g}.", remedy=LARGER_LAM)
    with np.errstate(over="ignore"):
        return float(np.exp(high if low == high else (low + high) / 2))


def check_has_terminal(mdp: MDP) -> None:
    """Raises an error if an MDP has no terminal state."""
    if not mdp.terminal.any():
        problem = "this MDP has no terminal state, which would fix the level of the vector."
        raise MDPError(problem, remedy="Use exact.perron for a continuing task.", argument="mdp")


def check_finite(mdp: MDP, lam: float) -> None:
    """Raises an error if the sum over all episodes is not finite."""
    if (mdp.reward[~mdp.terminal] < 0).all():
        return
    if problem := infinite(mdp.edges, ~mdp.terminal, lam):
        remedy = "Lower all rewards, or use a larger lam where they are negative on average."
        raise MDPError(problem, remedy=remedy, argument="mdp")


def infinite(edges: Edges, kept: np.ndarray, lam: float) -> str:
    """Returns why the vector over some non-terminal states is not finite, or an empty string."""
    low, high = radius_bounds(edges, kept, lam)
    if high < 0:
        return ""
    radius = "the spectral radius of diag(exp(r/lam)) P over the non-terminal states"
    if low < -ROUNDING:
        problem = f"it is undecided whether the vector is finite at lam = {lam:g}: the log of "
        return f"{problem}{radius} must be below 0, and lies between {low:.6g} and {high:.6g}."
    size = f"{np.exp(high):.6g}" if high < 700 else f"e^{high:.6g}"
    problem = f"the vector is infinite at lam = {lam:g}, because a cycle gains more than it loses: "
    return f"{problem}{radius} is {size}, and it must be below 1."


def _noda(edges: Edges, kept: Mask, lam: float) -> tuple[float, Float[np.ndarray, " kept"]]:
    """Finds a level just above the log of the eigenvalue, and its vector, by Noda's iteration."""
    gain = edges.reward / lam
    base = float(gain[kept[edges.state]].max())
    rows = edge_rows(edges, kept, lam, base)
    # The logs of the diagonal of W: minus infinity in states without an edge to themselves.
    loop = kept[edges.state] & (edges.state == edges.next_state) & ~edges.terminated
    log_weight = np.log(edges.share[loop]) + (gain[loop] - base)
    row = (np.cumsum(kept) - 1)[edges.state[loop]]
    log_loops = log_sums(row, log_weight, np.full(rows.n, -np.inf))
    v, level = np.zeros(rows.n), np.inf
    for _ in range(MOST_STEPS):
        log_flow = rows.log_weight + v[rows.column] - v[rows.row]
        log_sum = log_sums(rows.row, log_flow, log_loops)
        low, high = float(log_sum.min()), float(log_sum.max())
        level = min(level, high)
        if high - low < CLOSE:
            break
        total = np.maximum(-np.expm1(log_sum - high), 0.0) + MARGIN
        leaving = np.bincount(rows.row, np.exp(log_flow - high), rows.n)
        scaled = replace(rows, log_weight=log_flow - high, diagonal=total + leaving, total=total)
        try:
            grown = factorise(scaled).lu.solve(np.ones(rows.n))
        except NoPositiveSolution:
            break
        if not (np.isfinite(grown) & (grown > 0)).all():
            break
        v = v + np.log(grown)
        v -= v.max()
    return base + level, v


def log_sums(row: np.ndarray, log_weight: np.ndarray, log_diagonal: Values) -> Values:
    """Returns the logs of the row sums of a matrix whose entries are given in logs."""
    most = log_diagonal.copy()
    np.maximum.at(most, row, log_weight)
    finite = np.where(np.isneginf(most), 0.0, most)
    summed = np.bincount(row, np.exp(log_weight - finite[row]), most.size)
    with np.errstate(divide="ignore"):
        return finite + np.log(summed + np.exp(log_diagonal - finite))
