"""Potentials of the successor representation, to compare with. Vectors over states, in closed form.

Neither knows of rewards: a costly cell and a free one look alike to the SR.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.exact import successor_eigenvector
from drogo.mdp import MDP


def successor_potential(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Minus the SR's top eigenvector (taken positive): highest at the ends, where walks are over.

    The paper's baseline.
    """
    return -successor_eigenvector(mdp, discount)


def successor_distance(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Minus the squared distance to the nearest end, measured in the SR's top eigenvector.

    How eigenvectors of the SR and the Laplacian were used for shaping before (Wu et al. 2019).
    """
    e = successor_eigenvector(mdp, discount)
    return -((e[:, None] - e[mdp.terminal][None, :]) ** 2).min(axis=1)
