"""One step of an environment, and numbers that are given for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from drogo.errors import ArgumentError


class Step(NamedTuple):
    """One step of an environment, as the environment reported it."""

    observation: Any
    action: Any
    reward: float
    next_observation: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]


NumberOfStep = float | Callable[[Step], float] | None


def check_cost(reward: NumberOfStep) -> None:
    """Raises an `ArgumentError` if a number that replaces every reward is not a cost."""
    if isinstance(reward, int | float) and not reward < 0:
        raise ArgumentError(f"reward is {reward}; a step cost must be negative.")


def number_of(given: NumberOfStep, step: Step, otherwise: Any) -> Any:
    """Returns the number that was given for a step, if any was."""
    if given is None:
        return otherwise
    return given(step) if callable(given) else given
