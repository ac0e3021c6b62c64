"""Completes the columns of steps that were recorded elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool

from drogo.data import arrays
from drogo.data.step import Key, NumberOfStep, Step, StepNumbers, as_key
from drogo.errors import ArgumentError, DataError

ROUNDING = 1e-4
"""The distance that a vector may lie outside its space, as a share of the space's width."""


class RecordedOptions(TypedDict, total=False):
    """Options of `Transitions.from_replay_buffer`, `from_trajectories` and `from_minari`."""

    reward: NumberOfStep
    """Replaces the recorded rewards: a step cost, or a function of a `Step`, whose `info` is empty
    because it was not recorded."""
    terminal_reward: NumberOfStep
    """The value of terminal states in units of reward: a number, or a function of the last `Step`
    of an episode. By default 0. It is not part of a reward."""
    behaviour: Callable[[Step], float] | None
    """Returns the probability (of a vector: the density) with which the action of a `Step` was
    taken, if that is known."""
    key: str | Sequence[str] | None
    """The part of a `Dict` observation to keep, or several that are joined, as in `collect`."""


def read_options(function: str, options: RecordedOptions) -> tuple[Key, StepNumbers]:
    """Returns the options of a function, whose names must be known."""
    arrays.check_names(function, options, tuple(RecordedOptions.__annotations__))
    numbers = StepNumbers(*(options.get(name) for name in StepNumbers._fields))
    return as_key(options.get("key")), numbers.checked()


def complete(
    columns: dict[str, Any], action_space: gymnasium.Space | None, numbers: StepNumbers
) -> dict[str, Any]:
    """Returns the arguments of `Transitions.from_table` for recorded steps.

    Args:
        columns: The table `observations`, the columns `state`, `next_state`, `terminated` and
            `truncated`, and, where they were recorded, `reward`, `terminal_reward`, `behaviour` and
            `action`, which is in the numbers of its space.
        action_space: A `Discrete` or a `Box`. Without it, whole numbers count from 0.
        numbers: Replace the recorded numbers.
    """
    if numbers.reward is None and "reward" not in columns:
        remedy = "Give a step cost: reward=-1.0."
        raise DataError("no rewards were recorded.", remedy=remedy, argument="reward")
    if numbers.behaviour is not None and "action" not in columns:
        problem = "behaviour is given, but no actions were recorded."
        raise ArgumentError(problem, argument="behaviour")
    terminated, value = columns["terminated"], numbers.terminal_reward
    if callable(value):
        value = _each(columns, value, terminated)
    values = columns.get("terminal_reward", 0.0) if value is None else value
    completed = {**columns, "terminal_reward": np.where(terminated, values, 0.0)}
    for name, given in (("reward", numbers.reward), ("behaviour", numbers.behaviour)):
        if given is not None:
            completed[name] = _each(columns, given) if callable(given) else given
    if "action" in columns:
        completed |= action_columns(columns["action"], action_space)
    return completed


def _each(
    columns: dict[str, Any],
    function: Callable[[Step], float],
    only: Bool[np.ndarray, " n"] | None = None,
) -> np.ndarray:
    """Returns the number that a function returns for each step, or for some of them and else 0."""
    numbers, nothing = np.zeros(len(columns["state"])), np.full(len(columns["state"]), np.nan)
    table, rewards = columns["observations"], columns.get("reward", nothing)
    for k in range(numbers.size) if only is None else np.flatnonzero(only).tolist():
        before, after = table[columns["state"][k]], table[columns["next_state"][k]]
        action = columns["action"][k] if "action" in columns else None
        over, cut = bool(columns["terminated"][k]), bool(columns["truncated"][k])
        numbers[k] = function(Step(before, action, float(rewards[k]), after, over, cut, {}))
    return numbers


def action_columns(taken: npt.ArrayLike, space: gymnasium.Space | None) -> dict[str, Any]:
    """Returns `action`, counted from 0, and as far as the space tells `n_actions` and `default`,
    the probability or density of each action under the uniform policy.

    Args:
        taken: The actions, one row for each transition, in the numbers of the space.
        space: As in `complete`.
    """
    action = arrays.plain("action", taken)
    n, kind = len(action), f"has shape {action.shape} and type {action.dtype}; {space} needs"
    if space is None:
        return {"action": action if action.ndim == 1 else action.reshape(n, -1)}
    if isinstance(space, gymnasium.spaces.Discrete):
        if action.ndim != 1 or action.dtype.kind not in "iu":
            raise arrays.wrong("action", f"{kind} one whole number for each transition.")
        first, count = int(space.start), int(space.n)
        _refuse_outside((action < first) | (action >= first + count), action, space)
        default = np.full(n, 1 / count)
        return {"action": action.astype(np.int64) - first, "n_actions": count, "default": default}
    if not isinstance(space, gymnasium.spaces.Box):
        raise DataError(
            f"the actions are a {space}, and only Discrete and Box are supported.",
            remedy="Number the actions (numpy.ravel_multi_index does it for MultiDiscrete) and "
            "give them to Transitions.from_arrays.",
            argument="action",
        )
    if action.shape[1:] != space.shape:
        raise arrays.wrong("action", f"{kind} one array of shape {space.shape} for each.")
    width = np.where(space.bounded_below & space.bounded_above, space.high - space.low, 1.0)
    low, high = space.low - ROUNDING * width, space.high + ROUNDING * width
    inside = ((action >= low) & (action <= high)).reshape(n, -1)
    _refuse_outside(np.logical_not(inside.all(axis=1)), action, space)
    default = {"default": np.full(n, 1 / volume(space))} if space.is_bounded() else {}
    return {"action": action.reshape(n, -1), **default}


def volume(space: gymnasium.spaces.Box) -> float:
    """Returns the volume of a bounded space. Dimensions of width 0 do not count."""
    width = space.high.astype(np.float64) - space.low.astype(np.float64)
    return float(np.where(width > 0, width, 1.0).prod())


def _refuse_outside(outside: np.ndarray, action: np.ndarray, space: gymnasium.Space) -> None:
    if outside.any():
        at = int(outside.argmax())
        raise arrays.wrong(
            "action",
            f"of transition {at} is {action[at]}, which is not in {space}.",
            "If the environment clips or wraps its actions, do the same to these first.",
        )
