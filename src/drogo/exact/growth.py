"""The largest eigenvalue of a non-negative matrix and its positive eigenvector, in logs.

`W(s, s')` is the sum of `share * exp(gain)` over the edges from s to s': the weight of the
desirability of s' in that of s. Its largest eigenvalue decides two things. In a task with terminal
states, the desirability is finite if and only if the eigenvalue over the non-terminal states is
below 1. In a continuing task, the log of the eigenvalue is the gain per step, divided by lam, and
its vector takes the place of the desirability.

All gains are lowered by a level that is adjusted until the eigenvalue is 1. The matrix `I - W` is
then singular, its smallest eigenvalue is accurate to the last digit however small `W` was, and the
vector is computed like any other positive one (`pencil`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError, NotConverged
from drogo.exact.log_solve import NoPositiveSolution, factorise
from drogo.exact.pencil import Pencil, perron
from drogo.exact.reach import strong_classes
from drogo.exact.rows import Rows, rows_of_edges
from drogo.mdp import MDP

Mask = Bool[np.ndarray, " n"]

MOST_STEPS, MOST_POLISHED = 200, 3
SHARES_OFF = 1e-9
"""The largest deviation of the sum of a state's shares from 1."""
CLOSE = 1e-9
"""The distance of the bounds of the log of the eigenvalue at which the vector is polished."""
NARROW = 1e-6
"""The largest distance of the bounds of the log of a known eigenvalue, relative to its size."""
MARGIN = 1e-13
"""The shift that keeps the matrix of an inverse iteration from being singular."""
LARGER_LAM = "Use a larger lam: rewards of several hundred lam are beyond double precision."


@dataclass(frozen=True)
class WeightedEdges:
    """The possible transitions between states, each with its probability and its gain.

    Args:
        n: The number of states.
        state: The state that each edge leaves.
        next_state: The state that each edge enters.
        share: The probability of the edge among those that leave the same state.
        gain: `r / lam`.
    """

    n: int
    state: Int[np.ndarray, " edges"]
    next_state: Int[np.ndarray, " edges"]
    share: Float[np.ndarray, " edges"]
    gain: Float[np.ndarray, " edges"]

    def __post_init__(self) -> None:
        columns = (self.state, self.next_state, self.share, self.gain)
        if len({column.shape for column in columns}) > 1 or self.state.ndim != 1:
            shapes = ", ".join(str(column.shape) for column in columns)
            raise ArgumentError(f"state, next_state, share and gain differ in shape: {shapes}.")
        is_state = f"a state from 0 to {self.n - 1}"
        for name, valid, expected in (
            ("state", (self.state >= 0) & (self.state < self.n), is_state),
            ("next_state", (self.next_state >= 0) & (self.next_state < self.n), is_state),
            ("share", self.share > 0, "positive"),
            ("gain", np.isfinite(self.gain), "finite"),
        ):
            if not valid.all():
                raise ArgumentError(f"{name} has an entry that is not {expected}.", argument=name)
        total = np.bincount(self.state, self.share, self.n)
        wrong = np.abs(total - 1) > SHARES_OFF
        wrong[np.setdiff1d(np.arange(self.n), self.state)] = False
        if wrong.any():
            first = int(wrong.argmax())
            problem = f"share sums to {total[first]:.9g} over the edges from state {first}, not 1."
            remedy = "Multiply each share by the probability of its action."
            raise ArgumentError(problem, remedy=remedy, argument="share")

    def within(self, kept: Mask, level: float = 0.0) -> Rows:
        """Returns `I - W` over some states, with all gains lowered by a level."""
        gain = self.gain - level
        return rows_of_edges(self.state, self.next_state, self.share, gain, kept, any_gain=True)

    def log_loops(self, kept: Mask, level: float) -> Float[np.ndarray, " kept"]:
        """Returns the logs of the diagonal of `W` over some states, with all gains lowered by a
        level. They are minus infinity in states without an edge to themselves."""
        loop = kept[self.state] & (self.state == self.next_state)
        row = (np.cumsum(kept) - 1)[self.state[loop]]
        weight = np.log(self.share[loop]) + (self.gain[loop] - level)
        return _log_sums(row, weight, np.full(int(kept.sum()), -np.inf))


class Growth(NamedTuple):
    """The largest eigenvalue of `W` over one class of states, and its vector."""

    log_e: Float[np.ndarray, " kept"]
    """The log of the vector, with a largest entry of 0."""
    log_eigenvalue: float
    bracket: tuple[float, float]
    """Collatz-Wielandt bounds of `log_eigenvalue`."""
    residual: float
    """The largest `|(W e)(s) / (eigenvalue e(s)) - 1|`."""
    error: float
    """The estimated error of an entry of `log_e`."""

    @property
    def is_known(self) -> bool:
        """Whether the bounds of the eigenvalue are close enough to determine it."""
        return _is_narrow(*self.bracket)


