"""Optimal values by value iteration."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy import sparse

from drogo.errors import NumericalError, check_share
from drogo.mdp import MDP

MOST_SWEEPS = 1_000_000
TOLERANCE = 1e-12
EQUAL = 1e-9
"""Actions whose values differ relatively by less are equally good."""


def action_values(
    mdp: MDP, values: Float[np.ndarray, " states"], discount: float
) -> Float[np.ndarray, "states actions"]:
    """Computes one Bellman backup. Terminal rewards are paid on entering, undiscounted."""
    worth = np.where(mdp.terminal, mdp.reward, discount * values)
    return np.stack([mdp.reward + matrix @ worth for matrix in mdp.transitions], axis=1)


def optimal_values(mdp: MDP, discount: float = 1.0) -> Float[np.ndarray, " states"]:
    """Computes the largest expected return from each state, which is 0 in terminal states."""
    discount = check_share("discount", discount)
    values, change = np.zeros(mdp.n_states), np.inf
    for _ in range(MOST_SWEEPS):
        better = np.where(mdp.terminal, 0.0, action_values(mdp, values, discount).max(axis=1))
        change = np.abs(better - values).max()
        values = better
        if change <= TOLERANCE * np.abs(values).max():
            return values
    raise NumericalError(
        f"value iteration still changes a value by {change:.2g} after {MOST_SWEEPS} sweeps. Is "
        "there a state from which no terminal state can be reached?",
        argument="mdp",
    )


def fewest_steps(mdp: MDP) -> Float[np.ndarray, " states"]:
    """Returns the fewest steps of an optimal policy from each state to a terminal state."""
    values = action_values(mdp, optimal_values(mdp), 1.0)
    best = values.max(axis=1, keepdims=True)
    is_best = (values >= best - EQUAL * np.maximum(1, np.abs(best))) & ~mdp.terminal[:, None]
    state, action = np.nonzero(is_best)
    after = mdp.outcomes.next_state[state, action]
    backwards = (after.ravel(), np.repeat(state, after.shape[1]))
    graph = sparse.csr_array((np.ones(after.size), backwards), shape=(mdp.n_states, mdp.n_states))
    terminal = np.flatnonzero(mdp.terminal)
    return sparse.csgraph.dijkstra(graph, indices=terminal, unweighted=True, min_only=True)
