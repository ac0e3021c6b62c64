"""Maps that lead into worse ends than the cheapest ways, because lam makes rewards small beside
chance: random walks find a bad end that is near more often than a good one."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool
from scipy.sparse.csgraph import dijkstra

from drogo.errors import counted
from drogo.exact.columns import solve_edges
from drogo.mdp.model import Edges

WORSE = 0.1
"""The share of the range of all ends by which an end is worse than another, and not its equal."""
MOST_HALVINGS = 40


def notes_of(edges: Edges, lam: float) -> list[str]:
    """Returns a note if the map leads into worse ends than the cheapest ways."""
    count = int(misled(edges, lam).sum())
    if not count:
        return []
    smaller = suitable_lam(edges, lam)
    note = f"From {counted(count, 'state')}, the map of lam = {lam:g} leads into a worse end than "
    note += "the cheapest way, because rewards count for little. "
    rest = "Halving it again and again is no help."
    return [note + (f"With lam = {smaller:g}, it does not." if smaller else rest)]


def suitable_lam(edges: Edges, lam: float) -> float | None:
    """Returns lam, halved until the map leads into no worse ends than the cheapest ways; None if
    that takes too many halvings."""
    for _ in range(MOST_HALVINGS):
        if not misled(edges, lam).any():
            return lam
        lam /= 2
    return None


def misled(edges: Edges, lam: float) -> Bool[np.ndarray, " states"]:
    """Returns the states from which the steepest ascent of the exact map leads to a worse end, at a
    higher cost, than the cheapest way; none if actions have several outcomes."""
    n, (ends, state, after, cost) = edges.n, _steps(edges.known)
    if ends.size < 2 or not (cost >= 0).all():
        return np.zeros(n, dtype=bool)
    action = getattr(edges, "action", None)
    if action is not None:
        outcomes = np.stack([edges.state, action, edges.next_state])[:, edges.usable]
        pairs = np.unique(outcomes, axis=1)[:2]
        if np.unique(pairs, axis=1).shape != pairs.shape:
            return np.zeros(n, dtype=bool)
    v = np.r_[solve_edges(edges.known, lam), np.zeros(ends.size)]
    best = np.argsort(v[after] - cost / lam)  # of the steps from a state, the last one stays
    ascent, spent = np.arange(v.size), np.zeros(v.size)
    ascent[state[best]], spent[state[best]] = after[best], cost[best]
    for _ in range(v.size.bit_length()):  # twice as many steps each time
        spent, ascent = spent + spent[ascent], ascent[ascent]
    backwards = sp.csr_array((cost, (after, state)), shape=(v.size, v.size))
    options = {"min_only": True, "return_predecessors": True}
    least, _, nearest = dijkstra(backwards, indices=np.arange(n, v.size), **options)
    reached, cheapest = (ends[np.maximum(node - n, 0)] for node in (ascent, nearest))
    worse = (cheapest - reached > WORSE * np.ptp(ends)) & (spent > least * (1 + 1e-9))
    return (worse & (ascent >= n) & (nearest >= n))[:n]


def _steps(edges: Edges) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the distinct values of ends, and the distinct steps: their states, the nodes after
    them, which are states or the ends behind these, and their costs, the least of parallel ones."""
    over, cost = edges.terminated, -edges.reward - edges.terminal_reward
    worth = np.full(edges.n, -np.inf)  # of an end: that of the best last step into it
    np.maximum.at(worth, edges.next_state[over], -cost[over])
    ends = np.unique(worth[edges.next_state[over]])
    end = edges.n + np.searchsorted(ends, worth[edges.next_state])
    after = np.where(over, end, edges.next_state)
    order = np.lexsort([cost, after, edges.state])
    both = np.stack([edges.state, after])[:, order]
    first = order[np.unique(both, axis=1, return_index=True)[1]]
    return ends, edges.state[first], after[first], cost[first]
