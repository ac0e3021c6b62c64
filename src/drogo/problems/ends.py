"""What data say of the ends of episodes.

States from which no end was reached, and actions that were never taken, must not look better than
what was seen: their values are given as lying below all others. And a map may lead into a worse end
than the cheapest way, where lam makes rewards small beside chance: random walks find a bad end that
is near more often than a good one.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool
from scipy.sparse.csgraph import dijkstra

from drogo.data import Transitions
from drogo.errors import counted
from drogo.exact.columns import solve_edges
from drogo.learn.problem import Prepared
from drogo.mdp.arrays import leads_to
from drogo.mdp.model import Edges

ABSENT = -1e4
"""What is added to the value of an action that never occurs, whose probability is then 0."""
WORSE = 0.1
"""The share of the range of all ends by which an end is worse than another, and not its equal."""
MOST_HALVINGS = 40


def closed(prepared: Prepared, floor: Callable[[Transitions], float]) -> Prepared:
    """Returns transitions whose states repeat, in which each step into a state that never leads to
    an end is itself an end: worth the `floor` of the data. So are steps to state numbers that were
    never left, of which a table knows nothing."""
    data = prepared.data
    if not data.repeats:
        return prepared
    edges, known, n = data.edges, data.edges.known, len(data.observations)
    over = known.terminated
    leads = leads_to(known.state[~over], known.next_state[~over], n, known.state[over])
    leads[data.next_state[data.terminated]] = True
    left = np.bincount(data.state, minlength=n) > 0
    lost = left & ~leads
    closing = lost | (~left & ~leads if data.observations.ndim == 1 else False)
    if not closing.any():
        return prepared
    facts, ends = {**prepared.facts, "anchor": data.terminal_states[0]}, closing[data.next_state]
    data = replace(
        data,
        terminated=data.terminated | ends,
        terminal_reward=np.where(ends, floor(data), data.terminal_reward),
    )
    frontier = lost[edges.state] & ~edges.usable
    notes = prepared.notes
    if lost.any():
        what = counted(int(lost.sum()), "observation")
        note = f"No end was ever reached from {what}, whose values are below all others"
        notes = (*notes, f"{note}, though the data do not show all that follows them."
                 if frontier.any() else f"{note}.")  # fmt: skip
    complete = prepared.complete and not frontier.any()
    return replace(prepared, data=data, shown=data, notes=notes, complete=complete, facts=facts)


def with_unseen_pairs(data: Transitions, floor: Callable[[Transitions], float]) -> Transitions:
    """Adds a step into an end worth the `floor` for each action that was never seen in a state."""
    if not data.repeats or data.n_actions is None or data.action is None:
        return data
    n, count = len(data.observations), data.n_actions
    seen = np.zeros((n, count), dtype=bool)
    seen[data.state, data.action] = True
    state, action = np.nonzero(~seen & seen.any(axis=1, keepdims=True) & seen.any(axis=0))
    if not state.size:
        return data
    size, over = state.size, np.ones(state.size, dtype=bool)
    added: dict[str, Any] = {
        "state": state.astype(data.state.dtype),
        "next_state": state.astype(data.next_state.dtype),
        "reward": np.full(size, data.reward.mean()),
        "terminated": over,
        "truncated": ~over,
        "terminal_reward": np.full(size, floor(data)),
        "action": action.astype(data.action.dtype),
        "behaviour": np.full(size, 1 / count),
        "default": np.full(size, 1 / count),
        "weight": np.ones(size),
    }
    columns = {name: getattr(data, name) for name in added}
    joined = {name: np.r_[part, added[name]] for name, part in columns.items() if part is not None}
    return replace(data, **joined, outcome=None)


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
    """Returns the states from which the map leads to a worse end than the cheapest way."""
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
