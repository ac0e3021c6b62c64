"""Options that climb a vector e over the states of a world whose moves are a table: a step is worth
`e(s') - e(s)`, discounted, and the option ends where nothing can be gained. Policy iteration solves
them exactly, since a deterministic policy leads along one path, which is summed by doubling."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError, NumericalError, check_number

MOST_ROUNDS = 10_000
NEGLIGIBLE = 1e-18
"""Later rewards, with a smaller total discount, are left out."""
TOLERANCE = 1e-10
"""Policy iteration stops when no value changes by more, relative to the range of the vector."""
GAIN = 1e-6
"""An option continues only for a larger relative gain, so that rounding leads it in no circles."""

Vector = Float[np.ndarray, "*runs states"]
ByAction = Float[np.ndarray, "actions runs states"]
OfStates = Float[np.ndarray, "runs states"]


@dataclass(frozen=True, eq=False)
class TabularOption:
    """An option by state, or one for each of several runs. It may begin where it does not end."""

    action: Int[np.ndarray, "*runs states"]
    ends: Bool[np.ndarray, "*runs states"]
    value: Vector


def solve_option(
    moves: Int[np.ndarray, "states actions"],
    values: Vector,
    *,
    discount: float = 0.99,
    tried: Bool[np.ndarray, "*runs states actions"] | None = None,
    may_end: bool = True,
) -> TabularOption:
    """Solves the problem of options that climb vectors, one for each run, among tried actions. With
    `may_end`, stopping is worth 0 everywhere. Without, as published, it continues for ever."""
    if not 0 <= check_number("discount", discount) < 1:
        raise ArgumentError(
            f"discount is {discount}; it must be at least 0 and less than 1.", argument="discount"
        )
    if values.shape[-1] != len(moves) or not np.isfinite(values).all():
        raise ArgumentError(
            f"values {values.shape} must have a finite number for each of {len(moves)} states.",
            argument="values",
        )
    allowed = np.ones(moves.shape, dtype=bool) if tried is None else tried
    gain = np.where(allowed, values[..., moves] - values[..., None], 0.0)
    scale = float(np.ptp(values)) or 1.0
    shape = (-1, *gain.shape[-2:])
    by_action, goes_on = (
        np.ascontiguousarray(np.moveaxis(np.broadcast_to(part, gain.shape).reshape(shape), -1, 0))
        for part in (gain, allowed)
    )
    tolerance = TOLERANCE * scale * (1 - discount)
    options = {"discount": discount, "tolerance": tolerance, "may_end": may_end}
    q = best_values(moves, by_action, goes_on, **options)
    best, choice = q.max(axis=0).reshape(values.shape), q.argmax(axis=0).reshape(values.shape)
    value = np.maximum(best, 0.0) if may_end else best
    return TabularOption(choice, value <= GAIN * scale, value)


def sum_along(
    after: Int[np.ndarray, "runs states"], gain: OfStates, discount: float, doublings: int
) -> tuple[OfStates, Int[np.ndarray, "runs states"]]:
    """Returns the discounted sum of gains over `2 ** doublings` steps, and where they lead."""
    runs, states = after.shape
    # One index into all runs is faster than a pair.
    reached = after + states * np.arange(runs)[:, None]
    total, worth = gain.copy(), discount
    for _ in range(doublings):
        total += worth * total.ravel()[reached]
        reached = reached.ravel()[reached]
        worth *= worth
    return total, reached - states * np.arange(runs)[:, None]


def best_values(
    next_state: Int[np.ndarray, "states actions"],
    gain: ByAction,
    goes_on: Bool[np.ndarray, "actions runs states"],
    *,
    discount: float,
    tolerance: float,
    may_end: bool = False,
) -> ByAction:
    """Returns the best discounted sum of gains that each action leads to. An episode may be over
    after an action, or be stopped everywhere, for 0."""
    actions, runs, states = gain.shape
    doublings = 0
    if discount > 0:
        doublings = math.ceil(math.log2(max(math.log(NEGLIGIBLE) / math.log(discount), 1)))
    stay = np.broadcast_to(np.arange(states), (runs, states))
    value, change = np.zeros((runs, states)), np.inf
    weight = np.where(goes_on, discount, 0.0)
    for _ in range(MOST_ROUNDS):
        q = np.stack([gain[a] + weight[a] * value[:, next_state[:, a]] for a in range(actions)])
        choice = np.zeros((runs, states), dtype=np.int64)
        best = q[0].copy()
        for a in range(1, actions):
            better = q[a] > best
            choice[better], best[better] = a, q[a][better]
        ends = best < 0 if may_end else np.zeros((runs, states), dtype=bool)
        change = float(np.abs(np.where(ends, 0.0, best) - value).max())
        if change <= tolerance:
            return q
        pick = (choice, np.arange(runs)[:, None], np.arange(states))
        # A run that ends stays where it is, and its last gain must count once.
        value, over = np.where(ends, 0.0, gain[pick]), ends | ~goes_on[pick]
        after = np.where(over, stay, next_state[np.arange(states), choice])
        # For ever, a gain of (1 - discount) times the last one adds up to the last one.
        total, _ = sum_along(
            after, np.where(over, (1 - discount) * value, value), discount, doublings
        )
        value = np.where(over, value, total)
    problem = f"values still change by {change:.2g} after {MOST_ROUNDS} rounds of policy iteration."
    raise NumericalError(problem, argument="tolerance")
