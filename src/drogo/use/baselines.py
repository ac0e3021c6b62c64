"""Potentials from the successor representation (SR), which knows nothing of rewards: baselines."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.exact import successor_eigenvector
from drogo.mdp import MDP


def successor_potential(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Computes the paper's baseline: minus the positive top eigenvector of the SR.

    Args:
        mdp: The MDP.
        discount: The discount of the SR.

    Returns:
        A vector over states, highest at the terminal states.
    """
    return -successor_eigenvector(mdp, discount)


def successor_distance(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Computes minus the squared distance to the nearest terminal state in the SR's eigenvector.

    This is how eigenvectors of the SR and the Laplacian were used before (Wu et al. 2019).

    Args:
        mdp: The MDP.
        discount: The discount of the SR.

    Returns:
        A vector over states, 0 at the terminal states.
    """
    e = successor_eigenvector(mdp, discount)
    return -((e[:, None] - e[mdp.terminal][None, :]) ** 2).min(axis=1)
