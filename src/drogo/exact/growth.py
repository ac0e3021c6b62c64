"""The growth rate of a non-negative matrix and its positive eigenvector, in logs.

`W(s, s')` is the sum of `share * exp(gain)` over the steps from s to s': how much the desirability
of s' counts in s. Its largest eigenvalue decides two things. Where a task ends, the desirability is
finite if and only if the eigenvalue of the non-terminal states is below 1. Where a task never ends,
the logarithm of the eigenvalue is what a step is worth on average, and its vector takes the place
of the desirability.

All gains are lowered by a level that is moved until the eigenvalue is 1. The matrix `I - W` is then
singular, its smallest eigenvalue is known to the last digit however small `W` was, and the vector
is found as any other positive one (`pencil`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph

from drogo.errors import ArgumentError, NotConverged
from drogo.exact.log_solve import NoPositiveSolution, factorise
from drogo.exact.pencil import Pencil, perron
from drogo.exact.rows import Rows
from drogo.mdp import MDP

MOST_STEPS, MOST_POLISHED = 200, 3
SHARES_OFF = 1e-9
"""By how much the shares of the steps of a state may miss 1."""
CLOSE = 1e-9
"""How near the bounds of the log of the eigenvalue come before the vector is polished."""
NARROW = 1e-6
"""How near the bounds of the log of an eigenvalue are, relative to its size, if it is known."""
MARGIN = 1e-13
"""What keeps the matrix of an inverse iteration from being singular."""


@dataclass(frozen=True)
class Steps:
    """What may happen in each of some states, each step with its share and its gain.

    Args:
        n: The number of states.
        state: The state that is left.
        next_state: The state that is reached.
        share: The probability of the step among those that leave the same state.
        gain: `r / lam`.
    """

    n: int
    state: Int[np.ndarray, " steps"]
    next_state: Int[np.ndarray, " steps"]
    share: Float[np.ndarray, " steps"]
    gain: Float[np.ndarray, " steps"]

    def __post_init__(self) -> None:
        columns = (self.state, self.next_state, self.share, self.gain)
        if len({column.shape for column in columns}) > 1 or self.state.ndim != 1:
            raise ArgumentError(f"steps have columns of the shapes {[c.shape for c in columns]}.")
        ends = np.concatenate(columns[:2])
        if ends.size and not (ends.min() >= 0 and ends.max() < self.n):
            raise ArgumentError(f"a step has a state that is none of those from 0 to {self.n - 1}.")
        if not (np.isfinite(self.gain).all() and (self.share > 0).all()):
            raise ArgumentError("a step has a gain that is not finite, or a share that is not > 0.")
        total = np.bincount(self.state, self.share, self.n)
        wrong = np.abs(total - 1) > SHARES_OFF
        wrong[np.setdiff1d(np.arange(self.n), self.state)] = False
        if wrong.any():
            first = int(wrong.argmax())
            raise ArgumentError(
                f"the shares of the steps that leave state {first} add up to {total[first]:.9g}; "
                "they are probabilities, so give them with those of the actions, adding up to 1."
            )

    def within(self, kept: Bool[np.ndarray, " n"], level: float = 0.0) -> Rows:
        """Returns `I - W` over some states, all gains lowered by a level. What leads elsewhere is
        lost."""
        place, stays = np.cumsum(kept) - 1, kept[self.state]
        row, column = place[self.state[stays]], self.next_state[stays]
        share, gain, n = self.share[stays], self.gain[stays] - level, int(kept.sum())
        with np.errstate(over="ignore"):  # An infinite number makes the result inaccurate.
            weight, left = share * np.exp(gain), -share * np.expm1(gain)
        inside = kept[column]
        same = inside & (place[column] == row)
        off = inside & ~same
        own, leaving, lost = (
            np.bincount(row[part], weight[part], n) for part in (same, off, ~inside)
        )
        # The first sum has terms of one sign where rewards have one, so that nothing cancels if
        # they are tiny; the second cancels less if they are large.
        with np.errstate(invalid="ignore"):
            total = np.bincount(row, left, n) + lost
            diagonal = np.where(leaving <= 1, total + leaving, 1 - own)
        entries = row[off], place[column[off]], (np.log(share) + gain)[off]
        return Rows(*entries, diagonal, total, np.zeros(n))

    def log_own(self, kept: Bool[np.ndarray, " n"], level: float) -> Float[np.ndarray, " kept"]:
        """Returns the logs of the diagonal of `W` over some states, all gains lowered by a level.
        They may be minus infinity."""
        stays = kept[self.state] & (self.state == self.next_state)
        place, n = np.cumsum(kept) - 1, int(kept.sum())
        gain = self.gain[stays] - level
        with np.errstate(divide="ignore"):
            row, weight = place[self.state[stays]], np.log(self.share[stays]) + gain
        return _log_sums(row, weight, np.full(n, -np.inf))


class Growth(NamedTuple):
    """The eigenvalue and vector of one class of states."""

    log_e: Float[np.ndarray, " kept"]
    """The log of the vector, largest entry 0."""
    log_eigenvalue: float
    bracket: tuple[float, float]
    """Collatz-Wielandt bounds of `log_eigenvalue`."""
    residual: float
    """The largest `|(W e)(s) / (eigenvalue e(s)) - 1|`."""
    error: float
    """The estimated error of an entry of `log_e`."""

    @property
    def is_known(self) -> bool:
        """Whether the bounds of the eigenvalue are so near that it is known."""
        low, high = self.bracket
        return bool(np.isfinite(low) and high - low <= NARROW * (1 + abs(high)))


def steps_of(mdp: MDP, lam: float) -> Steps:
    """Returns the steps of an MDP under its default policy."""
    entries = mdp.P.tocoo()
    used = entries.data > 0
    row, column = entries.row[used].astype(np.int64), entries.col[used].astype(np.int64)
    return Steps(mdp.n_states, row, column, entries.data[used], mdp.reward[row] / lam)


def classes(steps: Steps, kept: Bool[np.ndarray, " n"]) -> list[Bool[np.ndarray, " n"]]:
    """Returns the classes of states that can reach each other by at least one step.

    Args:
        steps: The steps.
        kept: The states among which classes are looked for.
    """
    inside = kept[steps.state] & kept[steps.next_state]
    row, column = steps.state[inside], steps.next_state[inside]
    graph = sp.csr_array((np.ones(row.size), (row, column)), shape=(steps.n, steps.n))
    _, label = csgraph.connected_components(graph, connection="strong")
    looping = np.unique(label[row[label[row] == label[column]]])
    return [(label == k) & kept for k in looping]


def growth(steps: Steps, kept: Bool[np.ndarray, " n"]) -> Growth:
    """Computes the largest eigenvalue of `W` over one class of states, and its vector.

    Args:
        steps: The steps.
        kept: The states, which can all reach each other by steps within them.
    """
    level, v = _noda(steps, kept)
    vector = perron(Pencil(steps.within(kept, level)), near=(0.0, v))
    for _ in range(MOST_POLISHED):  # The eigenvalue is 1 - s, of which no digit is lost if s is 0.
        if not 4 * np.finfo(float).eps <= abs(vector.eigenvalue) < 0.5:
            break
        level += float(np.log1p(-vector.eigenvalue))
        vector = perron(Pencil(steps.within(kept, level)), near=(0.0, v))
    with np.errstate(divide="ignore"):  # An eigenvalue of 0 has an infinite error already.
        low, high = (float(level + np.log1p(-min(s, 1.0))) for s in reversed(vector.bracket))
        log_eigenvalue = float(level + np.log1p(-min(vector.eigenvalue, 1.0)))
    rounding = 1e-12 * (1 + abs(log_eigenvalue))
    holds = low - rounding <= log_eigenvalue <= high + rounding
    bracket = (min(low, log_eigenvalue), max(high, log_eigenvalue))
    log_e = vector.log_e - vector.log_e.max()
    return Growth(
        log_e, log_eigenvalue, bracket, vector.residual, vector.error if holds else np.inf
    )


def log_radius(steps: Steps, kept: Bool[np.ndarray, " n"]) -> float:
    """Computes the log of the spectral radius of `W` over some states, which need not all reach
    each other. It is minus infinity if no state can be come back to.

    Args:
        steps: The steps.
        kept: The states.

    Raises:
        NotConverged: It could not be computed.
    """
    low, high = radius_bounds(steps, kept)
    if low == high:  # which may be infinite
        return high
    if not high - low <= NARROW * (1 + abs(high)):
        raise NotConverged(
            f"the log of the spectral radius could not be computed: its bounds are {low:.6g} and "
            f"{high:.6g}.",
            remedy="Use a larger lam: rewards of some hundred times lam are beyond the range of "
            "double precision.",
        )
    return (low + high) / 2


def radius_bounds(steps: Steps, kept: Bool[np.ndarray, " n"]) -> tuple[float, float]:
    """Returns bounds of the log of the spectral radius of `W` over some states: the largest of the
    Collatz-Wielandt bounds of their classes.

    Args:
        steps: The steps.
        kept: The states.
    """
    found = [growth(steps, part).bracket for part in classes(steps, kept)]
    low, high = zip(*found, strict=True) if found else ((-np.inf,), (-np.inf,))
    return max(low), max(high)


def _noda(steps: Steps, kept: Bool[np.ndarray, " n"]) -> tuple[float, Float[np.ndarray, " kept"]]:
    """Finds a level just above the log of the eigenvalue, and roughly its vector in logs.

    This is Noda's iteration, an inverse iteration shifted to an upper bound, on the matrix that is
    scaled by its own last vector: its row sums are then at most 1, at any range of the entries.
    """
    base = float(steps.gain[kept[steps.state]].max())
    rows, log_own = steps.within(kept, base), steps.log_own(kept, base)
    v, nothing_fixed = np.zeros(rows.n), np.zeros(rows.n, dtype=bool)
    level = np.inf
    for _ in range(MOST_STEPS):
        log_flow = rows.log_weight + v[rows.column] - v[rows.row]
        log_sum = _log_sums(rows.row, log_flow, log_own)
        low, high = float(log_sum.min()), float(log_sum.max())
        level = min(level, high)
        if high - low < CLOSE:
            break
        total = np.maximum(-np.expm1(log_sum - high), 0.0) + MARGIN
        leaving = np.bincount(rows.row, np.exp(log_flow - high), rows.n)
        scaled = replace(rows, log_weight=log_flow - high, diagonal=total + leaving, total=total)
        try:
            grown = factorise(scaled, nothing_fixed, np.zeros(rows.n)).lu.solve(np.ones(rows.n))
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
    log_own: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Returns the logs of the row sums of a matrix whose entries are given in logs."""
    most = log_own.copy()
    np.maximum.at(most, row, log_weight)
    finite = np.where(np.isneginf(most), 0.0, most)
    summed = np.bincount(row, np.exp(log_weight - finite[row]), most.size)
    with np.errstate(divide="ignore"):
        return finite + np.log(summed + np.exp(log_own - finite))
