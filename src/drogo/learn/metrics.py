"""How good a learned vector is: against a truth where there is one, and by itself where not."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.data.transitions import Edges

IN_A_GROUP, MOST_GROUPS = 500, 20
"""Transitions to a group at least, and how many groups."""


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


def mean_difference(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, " states"], anchor: int
) -> Float[np.ndarray, " lanes"]:
    """The same on average."""
    gap = (v - v[:, [anchor]]) - (truth - truth[anchor])
    return np.abs(gap).mean(axis=-1)


def grouped_violations(
    v: Float[np.ndarray, "lanes n"],
    following: Float[np.ndarray, "lanes n"],
    log_reward: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, "lanes groups"], Float[np.ndarray, "lanes groups"]]:
    """1 - E[exp(r/lam + v(s') - v(s))] over groups of transitions that leave states of like value.

    Where a state is seen once, its own equation is one sample of chance; the mean over a group is
    not, and at the solution it is zero for every group, but for the standard error that comes with
    it.
    """
    groups = int(np.clip(v.shape[1] // IN_A_GROUP, 1, MOST_GROUPS))
    gaps, errors = [], []
    for here, there in zip(v, following, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            flow = np.exp(log_reward + there - here)
        parts = np.array_split(flow[np.argsort(here)], groups)
        gaps.append([1 - part.mean() for part in parts])
        errors.append([part.std() / np.sqrt(part.size) for part in parts])
    return np.array(gaps), np.array(errors)


def violations(
    v: Float[np.ndarray, "lanes states"], edges: Edges, lam: float
) -> Float[np.ndarray, "lanes seen"]:
    """Of each state's equation in the data: 1 - E[exp(r/lam + v(s') - v(s))].

    Zero at the fixed point of the data. `exp(-r/lam)` times this is the Collatz-Wielandt quotient
    (Mx)(s)/x(s), so its spread over states is a measure that needs no truth.
    """
    following = np.where(
        edges.terminated, edges.terminal_value / lam, v[:, edges.next_state].astype(np.float64)
    )
    with np.errstate(over="ignore"):
        flow = np.exp(edges.reward / lam + following - v[:, edges.state])
    total = np.bincount(edges.state, edges.count)
    seen = total > 0
    arriving = np.stack([np.bincount(edges.state, edges.count * lane) for lane in flow])
    return 1 - arriving[:, seen] / total[seen]
