"""The best way through a world whose moves are a table, for many lanes at once.

Policies are improved in turns. A policy in a table leads along one path from each state, so that it
is evaluated exactly by doubling: the sum of 2, 4, 8, ... steps is that of half as many, and of as
many again from where they led.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.errors import NumericalError

MOST_ROUNDS = 10_000
NEGLIGIBLE = 1e-18
"""What is discounted by more than this is left out."""

ByAction = Float[np.ndarray, "actions lanes states"]
OfStates = Float[np.ndarray, "lanes states"]


def sum_along(
    after: Int[np.ndarray, "lanes states"], gain: OfStates, discount: float, doublings: int
) -> tuple[OfStates, Int[np.ndarray, "lanes states"]]:
    """Returns the discounted sum of gains over `2 ** doublings` steps, and where they lead.

    Args:
        after: The state after each state.
        gain: What the step from each state gains.
        discount: The discount.
        doublings: How often the number of steps is doubled.
    """
    lanes, states = after.shape
    # One index into all lanes is faster than a pair.
    reached = after + states * np.arange(lanes)[:, None]
    total, worth = gain.copy(), discount
    for _ in range(doublings):
        total += worth * total.ravel()[reached]
        reached = reached.ravel()[reached]
        worth *= worth
    return total, reached - states * np.arange(lanes)[:, None]


def best_values(
    next_state: Int[np.ndarray, "states actions"],
    gain: ByAction,
    goes_on: Bool[np.ndarray, "actions lanes states"],
    *,
    discount: float,
    tolerance: float,
    may_end: bool = False,
) -> ByAction:
    """Returns the best discounted sum of gains that each action leads to.

    Args:
        next_state: The state that each action leads to.
        gain: What each action gains.
        goes_on: Whether it goes on after an action. Where it does not, its gain is all there is.
        discount: The discount, less than 1.
        tolerance: The values of states satisfy their equation up to this.
        may_end: Whether it may end everywhere, which is worth 0.

    Raises:
        NumericalError: No policy was the best within the tolerance, which is too small.
    """
    actions, lanes, states = gain.shape
    doublings = 0
    if discount > 0:
        doublings = math.ceil(math.log2(max(math.log(NEGLIGIBLE) / math.log(discount), 1)))
    stay = np.broadcast_to(np.arange(states), (lanes, states))
    value, change = np.zeros((lanes, states)), np.inf
    weight = np.where(goes_on, discount, 0.0)
    for _ in range(MOST_ROUNDS):
        q = np.stack([gain[a] + weight[a] * value[:, next_state[:, a]] for a in range(actions)])
        choice = np.zeros((lanes, states), dtype=np.int64)
        best = q[0].copy()
        for a in range(1, actions):
            better = q[a] > best
            choice[better], best[better] = a, q[a][better]
        ends = best < 0 if may_end else np.zeros((lanes, states), dtype=bool)
        change = float(np.abs(np.where(ends, 0.0, best) - value).max())
        if change <= tolerance:
            return q
        pick = (choice, np.arange(lanes)[:, None], np.arange(states))
        # What ends stays where it is, and what it gains there must not count again.
        value, over = np.where(ends, 0.0, gain[pick]), ends | ~goes_on[pick]
        after = np.where(over, stay, next_state[np.arange(states), choice])
        moving = np.where(over, 0.0, value)
        last = np.where(over, value, 0.0)
        value = _evaluate(after, moving, last, over, discount, doublings)
    raise NumericalError(
        f"the values of the best of all policies still changed by {change:.2g} after {MOST_ROUNDS} "
        "of them."
    )


def _evaluate(
    after: np.ndarray,
    moving: np.ndarray,
    last: np.ndarray,
    over: np.ndarray,
    discount: float,
    doublings: int,
) -> OfStates:
    """Returns the sum along a policy: what moves gain, and what it gains where it ends, once."""
    # In a state that ends, a gain of (1 - discount) times its last one, for ever, is its last one.
    gain = np.where(over, (1 - discount) * last, moving)
    total, _ = sum_along(after, gain, discount, doublings)
    return np.where(over, last, total)
