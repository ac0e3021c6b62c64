"""Steps that somebody else recorded, on their way into `Transitions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Int, Shaped

from drogo.data.actions import in_space
from drogo.data.step import NumberOfStep, Step, check_cost
from drogo.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Recorded:
    """Recorded steps: a table of observations, and one row for each step."""

    observations: Shaped[np.ndarray, "rows ..."]
    state: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    reward: Shaped[np.ndarray, " n"] | None = None
    """None: nobody recorded it."""
    action: Shaped[np.ndarray, "n ..."] | None = None
    """In the numbers of the action space."""
    behaviour: Shaped[np.ndarray, " n"] | None = None
    terminal_reward: Shaped[np.ndarray, " n"] | None = None
    action_space: gymnasium.Space | None = None

    def columns(
        self,
        reward: NumberOfStep,
        terminal_reward: NumberOfStep,
        behaviour: Callable[[Step], float] | None = None,
    ) -> dict[str, Any]:
        """Returns the arguments of `Transitions.from_table`.

        Args:
            reward: What replaces the recorded rewards: a step cost, or a function of a `Step`.
            terminal_reward: The value of terminal states: a number, or a function of a `Step`.
            behaviour: The probability or density of the action of a `Step`.
        """
        check_cost(reward)
        if reward is None and self.reward is None:
            raise DataError("no rewards were recorded.", remedy="Give a step cost: reward=-1.0.")
        if behaviour is not None and self.action is None:
            raise ArgumentError("behaviour is given, but no actions were recorded.")
        known = {} if self.action is None else in_space(self.action, self.action_space)
        if self.behaviour is not None or behaviour is not None:
            known["behaviour"] = self._each(behaviour, self.behaviour)
        known_value = 0.0 if self.terminal_reward is None else self.terminal_reward
        value = self._each(terminal_reward, known_value, only=self.terminated)
        return {
            "observations": self.observations,
            "state": self.state,
            "next_state": self.next_state,
            "reward": self._each(reward, self.reward),
            "terminated": self.terminated,
            "truncated": self.truncated,
            "terminal_reward": value,
            **known,
        }

    def _each(
        self, given: NumberOfStep, otherwise: Any, only: Bool[np.ndarray, " n"] | None = None
    ) -> npt.ArrayLike:
        """Returns a number for each step, and 0 for steps that are left out."""
        n = self.state.size
        only = np.ones(n, dtype=bool) if only is None else only
        if not callable(given):
            numbers = np.broadcast_to(otherwise if given is None else given, (n,))
            return np.where(only, numbers, 0.0)
        numbers = np.zeros(n)
        numbers[only] = np.fromiter(map(given, self._steps(only)), float, int(only.sum()))
        return numbers

    def _steps(self, only: Bool[np.ndarray, " n"]) -> Iterator[Step]:
        for k in np.flatnonzero(only).tolist():
            yield Step(
                self.observations[self.state[k]],
                None if self.action is None else self.action[k],
                float("nan") if self.reward is None else float(self.reward[k]),
                self.observations[self.next_state[k]],
                bool(self.terminated[k]),
                bool(self.truncated[k]),
                {},
            )
