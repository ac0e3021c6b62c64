"""The whole matrices, for worlds small enough to print."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError
from drogo.exact.log_solve import factorise
from drogo.exact.rows import Rows, default_rows, successor_rows
from drogo.mdp import MDP

MOST_STATES = 5000


def default_representation(
    mdp: MDP, lam: float, *, delta: float = 0.001, terminal: str = "absorbing"
) -> Float[np.ndarray, "states states"]:
    """`Z = (R - P)^-1`, every entry by positive arithmetic. Entries below 1e-308 come out as 0."""
    return _inverse(default_rows(mdp, lam, terminal, delta))


def successor_representation(
    mdp: MDP, discount: float = 0.99
) -> Float[np.ndarray, "states states"]:
    """`SR = (I - discount P)^-1`, terminal rows of `P` zero."""
    return _inverse(successor_rows(mdp, discount))


def _inverse(rows: Rows) -> Float[np.ndarray, "states states"]:
    if rows.n > MOST_STATES:
        raise ArgumentError(
            f"a dense matrix over {rows.n} states is refused (more than {MOST_STATES}). "
            "exact.log_column and exact.log_eigenvector need no matrix."
        )
    factor = factorise(rows, np.zeros(rows.n, dtype=bool), np.zeros(rows.n))
    # Rows were multiplied by exp(r/lam); so is the identity on the right.
    return factor.lu.solve(np.diag(np.exp(rows.log_scale)))
