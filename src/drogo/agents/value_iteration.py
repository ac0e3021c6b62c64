"""Optimal values by value iteration."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.errors import NumericalError, check_share
from drogo.mdp import MDP

MOST_SWEEPS = 1_000_000
TOLERANCE = 1e-12


def action_values(
    mdp: MDP, values: Float[np.ndarray, " states"], discount: float
) -> Float[np.ndarray, "states actions"]:
    """Do one Bellman backup. A terminal state's own reward is paid on entering, undiscounted."""
    worth = np.where(mdp.terminal, mdp.reward, discount * values)
    return np.stack([mdp.reward + matrix @ worth for matrix in mdp.transitions], axis=1)


def optimal_values(mdp: MDP, discount: float = 1.0) -> Float[np.ndarray, " states"]:
    """Computes the largest expected return from each state.

    Args:
        mdp: The MDP.
        discount: The discount; 1 gives the undiscounted returns of learning curves.

    Returns:
        The return from each state, which is 0 in terminal states.
    """
    discount = check_share("discount", discount)
    values, change = np.zeros(mdp.n_states), np.inf
    for _ in range(MOST_SWEEPS):
        better = np.where(mdp.terminal, 0.0, action_values(mdp, values, discount).max(axis=1))
        change = np.abs(better - values).max()
        values = better
        if change <= TOLERANCE * np.abs(values).max():
            return values
    raise NumericalError(
        f"value iteration still changed a value by {change:.2g} after {MOST_SWEEPS} sweeps. Is "
        "there a state from which no terminal state can be reached?"
    )
