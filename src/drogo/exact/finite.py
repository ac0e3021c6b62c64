"""Whether the desirability is finite: the spectral radius of `diag(exp(r/lam)) P`, where it ends.

If every reward is negative, each step of an episode makes it less desirable, and the sum over all
episodes is finite. Where some rewards are not, an agent may go round in circles and gain by it. The
sum is finite if and only if the spectral radius over the non-terminal states is below 1; and then
the column is computed like any other.
"""

from __future__ import annotations

import numpy as np

from drogo.errors import MDPError, check_positive
from drogo.exact.growth import Steps, log_radius, radius_bounds, steps_of
from drogo.mdp import MDP

ROUNDING = 1e-12
"""A log of the spectral radius that is less below 0 is 0, as far as rounding tells."""


def spectral_radius(mdp: MDP, lam: float) -> float:
    """Computes the spectral radius of `diag(exp(r/lam)) P` over the non-terminal states.

    The column of the default representation is finite if and only if it is below 1, which it always
    is if rewards are negative.

    Args:
        mdp: The MDP.
        lam: The temperature lambda, positive.

    Returns:
        The largest eigenvalue in absolute value; 0 if no state can be come back to, and infinity
        if it is beyond the range of a float.

    Raises:
        NotConverged: It could not be computed.
    """
    with np.errstate(over="ignore"):
        return float(np.exp(log_radius(steps_of(mdp, check_positive("lam", lam)), ~mdp.terminal)))


def check_ends(mdp: MDP) -> None:
    """Raises an error if no state of an MDP is terminal.

    Args:
        mdp: The MDP.
    """
    if not mdp.terminal.any():
        raise MDPError(
            "this task never ends: it has no terminal state in which the vector is known.",
            remedy="exact.perron holds it in place in a reference state instead, and also says "
            "what a step is worth.",
        )


def check_finite(mdp: MDP, lam: float) -> None:
    """Raises an error if the sum over all episodes is not finite.

    Args:
        mdp: The MDP.
        lam: The temperature.
    """
    if (mdp.reward[~mdp.terminal] < 0).all():
        return
    problem = infinite(steps_of(mdp, lam), ~mdp.terminal, lam)
    if problem:
        raise MDPError(problem, remedy=REMEDY)


REMEDY = (
    "Lower all rewards by a constant until the spectral radius is below 1, or use a larger lam "
    "where rewards are negative on average."
)


def infinite(steps: Steps, kept: np.ndarray, lam: float) -> str:
    """Returns why the vector of a task does not exist, or nothing if it does.

    Args:
        steps: The steps.
        kept: The non-terminal states.
        lam: The temperature, for the message.
    """
    low, high = radius_bounds(steps, kept)
    if high < 0:
        return ""
    if low < -ROUNDING:
        return (
            f"whether the vector is finite at lam = {lam:g} cannot be told: the log of the "
            "spectral radius of diag(exp(r/lam)) P over the non-terminal states must be below 0, "
            "and lies "
            f"between {low:.6g} and {high:.6g}."
        )
    size = f"{np.exp(high):.6g}" if high < 700 else f"e^{high:.6g}"
    return (
        f"the vector is infinite at lam = {lam:g}: going round in circles gains more than ending. "
        f"The spectral radius of diag(exp(r/lam)) P over the non-terminal states is {size}, and it "
        "must be below 1."
    )
