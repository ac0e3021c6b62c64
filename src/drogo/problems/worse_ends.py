"""Maps that lead into a worse end than their own costs do, because lam makes rewards small beside
chance: a nearby bad end is then found by more random walks than a good one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool
from scipy.sparse.csgraph import dijkstra

from drogo.data import Transitions
from drogo.errors import counted
from drogo.learn.problem import Prepared

WORSE = 0.1
"""The share of the range of all ends by which an end is worse than another, and not its equal."""
MOST_HALVINGS = 40


def noted(prepared: Prepared, problem: Any) -> Prepared:
    """Adds a note if a map leads into worse ends than the cheapest ways, and at what lam not."""
    notes = list(prepared.notes)
    for lam in problem.lam if isinstance(problem.lam, list) else [problem.lam]:
        count = int(_misled(prepared.data, replace(problem, lam=lam)).sum())
        if count:
            least = _largest_lam(prepared.data, replace(problem, lam=lam))
            note = (
                f"From {counted(count, 'state')}, the map of lam = {lam:g} leads into an end that "
            )
            note += "is worse than that of the cheapest way, because rewards count for little. "
            notes.append(f"{note}With lam = {least:g}, it does not.")
    return replace(prepared, notes=tuple(notes))


def suitable_lam(problem: Any, data: Transitions) -> float:
    """Returns the lam of a problem, halved until its map of the data leads into no worse ends than
    the cheapest ways."""
    return _largest_lam(problem.weighed(data, by_action=True).data, problem)


def _largest_lam(data: Transitions, problem: Any) -> float:
    for _ in range(MOST_HALVINGS):
        if not _misled(data, problem).any():
            break
        problem = replace(problem, lam=problem.lam / 2)
    return problem.lam


def _misled(data: Transitions, problem: Any) -> Bool[np.ndarray, " states"]:
    """Returns the states from which the steepest ascent of the exact solution of the data leads to
    a worse end, at a higher cost, than the cheapest way. Where actions have several outcomes, or
    states do not repeat, ways are not known, and the answer is none."""
    n, edges = len(data.observations), data.edges.known
    over, cost = edges.terminated, -edges.reward - edges.terminal_reward
    worth = np.full(n, -np.inf)  # of an end: that of the best last step into it
    np.maximum.at(worth, edges.next_state[over], -cost[over])
    ends = np.unique(worth[edges.next_state[over]])
    if not data.repeats or ends.size < 2 or not (cost >= 0).all() or _by_chance(data):
        return np.zeros(n, dtype=bool)
    root = n + ends.size  # leads to all ends
    after = np.where(over, n + np.searchsorted(ends, worth[edges.next_state]), edges.next_state)
    order = np.lexsort([cost, after, edges.state])  # of parallel edges, the cheapest is first
    first = order[np.unique([edges.state[order], after[order]], axis=1, return_index=True)[1]]
    state, after, cost = edges.state[first], after[first], cost[first]
    backwards = np.r_[after, np.full(ends.size, root)], np.r_[state, n:root]
    graph = sp.csr_array((np.r_[cost, np.zeros(ends.size)], backwards), shape=(root + 1, root + 1))
    least, cheapest = dijkstra(graph, indices=root, return_predecessors=True)
    v = np.r_[problem.exact_of_data(data), np.zeros(ends.size)]
    steep = np.argsort(v[after] - cost / problem.lam, kind="stable")
    ascent, spent = np.arange(root), np.zeros(root)
    ascent[state[steep]], spent[state[steep]] = after[steep], cost[steep]
    cheapest = np.where(np.arange(root) < n, np.maximum(cheapest[:root], 0), np.arange(root))
    for _ in range(n.bit_length()):  # twice as many steps each time
        spent, ascent, cheapest = spent + spent[ascent], ascent[ascent], cheapest[cheapest]
    reached, best = (ends[np.maximum(way - n, 0)] for way in (ascent, cheapest))
    worse = (best - reached > WORSE * np.ptp(ends)) & (spent > least[:root] * (1 + 1e-9))
    return (worse & (ascent >= n) & (cheapest >= n))[:n]


def _by_chance(data: Transitions) -> bool:
    """Returns whether an action has several outcomes."""
    if data.action is None or data.n_actions is None:
        return False
    pair = data.state.astype(np.int64) * data.n_actions + data.action
    outcomes = np.unique([pair, data.next_state.astype(np.int64)], axis=1)[0]
    return outcomes.size > np.unique(outcomes).size
