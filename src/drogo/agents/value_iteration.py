"""The best that can be had: optimal values by value iteration."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError, NumericalError
from drogo.mdp import MDP

MOST_SWEEPS = 1_000_000
TOLERANCE = 1e-12


class NoOptimum(NumericalError):
    """Value iteration did not settle."""


def action_values(
    mdp: MDP, values: Float[np.ndarray, " states"], discount: float
) -> Float[np.ndarray, "states actions"]:
    """One Bellman backup. An end is worth what entering it pays, and not discounted: it is paid
    on the step that leads there."""
    worth = np.where(mdp.terminal, mdp.reward, discount * values)
    return np.stack([mdp.reward + matrix @ worth for matrix in mdp.transitions], axis=1)


def optimal_values(mdp: MDP, discount: float = 1.0) -> Float[np.ndarray, " states"]:
    """Largest expected return from each state to an end; 0 in an end, where all is paid.

    `discount=1` gives the undiscounted returns that learning curves are measured by.
    """
    if not 0 <= discount <= 1:
        raise ArgumentError(f"discount is {discount}; it must lie in [0, 1].")
    values, change = np.zeros(mdp.n_states), np.inf
    for _ in range(MOST_SWEEPS):
        better = np.where(mdp.terminal, 0.0, action_values(mdp, values, discount).max(axis=1))
        change = np.abs(better - values).max()
        values = better
        if change <= TOLERANCE * np.abs(values).max():
            return values
    raise NoOptimum(f"value iteration still moved by {change:.2g} after {MOST_SWEEPS} sweeps.")
