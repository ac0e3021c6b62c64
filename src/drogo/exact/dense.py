"""The whole matrices, for worlds that are small enough."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError
from drogo.exact.log_solve import factorise
from drogo.exact.rows import Rows, check_parameters, default_rows, successor_rows
from drogo.mdp import MDP

MAX_STATES = 5000


def default_representation(
    mdp: MDP, lam: float, *, delta: float = 0.001, terminal: str = "absorbing"
) -> Float[np.ndarray, "states states"]:
    """Computes the default representation `Z = (R - P)^-1`, every entry by positive arithmetic.

    Args:
        mdp: The MDP, of at most 5,000 states.
        lam: The temperature lambda, positive.
        delta: Minus the reward of an absorbing terminal state, positive.
        terminal: How terminal states enter the representation: `"absorbing"` or `"zero-row"`.

    Returns:
        The matrix. Entries below 1e-308 are 0.
    """
    lam, delta = check_parameters(lam, terminal, delta)
    return _inverse(default_rows(mdp, lam, terminal, delta))


def successor_representation(
    mdp: MDP, discount: float = 0.99
) -> Float[np.ndarray, "states states"]:
    """Computes the successor representation `SR = (I - discount P)^-1`.

    Args:
        mdp: The MDP, of at most 5,000 states. Terminal rows of its `P` are zero.
        discount: The discount factor, between 0 and 1.

    Returns:
        The matrix.
    """
    return _inverse(successor_rows(mdp, discount))


def _inverse(rows: Rows) -> Float[np.ndarray, "states states"]:
    if rows.n > MAX_STATES:
        raise ArgumentError(
            f"a dense matrix over {rows.n} states is refused (more than {MAX_STATES}). "
            "Use exact.log_column or exact.log_eigenvector, which need no matrix."
        )
    factor = factorise(rows, np.zeros(rows.n, dtype=bool), np.zeros(rows.n))
    # Rows were multiplied by exp(r/lam), so the identity on the right is multiplied too.
    return factor.lu.solve(np.diag(np.exp(rows.log_scale)))
