"""Options that climb a vector over states, such as an eigenvector or a learned map.

`solve_option` solves the option's own problem exactly: a step from s to s' is worth `e(s') - e(s)`,
discounted, and the option ends where nothing more can be gained. It crosses a valley if what is
behind it is worth the way. `climb` follows the steepest ascent, and ends on the first summit.

Where an option may always end, its problem is one of stopping. Value iteration that begins with
stopping at once gives the best of all ways of one step, of two, and so on. If moves are
deterministic no way that is longer than there are states is better, so it ends, with the exact
values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from drogo.data.arrays import as_type
from drogo.data.table import row_bytes
from drogo.errors import ArgumentError, NumericalError, check_choice, check_number
from drogo.learn import LogEigenvector
from drogo.mdp import MDP, HasMDP
from drogo.potential import Function, Potential
from drogo.use.options.option import Option
from drogo.use.options.policies import best_values

METHODS = ("solve", "climb")
MOST_SWEEPS = 100_000
SETTLED = 1e-10
"""Value iteration ends when no value changes by more, relative to the range of the vector."""
GAIN = 1e-6
"""An option goes on only for a gain of more, relative to the range of the vector: with less,
rounding could lead it in circles."""

Vector = Float[np.ndarray, "*lanes states"]
Moves = MDP | Int[np.ndarray, "states actions"]
"""A world: an MDP, or the state that each action leads to."""
Tried = Bool[np.ndarray, "*lanes states actions"]


@dataclass(frozen=True, eq=False)
class TabularOption:
    """An option by state, or one for each of several lanes.

    Args:
        action: What it does. Where it ends this is not used.
        ends: Where it ends. It begins everywhere else.
        value: What it gains from each state: the discounted sum of `e(s') - e(s)`.
    """

    action: Int[np.ndarray, "*lanes states"]
    ends: Bool[np.ndarray, "*lanes states"]
    value: Vector

    def on(self, observations: Shaped[np.ndarray, "states ..."], name: str = "option") -> Option:
        """Returns it as an option of observations, which are recognised bit for bit.

        Args:
            observations: The observation of each state.
            name: What it is called in messages.
        """
        table = np.asarray(observations)
        if self.action.shape != (len(table),):
            raise ArgumentError(
                f"{len(table)} observations do not fit an option of shape {self.action.shape}."
            )
        keys = row_bytes(table).tolist()
        known = dict(zip(keys, zip(self.action.tolist(), self.ends.tolist(), strict=True),
                         strict=True))  # fmt: skip
        if len(known) < len(keys):
            raise ArgumentError("two states have the same observation, so no option can tell them.")

        def at(observation: Any) -> tuple[int, bool]:
            array = as_type(name, np.asarray(observation), table.dtype)
            found = known.get(array.tobytes())
            if found is None or array.shape != table.shape[1:]:
                raise ArgumentError(
                    f"{name} knows {len(known)} states, and {array!r} is none of them. It was made "
                    "for another environment, or for another kind of observation."
                )
            return found

        return Option(
            policy=lambda observation: at(observation)[0],
            begins=lambda observation: not at(observation)[1],
            ends=lambda observation: at(observation)[1],
            name=name,
        )


def solve_option(
    moves: Moves,
    values: Vector,
    *,
    discount: float = 0.99,
    tried: Tried | None = None,
    may_end: bool = True,
) -> TabularOption:
    """Solves the problem of an option that climbs a vector.

    Args:
        moves: The MDP, or the state that each action leads to in each state.
        values: The vector e, or one for each lane.
        discount: The discount of the option's own problem.
        tried: Which actions may be taken, by default all. The others count as worth 0.
        may_end: Whether ending is worth 0 everywhere in the option's problem. With False, as
            published, it goes on for ever in it, and ends where that gains nothing.

    Returns:
        The option. It ends in terminal states, and where nothing can be gained.

    Raises:
        NumericalError: Value iteration did not settle.
    """
    if not 0 <= check_number("discount", discount) < 1:
        raise ArgumentError(f"discount is {discount}; it must be at least 0 and less than 1.")
    follow, allowed = _dynamics(moves, values)
    allowed = allowed if tried is None else allowed & tried
    gain = np.where(allowed, follow(values) - values[..., None], 0.0)
    scale = float(np.ptp(values)) or 1.0
    if not isinstance(moves, MDP):
        shape = (-1, *gain.shape[-2:])
        by_action = np.ascontiguousarray(np.moveaxis(gain.reshape(shape), -1, 0))
        goes_on = np.broadcast_to(allowed, gain.shape).reshape(shape)
        q = best_values(
            moves, by_action, np.ascontiguousarray(np.moveaxis(goes_on, -1, 0)), discount=discount,
            tolerance=SETTLED * scale * (1 - discount), may_end=may_end,
        )  # fmt: skip
        best, choice = q.max(axis=0).reshape(values.shape), q.argmax(axis=0).reshape(values.shape)
        value = np.maximum(best, 0.0) if may_end else best
        return TabularOption(choice, value <= GAIN * scale, value)
    value, q, change = np.zeros(values.shape), gain, np.inf
    for _ in range(MOST_SWEEPS):
        q = np.where(allowed, gain + discount * follow(value), 0.0)
        better = q.max(axis=-1)
        better = np.maximum(better, 0.0) if may_end else better
        change = float(np.abs(better - value).max())
        value = better
        if change <= SETTLED * scale * (1 - discount):
            break
    else:
        raise NumericalError(
            f"the values of an option still changed by {change:.2g} after {MOST_SWEEPS} sweeps: "
            f"a discount of {discount} is too close to 1."
        )
    return TabularOption(q.argmax(axis=-1), value <= GAIN * scale, value)


def climb(moves: Moves, values: Vector) -> TabularOption:
    """Follows the steepest ascent of a vector, in the mean if moves are random.

    Args:
        moves: The MDP, or the state that each action leads to in each state.
        values: The vector, or one for each lane.

    Returns:
        The option. It ends in terminal states, and where no action leads upwards.
    """
    follow, allowed = _dynamics(moves, values)
    gain = np.where(allowed, follow(values) - values[..., None], -np.inf)
    best = gain.max(axis=-1)
    ends = ~(best > GAIN * (float(np.ptp(values)) or 1.0))
    return TabularOption(gain.argmax(axis=-1), ends, np.where(ends, 0.0, best))


def make_option(
    world: HasMDP,
    potential: Potential | LogEigenvector | Function | Float[np.ndarray, " states"],
    *,
    method: str = "solve",
    discount: float = 0.99,
    name: str = "option",
) -> Option:
    """Makes an option from anything that gives states a value.

    Args:
        world: An environment that knows its MDP, such as `gymnasium.make("drogo/FourRooms-v0")
            .unwrapped`.
        potential: A vector over its states, a `Potential`, a fit, or a function of a batch of
            observations.
        method: "solve" (`solve_option`) or "climb".
        discount: The discount of the option's own problem, for "solve".
        name: What it is called in messages.

    Returns:
        The option.
    """
    check_choice("method", method, METHODS)
    observations = world.all_observations()
    if isinstance(potential, np.ndarray):
        values = potential
    else:
        given = potential.potential() if isinstance(potential, LogEigenvector) else potential
        values = np.asarray(given(observations), dtype=np.float64)
    if values.shape != (world.mdp.n_states,) or not np.isfinite(values).all():
        raise ArgumentError(
            f"the potential has the shape {values.shape} over {world.mdp.n_states} states, or is "
            "not finite everywhere; an option needs one finite number for each state."
        )
    mdp = world.mdp
    made = solve_option(mdp, values, discount=discount) if method == "solve" else climb(mdp, values)
    return made.on(observations, name)


def _dynamics(
    moves: Moves, values: Vector
) -> tuple[Callable[[Vector], Float[np.ndarray, "*lanes states actions"]], np.ndarray]:
    """Returns the mean of a vector after each action, and which actions there are."""
    states = moves.n_states if isinstance(moves, MDP) else len(moves)
    if values.shape[-1] != states or not np.isfinite(values).all():
        raise ArgumentError(
            f"values of shape {values.shape} do not give each of {states} states a finite number."
        )
    if isinstance(moves, MDP):
        matrices = moves.transitions
        allowed = np.repeat(~moves.terminal[:, None], moves.n_actions, axis=1)
        return lambda v: np.stack([(p @ v.T).T for p in matrices], axis=-1), allowed
    return lambda v: v[..., moves], np.ones(moves.shape, dtype=bool)
