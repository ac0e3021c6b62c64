"""Maps that lead into worse ends than the cheapest ways, because lam makes rewards small beside
chance: random walks find a bad end that is near more often than a good one."""

from __future__ import annotations

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
    note = f"From {counted(count, 'state')}, the map of lam = {lam:g} leads into a worse end than "
    note += "the cheapest way, because rewards count for little. "
    return [f"{note}With lam = {suitable_lam(edges, lam):g}, it does not."] if count else []


def suitable_lam(edges: Edges, lam: float) -> float:
    """Returns lam, halved until the map leads into no worse ends than the cheapest ways."""
    for _ in range(MOST_HALVINGS):
        if not misled(edges, lam).any():
            break
        lam /= 2
    return lam


def misled(edges: Edges, lam: float) -> Bool[np.ndarray, " states"]:
    """Returns the states from which the steepest ascent of the exact map leads to a worse end, at a
    higher cost, than the cheapest way; none if actions have several outcomes."""
    n, action, everything = edges.n, getattr(edges, "action", None), edges
    edges = edges.known
    if action is not None:
        columns = edges.state, action[everything.usable], edges.next_state
        pairs = np.unique(columns, axis=1)[:2]
        if np.unique(pairs, axis=1).shape != pairs.shape:
            return np.zeros(n, dtype=bool)
    over, cost = edges.terminated, -edges.reward - edges.terminal_reward
    worth = np.full(n, -np.inf)  # of an end: that of the best last step into it
    np.maximum.at(worth, edges.next_state[over], -cost[over])
    ends = np.unique(worth[edges.next_state[over]])
    if ends.size < 2 or not (cost >= 0).all():
        return np.zeros(n, dtype=bool)
    root = n + ends.size  # leads to all ends
    after = np.where(over, n + np.searchsorted(ends, worth[edges.next_state]), edges.next_state)
    order = np.lexsort([cost, after, edges.state])  # of parallel edges, the cheapest is first
    first = order[np.unique([edges.state[order], after[order]], axis=1, return_index=True)[1]]
    state, after, cost = edges.state[first], after[first], cost[first]
    backwards = np.r_[after, np.full(ends.size, root)], np.r_[state, n:root]
    graph = sp.csr_array((np.r_[cost, np.zeros(ends.size)], backwards), shape=(root + 1, root + 1))
    least, cheapest = dijkstra(graph, indices=root, return_predecessors=True)
    steep = np.argsort(np.r_[solve_edges(edges, lam), np.zeros(ends.size)][after] - cost / lam)
    ascent, spent = np.arange(root), np.zeros(root)
    ascent[state[steep]], spent[state[steep]] = after[steep], cost[steep]
    cheapest = np.r_[np.maximum(cheapest[:n], 0), n:root]
    for _ in range(n.bit_length()):  # twice as many steps each time
        spent, ascent, cheapest = spent + spent[ascent], ascent[ascent], cheapest[cheapest]
    reached, best = (ends[np.maximum(way - n, 0)] for way in (ascent, cheapest))
    worse = (best - reached > WORSE * np.ptp(ends)) & (spent > least[:root] * (1 + 1e-9))
    return (worse & (ascent >= n) & (cheapest >= n))[:n]
