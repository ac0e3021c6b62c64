"""Sparse Z-matrices in the log domain, row by row, and which of their states lead to which.

Row s of `R - P` is divided by `exp(-r(s)/lam)`, so that nothing overflows. It is stored as the logs
of its negated off-diagonals `w`, its diagonal *and* its sum, each to full relative precision. For a
vector in logs, `(M e)(s) / e(s)` is `diagonal(s) - sum_s' w(s, s') exp(v(s') - v(s))`, and also
`total(s) - sum_s' w(s, s') expm1(v(s') - v(s))`. At any scale, one of the two does not cancel.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph

from drogo.errors import check_choice, check_inside, check_positive
from drogo.mdp import MDP, Edges
from drogo.mdp.arrays import Nodes, leads_to

Values = Float[np.ndarray, " n"]
Mask = Bool[np.ndarray, " n"]
TERMINAL_FORMULATIONS = ("absorbing", "zero-row")


@dataclass(frozen=True)
class Rows:
    """A square Z-matrix. `row`, `column` and `log_weight` list its off-diagonals, in any order."""

    row: Int[np.ndarray, " entries"]
    column: Int[np.ndarray, " entries"]
    log_weight: Float[np.ndarray, " entries"]
    diagonal: Values
    total: Values  # Row sums.
    log_scale: Values  # The log of the factor that each row was multiplied by: r(s)/lam.

    @property
    def n(self) -> int:
        return self.total.size

    def scaled_weight(self, v: Values) -> Float[np.ndarray, " entries"]:
        """Returns the negated off-diagonals of `diag(exp(-v)) M diag(exp(v))`."""
        with np.errstate(over="ignore"):  # The caller checks for overflow.
            return np.exp(self.log_weight + v[self.column] - v[self.row])

    def ratio(self, v: Values) -> Values:
        """Returns `(M exp(v)) / exp(v)`, entry by entry."""
        flow, weight = self.scaled_weight(v), np.exp(self.log_weight)
        step = v[self.column] - v[self.row]
        near = np.abs(step) < 1
        change = np.where(near, weight * np.expm1(np.where(near, step, 0.0)), flow - weight)
        arriving = np.bincount(self.row, flow, self.n)
        changing, moved = (np.bincount(self.row, part, self.n) for part in (change, np.abs(change)))
        by_total = np.abs(self.total) + moved < np.abs(self.diagonal) + arriving
        return np.where(by_total, self.total - changing, self.diagonal - arriving)

    def minus(self, shift: float) -> "Rows":
        """Returns `M - shift I` (of the matrix before its rows were scaled)."""
        amount = shift * np.exp(self.log_scale)
        return replace(self, diagonal=self.diagonal - amount, total=self.total - amount)

    def transpose(self) -> "Rows":
        """Returns the transposed matrix, with the row scaling of the original."""
        log_weight = self.log_weight - self.log_scale[self.row] + self.log_scale[self.column]
        total = self.diagonal - np.bincount(self.column, np.exp(log_weight), self.n)
        return replace(self, row=self.column, column=self.row, log_weight=log_weight, total=total)

    def symmetric_part(self) -> "Rows":
        """Returns `(M + M^T) / 2`."""
        half = np.exp(self.log_weight - self.log_scale[self.row]) / 2
        place = np.concatenate([self.row, self.column]), np.concatenate([self.column, self.row])
        both = sp.coo_array((np.concatenate([half, half]), place), shape=(self.n, self.n))
        total = self.total + (self.transpose().total - self.total) / 2
        entries = off_diagonals(sp.csr_array(both), self.log_scale)
        return Rows(*entries, self.diagonal, total, self.log_scale)

    def block(self, keep: Mask) -> "Rows":
        """Returns the rows and columns of some states, for a vector that vanishes in the others."""
        place, inside = np.cumsum(keep) - 1, keep[self.column]
        stays, leaves = keep[self.row] & inside, keep[self.row] & ~inside
        total = self.total + np.bincount(self.row[leaves], np.exp(self.log_weight[leaves]), self.n)
        entries = place[self.row[stays]], place[self.column[stays]], self.log_weight[stays]
        return Rows(*entries, self.diagonal[keep], total[keep], self.log_scale[keep])

    def beside(self, other: "Rows") -> "Rows":
        """Returns the block-diagonal matrix of this matrix and another."""
        shifted = replace(other, row=other.row + self.n, column=other.column + self.n)
        parts = zip(vars(self).values(), vars(shifted).values(), strict=True)
        return Rows(*(np.concatenate(pair) for pair in parts))


def default_rows(mdp: MDP, lam: float, terminal: str, delta: float) -> Rows:
    """Returns `R - P`, with terminal states absorbing at `-delta` or with a zero row."""
    absorbing = mdp.terminal & (terminal == "absorbing")
    log_scale = np.where(absorbing, -delta, mdp.reward) / lam
    # A terminal state may have a reward of any sign. Its zero row sums to 1.
    has_zero_row = mdp.terminal & ~absorbing
    total = np.where(has_zero_row, 1.0, -np.expm1(np.where(has_zero_row, 0.0, log_scale)))
    return with_sums(mdp.P, total, log_scale)


def successor_rows(mdp: MDP, discount: float) -> Rows:
    """Returns `I - discount P`, where terminal rows of `P` are zero."""
    total = np.where(mdp.terminal, 1.0, 1.0 - check_inside("discount", discount))
    return with_sums(sp.csr_array(mdp.P * discount), total, np.zeros(mdp.n_states))


def edge_rows(edges: Edges, kept: Mask, lam: float, level: float = 0.0) -> Rows:
    """Returns `I - W` over some states, for the sums W of `share * exp(r/lam - level)` of edges."""
    next_state = np.where(edges.terminated, edges.n, edges.next_state)
    gain = edges.reward / lam - level
    return weighted_rows(np.append(kept, False), edges.state, next_state, edges.share, gain)


def weighted_rows(
    kept: Mask, state: Nodes, next_state: Nodes, share: np.ndarray, gain: np.ndarray
) -> Rows:
    """Returns `I - W` over the kept ones of all nodes; see `edge_rows`."""
    place, stays, n = np.cumsum(kept) - 1, kept[state], int(kept.sum())
    row, column = place[state[stays]], next_state[stays]
    share, gain = share[stays], gain[stays]
    with np.errstate(over="ignore"):  # An infinite number makes the result inaccurate.
        weight, loss = share * np.exp(gain), -share * np.expm1(gain)
    inside = kept[column]
    loop = inside & (place[column] == row)
    off = inside & ~loop
    sums = (np.bincount(row[part], weight[part], n) for part in (loop, off, ~inside))
    looping, leaving, lost = sums
    with np.errstate(invalid="ignore"):
        # The terms of this sum have one sign if rewards do, so tiny rewards do not cancel.
        total = np.bincount(row, loss, n) + lost
        # Large gains would cancel in the sum of both.
        diagonal = np.where(leaving <= 1, total + leaving, 1 - looping)
    entries = row[off], place[column[off]], (np.log(share) + gain)[off]
    return Rows(*entries, diagonal, total, np.zeros(n))


def check_parameters(lam: float, terminal: str, delta: float) -> tuple[float, float]:
    """Returns `lam` and `delta` as floats."""
    check_choice("terminal", terminal, TERMINAL_FORMULATIONS)
    return check_positive("lam", lam), check_positive("delta", delta)


def with_sums(P: sp.csr_array, total: np.ndarray, log_scale: np.ndarray) -> Rows:
    """Returns the matrix with the off-diagonals of `-P`, scaled, and these row sums."""
    row, column, log_weight = off_diagonals(P, log_scale)
    diagonal = total + np.bincount(row, np.exp(log_weight), total.size)
    return Rows(row, column, log_weight, diagonal, total, log_scale)


def off_diagonals(P: sp.csr_array, log_scale: np.ndarray) -> tuple[Nodes, Nodes, np.ndarray]:
    """Returns row, column and scaled log weight of each off-diagonal."""
    entries = P.tocoo()
    off = (entries.row != entries.col) & (entries.data > 0)
    row, column = entries.row[off].astype(np.int64), entries.col[off].astype(np.int64)
    return row, column, np.log(entries.data[off]) + log_scale[row]


def strong_classes(row: Nodes, column: Nodes, n: int) -> tuple[int, Int[np.ndarray, " n"]]:
    """Returns the number of classes of states that can reach each other, and each state's class."""
    graph = sp.csr_array((np.ones(row.size), (row, column)), shape=(n, n))
    return csgraph.connected_components(graph, connection="strong")


class Reach:
    """Finds the states that can reach a goal, among classes that can reach each other."""

    def __init__(self, rows: Rows) -> None:
        self.classes, self.label = strong_classes(rows.row, rows.column, rows.n)
        row, column = self.label[rows.row], self.label[rows.column]
        between = row != column
        self.row, self.column = row[between], column[between]

    def __call__(self, goals: Int[np.ndarray, " goals"]) -> Bool[np.ndarray, "states goals"]:
        """Returns for each goal the states that can reach it, the goal itself among them."""
        labels, of_goal = np.unique(self.label[goals], return_inverse=True)
        arrives = [leads_to(self.row, self.column, self.classes, one) for one in labels[:, None]]
        return np.stack(arrives, axis=1)[self.label][:, of_goal]