def edges_of(mdp: MDP, lam: float) -> WeightedEdges:
    """Returns the transitions of an MDP under its default policy."""
    entries = mdp.P.tocoo()
    used = entries.data > 0
    row, column = entries.row[used].astype(np.int64), entries.col[used].astype(np.int64)
    return WeightedEdges(mdp.n_states, row, column, entries.data[used], mdp.reward[row] / lam)


def classes(edges: WeightedEdges, kept: Mask) -> list[Mask]:
    """Returns the classes of the kept states that can reach each other by at least one edge."""
    inside = kept[edges.state] & kept[edges.next_state]
    row, column = edges.state[inside], edges.next_state[inside]
    _, label = strong_classes(row, column, edges.n)
    looping = np.unique(label[row[label[row] == label[column]]])
    return [(label == k) & kept for k in looping]


def growth(edges: WeightedEdges, kept: Mask) -> Growth:
    """Computes the largest eigenvalue of `W` over one of its `classes`, and its vector."""
    level, v = _noda(edges, kept)
    vector = perron(Pencil(edges.within(kept, level)), near=(0.0, v))
    for _ in range(MOST_POLISHED):  # The eigenvalue is 1 - s, which loses no digit if s is 0.
        if not 4 * np.finfo(float).eps <= abs(vector.eigenvalue) < 0.5:
            break
        level += float(np.log1p(-vector.eigenvalue))
        vector = perron(Pencil(edges.within(kept, level)), near=(0.0, v))
    with np.errstate(divide="ignore"):  # An eigenvalue of 0 already has an infinite error.
        low, high = (float(level + np.log1p(-min(s, 1.0))) for s in reversed(vector.bracket))
        log_eigenvalue = float(level + np.log1p(-min(vector.eigenvalue, 1.0)))
    rounding = 1e-12 * (1 + abs(log_eigenvalue))
    holds = low - rounding <= log_eigenvalue <= high + rounding
    bracket = (min(low, log_eigenvalue), max(high, log_eigenvalue))
    log_e, error = vector.log_e - vector.log_e.max(), vector.error if holds else np.inf
    return Growth(log_e, log_eigenvalue, bracket, vector.residual, error)


def log_radius(edges: WeightedEdges, kept: Mask) -> float:
    """Computes the log of the spectral radius of `W` over any states. It is minus infinity if no
    state can be visited twice."""
    low, high = radius_bounds(edges, kept)
    if low == high:  # Both may be infinite.
        return high
    if not _is_narrow(low, high):
        raise NotConverged(
            f"the log of the spectral radius could not be computed: its bounds are {low:.6g} and "
            f"{high:.6g}.",
            remedy=LARGER_LAM,
        )
    return (low + high) / 2


def radius_bounds(edges: WeightedEdges, kept: Mask) -> tuple[float, float]:
    """Returns bounds of the log of the spectral radius of `W` over any states: the largest of the
    Collatz-Wielandt bounds of their classes."""
    brackets = [growth(edges, part).bracket for part in classes(edges, kept)]
    low, high = zip(*brackets, strict=True) if brackets else ((-np.inf,), (-np.inf,))
    return max(low), max(high)


def _is_narrow(low: float, high: float) -> bool:
    return bool(np.isfinite(low) and high - low <= NARROW * (1 + abs(high)))


def _noda(edges: WeightedEdges, kept: Mask) -> tuple[float, Float[np.ndarray, " kept"]]:
    """Finds a level just above the log of the eigenvalue, and approximates its vector in logs.

    This is Noda's iteration, an inverse iteration shifted to an upper bound, on the matrix scaled
    by the last vector: its row sums are then at most 1, at any range of the entries.
    """
    base = float(edges.gain[kept[edges.state]].max())
    rows, log_loops = edges.within(kept, base), edges.log_loops(kept, base)
    v, level = np.zeros(rows.n), np.inf
    for _ in range(MOST_STEPS):
        log_flow = rows.log_scaled_weight(v)
        log_sum = _log_sums(rows.row, log_flow, log_loops)
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


def _log_sums(
    row: Int[np.ndarray, " entries"],
    log_weight: Float[np.ndarray, " entries"],
    log_diagonal: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Returns the logs of the row sums of a matrix whose entries are given in logs."""
    most = log_diagonal.copy()
    np.maximum.at(most, row, log_weight)
    finite = np.where(np.isneginf(most), 0.0, most)
    summed = np.bincount(row, np.exp(log_weight - finite[row]), most.size)
    with np.errstate(divide="ignore"):
        return finite + np.log(summed + np.exp(log_diagonal - finite))
