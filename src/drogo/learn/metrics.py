"""How good a learned vector is: against a truth where there is one, and by itself where not."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.learn.transitions import Edges


def cosine(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, " states"]
) -> Float[np.ndarray, " lanes"]:
    """Cosine similarity of the logs, the paper's measure. It forgives scale."""
    size = np.linalg.norm(v, axis=-1) * np.linalg.norm(truth)
    return v @ truth / np.maximum(size, np.finfo(float).tiny)


def largest_difference(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, " states"], anchor: int
) -> Float[np.ndarray, " lanes"]:
    """Largest difference of any log entry, both shifted to 0 at the anchor. It forgives nothing."""
    gap = (v - v[:, [anchor]]) - (truth - truth[anchor])
    return np.abs(gap).max(axis=-1)


def violations(
    v: Float[np.ndarray, "lanes states"], edges: Edges, lam: float
) -> Float[np.ndarray, "lanes seen"]:
    """Of each state's equation in the data: 1 - E[exp(r/lam + v(s') - v(s))].

    Zero at the fixed point of the data. `exp(-r/lam)` times this is the Collatz-Wielandt quotient
    (Mx)(s)/x(s), so its spread over states is a measure that needs no truth.
    """
    following = np.where(
        edges.terminated, edges.terminal_reward / lam, v[:, edges.next_state].astype(np.float64)
    )
    with np.errstate(over="ignore"):
        flow = np.exp(edges.reward / lam + following - v[:, edges.state])
    total = np.bincount(edges.state, edges.count)
    seen = total > 0
    arriving = np.stack([np.bincount(edges.state, edges.count * lane) for lane in flow])
    return 1 - arriving[:, seen] / total[seen]
