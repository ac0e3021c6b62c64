"""`AbstractShaping`: what changes the rewards of an agent while it learns."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from drogo.errors import ArgumentError


class AbstractShaping(abc.ABC):
    """What observes the steps of an agent, learns from them, and changes its rewards: maps, and the
    rivals in `drogo.use.rivals`."""

    needs_exact_observations: bool = False
    """Whether observations are recognised bit for bit."""

    _steps: int = 0

    @property
    def steps(self) -> int:
        """How many steps of the agent were observed."""
        return self._steps

    @property
    @abc.abstractmethod
    def metrics(self) -> Mapping[str, float]:
        """Numbers for a logger."""

    def observe(
        self,
        observation: npt.ArrayLike,
        action: npt.ArrayLike,
        reward: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        terminal_reward: npt.ArrayLike | None = None,
    ) -> None:
        """Takes some steps of the agent, one in each row.

        Args:
            observation: What was left.
            action: The actions.
            reward: The rewards, without the value of a terminal state.
            next_observation: What was reached; at the end of an episode its own last observation,
                and not the first one of the next.
            terminated: Which steps reached a terminal state. A time limit does not count.
            terminal_reward: The values of these terminal states, in units of reward; by default 0.
        """
        self._steps += np.asarray(reward).size

    @abc.abstractmethod
    def train(self) -> None:
        """Learns as much as is due after the steps that were observed."""

    @abc.abstractmethod
    def shaped(
        self,
        reward: npt.ArrayLike,
        observation: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        action: npt.ArrayLike | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Returns the rewards that the agent is given for some steps, at this moment.

        Args:
            reward: The agent's own rewards.
            observation: What was left.
            next_observation: What was reached.
            terminated: Which steps reached a terminal state.
            action: The actions, which only a bonus of actions needs.
        """

    @abc.abstractmethod
    def attach(self, agent: Any) -> None:
        """Raises an error unless this was made for an agent, which some also look into later.

        Args:
            agent: Has an `observation_space`, an `action_space` and a discount `gamma`, as those of
                Stable-Baselines3 do.
        """

    def complaints(self) -> list[str]:
        """Returns what a user should know when training ends."""
        return []


def as_columns(observation: Any, next_observation: Any, *parts: npt.ArrayLike) -> list[np.ndarray]:
    """Returns parts of some steps with one number for each. Replays have columns of shape (n, 1).

    Args:
        observation: What was left.
        next_observation: What was reached.
        *parts: Rewards, actions and the like.

    Raises:
        ArgumentError: They are not as many as the observations.
    """
    columns = [np.asarray(part).reshape(-1) for part in parts]
    sizes = [len(observation), len(next_observation), *(column.size for column in columns)]
    if len(set(sizes)) > 1:
        raise ArgumentError(f"the parts of these steps have different lengths: {sizes}.")
    return columns
