"""`Policy`: what to do in each state, from a fit with a value for each action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from drogo.errors import ArgumentError

Logits = Callable[[np.ndarray], Float[np.ndarray, "batch actions"]]
"""From a batch of observations to the log-probability of each action, up to a constant."""


class Policy:
    """The optimal policy of the linearly solvable MDP.

    `result.policy(seed)` makes one. Stable-Baselines3's `evaluate_policy` takes it as it is.

    Args:
        logits: Computes the log-probabilities of a batch of observations, up to a constant.
        shape: The shape of one observation.
        seed: The seed of the actions that are drawn.
    """

    def __init__(self, logits: Logits, shape: tuple[int, ...], *, seed: int = 0) -> None:
        self._logits, self.shape = logits, shape
        self._rng = np.random.default_rng(seed)

    def probabilities(self, observations: Any) -> Float[np.ndarray, "batch actions"]:
        """Returns the probability of each action.

        Args:
            observations: A batch of observations.
        """
        batch = np.asarray(observations)
        if batch.shape[1:] != self.shape:
            raise ArgumentError(
                f"the observations have shape {batch.shape[1:]}; this policy was learned from "
                f"shape {self.shape}. Give a batch, or use predict for a single one."
            )
        logits = self._logits(batch)
        if np.isnan(logits).any():
            raise ArgumentError(
                f"observation {int(np.isnan(logits).any(axis=1).argmax())} of the batch has an "
                "action whose value is not a number, so it is not known what to do there."
            )
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def __call__(self, observations: Any) -> Int[np.ndarray, " batch"]:
        """Returns the most probable action for each of a batch of observations."""
        return self.probabilities(observations).argmax(axis=1)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Returns actions as the agents of Stable-Baselines3 do.

        Args:
            observation: One observation, or a batch of them.
            state: Passed through; this policy has no memory.
            episode_start: Not used.
            deterministic: Whether to take the most probable action instead of drawing one.

        Returns:
            The action, or the actions of the batch, and `state`.
        """
        given = np.asarray(observation)
        batch = given[None] if given.shape == self.shape else given
        probabilities = self.probabilities(batch)
        if deterministic:
            actions = probabilities.argmax(axis=1)
        else:
            drawn = self._rng.random((len(batch), 1))
            actions = (probabilities.cumsum(axis=1) < drawn).sum(axis=1)
            actions = np.minimum(actions, probabilities.shape[1] - 1)
        return (actions if batch is given else actions.squeeze(axis=0)), state
