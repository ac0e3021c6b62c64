"""One step of an environment, and numbers that are given for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from drogo.errors import ArgumentError, check_number


class Step(NamedTuple):
    """One step of an environment, as the environment reported it."""

    observation: Any
    action: Any
    reward: float
    next_observation: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    def numbers(self, reward: NumberOfStep, terminal_reward: NumberOfStep) -> tuple[float, float]:
        """Returns the reward of the state that was left, and the value of a terminal state.

        Args:
            reward: As in `collect`.
            terminal_reward: As in `collect`.
        """
        own, value = self.reward, 0.0
        if self.terminated:
            reported = float(self.info.get("terminal_reward") or 0.0)
            own, value = own - reported, _number_of(terminal_reward, self, reported)
        return _number_of(reward, self, own), value


NumberOfStep = float | Callable[[Step], float] | None


def number_or_function(name: str, given: NumberOfStep) -> NumberOfStep:
    """Returns what was given for every step, a number as a float.

    Args:
        name: How error messages call it.
        given: A number, a function of a `Step`, or None.
    """
    return given if given is None or callable(given) else check_number(name, given)


def check_cost(reward: NumberOfStep) -> None:
    """Raises an `ArgumentError` if a number that replaces every reward is not a cost."""
    if isinstance(reward, int | float) and not reward < 0:
        raise ArgumentError(f"reward is {reward}; a step cost must be negative.")


def is_bad(info: Mapping[str, Any]) -> bool:
    """Returns whether a terminal state has a negative value, such as lava.

    Args:
        info: What the environment reported with the last step of an episode.
    """
    return (info.get("terminal_reward") or 0.0) < 0


def split_rewards(
    observations: npt.ArrayLike,
    actions: npt.ArrayLike,
    rewards: npt.ArrayLike,
    next_observations: npt.ArrayLike,
    terminated: npt.ArrayLike,
    infos: Sequence[Mapping[str, Any]],
    terminal_reward: NumberOfStep,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Returns the rewards of some steps without the values of terminal states, and these values.

    Args:
        observations: What was left.
        actions: The actions.
        rewards: The rewards.
        next_observations: What was reached.
        terminated: Which steps reached a terminal state.
        infos: What the environment reported with each step.
        terminal_reward: As in `collect`.
    """
    before, taken, after = (np.asarray(part) for part in (observations, actions, next_observations))
    own = np.array(rewards, dtype=np.float64)
    values = np.zeros(len(own))
    for k in np.flatnonzero(terminated).tolist():
        step = Step(before[k], taken[k], float(own[k]), after[k], True, False, dict(infos[k]))
        own[k], values[k] = step.numbers(None, terminal_reward)
    return own, values


def _number_of(given: NumberOfStep, step: Step, otherwise: Any) -> Any:
    """Returns the number that was given for a step, if any was."""
    if given is None:
        return otherwise
    return given(step) if callable(given) else given


def info_of(infos: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Returns one environment's part of the infos of a vector: of its last step, where that was
    reset at once.

    Args:
        infos: What the vector of environments reported.
        k: The number of the environment.
    """
    if "_final_info" in infos and infos["_final_info"][k]:
        infos = infos["final_info"]
    return {
        name: values[k]
        for name, values in infos.items()
        if not name.startswith("_") and f"_{name}" in infos and infos[f"_{name}"][k]
    }
