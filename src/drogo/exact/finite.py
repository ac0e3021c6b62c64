"""Checks that the desirability is finite, by the spectral radius of `diag(exp(r/lam)) P`.

If every reward is negative, each step of an episode lowers its desirability, and the sum over all
episodes is finite. Otherwise, a cycle may gain more than it loses. The sum is finite if and only if
the spectral radius over the non-terminal states is below 1.
"""

from __future__ import annotations

import numpy as np

from drogo.errors import MDPError, check_positive
from drogo.exact.growth import WeightedEdges, edges_of, log_radius, radius_bounds
from drogo.mdp import MDP, check_mdp

ROUNDING = 1e-12
"""A log of the spectral radius above minus this number counts as 0."""
REMEDY = (
    "Lower all rewards by a constant until the spectral radius is below 1, or use a larger lam "
    "where rewards are negative on average."
)


def spectral_radius(mdp: MDP, lam: float) -> float:
    """Computes the spectral radius of `diag(exp(r/lam)) P` over the non-terminal states.

    The column of the default representation is finite if and only if it is below 1, which it always
    is if rewards are negative.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.

    Returns:
        The largest eigenvalue in absolute value; 0 if no state can be visited twice, and infinity
        if it is beyond the range of a float.

    Raises:
        NotConverged: It could not be computed.
    """
    edges = edges_of(check_mdp(mdp), check_positive("lam", lam))
    with np.errstate(over="ignore"):
        return float(np.exp(log_radius(edges, ~mdp.terminal)))


def check_has_terminal(mdp: MDP) -> None:
    """Raises an error if an MDP has no terminal state."""
    if not mdp.terminal.any():
        problem = "this MDP has no terminal state, which would fix the level of the vector."
        raise MDPError(problem, remedy="Use exact.perron for a continuing task.", argument="mdp")


def check_finite(mdp: MDP, lam: float) -> None:
    """Raises an error if the sum over all episodes is not finite."""
    if (mdp.reward[~mdp.terminal] < 0).all():
        return
    problem = infinite(edges_of(mdp, lam), ~mdp.terminal, lam)
    if problem:
        raise MDPError(problem, remedy=REMEDY, argument="mdp")


def infinite(edges: WeightedEdges, kept: np.ndarray, lam: float) -> str:
    """Returns the reason why the vector over some non-terminal states is not finite, or an empty
    string if it is. `lam` is for the message."""
    low, high = radius_bounds(edges, kept)
    if high < 0:
        return ""
    radius = "the spectral radius of diag(exp(r/lam)) P over the non-terminal states"
    if low < -ROUNDING:
        return (
            f"it is undecided whether the vector is finite at lam = {lam:g}: the log of {radius} "
            f"must be below 0, and lies between {low:.6g} and {high:.6g}."
        )
    size = f"{np.exp(high):.6g}" if high < 700 else f"e^{high:.6g}"
    return (
        f"the vector is infinite at lam = {lam:g}, because a cycle gains more than it loses: "
        f"{radius} is {size}, and it must be below 1."
    )
