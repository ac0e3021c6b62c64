"""Policies for new terminal rewards, without learning anything again.

From log columns and from default features: the values of all goals add up, each weighted with the
exponential of what it is worth. From successor features: the best of several old policies in each
state (generalised policy improvement).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from drogo.worlds.grid import GridWorld
from drogo_paper.jobs.tasks import Policy

Columns = Float[np.ndarray, "*runs goals states"]
"""`v(s, T)`: the log of the column of one goal T in each state s. It is 0 in T, and minus infinity
in other goals."""


def from_columns(
    world: GridWorld, columns: Columns, log_weight: Float[np.ndarray, "tasks goals"]
) -> Policy:
    """Goes to the neighbour with the largest `v(s) = log sum_T exp(v(s, T) + log_weight(T))`.

    Args:
        world: The world.
        columns: The log columns, exact or learned.
        log_weight: For each task, what each goal is worth divided by lam.
    """
    v = np.asarray(logsumexp(columns[..., None, :, :] + log_weight[:, :, None], axis=-2))
    return v[..., world.next_state].argmax(axis=-1)


def from_default_features(
    table: Float[np.ndarray, "*runs states actions goals"],
    log_weight: Float[np.ndarray, "tasks goals"],
) -> Policy:
    """Takes the action with the largest weighted sum of default features."""
    desirability = table @ np.exp(log_weight).T
    return np.moveaxis(desirability.argmax(axis=-2), -1, -2)


def improved(
    features: Float[np.ndarray, "*runs policies states actions features"],
    weight: Float[np.ndarray, "tasks features"],
) -> Iterator[Policy]:
    """Improves on the first policy, then on the first two, and so on, in every task.

    Args:
        features: The successor features of each policy.
        weight: The reward of each feature in each task.
    """
    best = np.array(-np.inf)
    for one in np.moveaxis(features, -4, 0):
        best = np.maximum(best, one @ weight.T)
        yield np.moveaxis(best.argmax(axis=-2), -1, -2)


def greedy_policy(
    q: Float[np.ndarray, "runs states actions"],
) -> Float[np.ndarray, "runs states actions"]:
    """Returns the probability of each action of a policy that chooses among the best at random."""
    best = q == q.max(axis=-1, keepdims=True)
    return best / best.sum(axis=-1, keepdims=True)
