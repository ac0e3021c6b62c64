"""Actions that somebody else recorded: they must lie in their space."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from drogo.data import arrays
from drogo.errors import DataError

ROUNDING = 1e-4
"""How far a vector may lie outside its space, as a share of the space's width."""


def in_space(taken: npt.ArrayLike, space: gymnasium.Space | None) -> dict[str, Any]:
    """Returns what `Transitions.from_table` is told of recorded actions.

    Args:
        taken: The actions, one row for each transition, in the numbers of the space.
        space: The actions that there are: a `Discrete` or a `Box`. Where it is not known, whole
            numbers count from 0.

    Returns:
        `action` (counted from 0), and, as far as the space tells, `n_actions` and `default`: the
        probability or density with which the uniform policy takes each.

    Raises:
        DataError: An action lies outside the space, or the space is of another kind.
    """
    action = arrays.plain("action", taken)
    if space is None:
        return {"action": action if action.ndim == 1 else action.reshape(len(action), -1)}
    if isinstance(space, gymnasium.spaces.Discrete):
        return _numbered(action, space)
    if isinstance(space, gymnasium.spaces.Box):
        return _vectors(action, space)
    raise DataError(
        f"the actions are a {space}, and only Discrete and Box are known.",
        remedy="Number the actions (numpy.ravel_multi_index does it for MultiDiscrete) and give "
        "them to Transitions.from_arrays.",
    )


def _numbered(action: np.ndarray, space: gymnasium.spaces.Discrete) -> dict[str, Any]:
    first, count = int(space.start), int(space.n)
    if action.ndim != 1 or action.dtype.kind not in "iu":
        raise DataError(
            f"action has shape {action.shape} and type {action.dtype}; in {space} it must be one "
            "whole number for each transition."
        )
    _refuse_outside((action < first) | (action >= first + count), action, space)
    default = np.full(len(action), 1 / count)
    return {"action": action.astype(np.int64) - first, "n_actions": count, "default": default}


def _vectors(action: np.ndarray, space: gymnasium.spaces.Box) -> dict[str, Any]:
    if action.shape[1:] != space.shape:
        raise DataError(
            f"action has shape {action.shape}; in {space} it must be one array of shape "
            f"{space.shape} for each transition."
        )
    width = np.where(space.bounded_below & space.bounded_above, space.high - space.low, 1.0)
    low, high = space.low - ROUNDING * width, space.high + ROUNDING * width
    inside = ((action >= low) & (action <= high)).reshape(len(action), -1)
    _refuse_outside(np.logical_not(inside.all(axis=1)), action, space)
    known: dict[str, Any] = {"action": action.reshape(len(action), -1)}
    if space.is_bounded():
        known["default"] = np.full(len(action), 1 / volume(space))
    return known


def volume(space: gymnasium.spaces.Box) -> float:
    """Returns the volume of a bounded space. A number that cannot vary does not count.

    Args:
        space: The space.
    """
    width = space.high.astype(np.float64) - space.low.astype(np.float64)
    return float(np.where(width > 0, width, 1.0).prod())


def _refuse_outside(outside: np.ndarray, action: np.ndarray, space: gymnasium.Space) -> None:
    if outside.any():
        at = int(outside.argmax())
        raise DataError(
            f"the action of transition {at} is {action[at]}, which is not in {space}.",
            remedy="If the environment clips or wraps its actions, do the same to these first.",
        )
