"""`Trained`: evaluation results of one agent, and whether it solved its world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

IN_A_ROW = 3
"""Number of consecutive successful evaluations of a solved world."""


@dataclass(frozen=True, eq=False)
class Trained:
    """Evaluation results of one agent.

    Args:
        steps: The numbers of environment steps at the evaluations.
        returns: The mean original return of its deterministic policy.
        arrived: The share of episodes that reached a terminal state that is not bad.
        lengths: The mean length of these episodes.
        deaths: The number of training episodes that ended in a bad terminal state by then.
        arrivals: The number of training episodes that ended in another terminal state by then.
        maps: The map at some observations at the same times; NaN where it has no value yet.
        metrics: The metrics of the map at the end.
    """

    steps: Float[np.ndarray, " evaluations"]
    returns: Float[np.ndarray, " evaluations"]
    arrived: Float[np.ndarray, " evaluations"]
    lengths: Float[np.ndarray, " evaluations"]
    deaths: Float[np.ndarray, " evaluations"]
    arrivals: Float[np.ndarray, " evaluations"]
    maps: Float[np.ndarray, "evaluations observations"]
    metrics: Mapping[str, float]

    @property
    def solved_at(self) -> float:
        """The steps at the first of `IN_A_ROW` evaluations that all arrive, or infinity."""
        first = self._first
        return np.inf if first is None else float(self.steps[first])

    @property
    def failed_later(self) -> tuple[int, int]:
        """The number of failed evaluations after the world was solved, and of all after that."""
        if self._first is None:
            return 0, 0
        later = self.arrived[self._first + IN_A_ROW :]
        return int((later < 1).sum()), later.size

    @property
    def _first(self) -> int | None:
        """The index of the first of `IN_A_ROW` evaluations that all arrive."""
        good = self.arrived == 1
        if good.size < IN_A_ROW:
            return None
        rows = np.lib.stride_tricks.sliding_window_view(good, IN_A_ROW).all(axis=1)
        return int(rows.argmax()) if rows.any() else None
