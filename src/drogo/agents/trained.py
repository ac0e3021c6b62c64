"""`Trained`: what became of an agent, and whether it solved its world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

IN_A_ROW = 3
"""So many judgements in a row must succeed for a world to be solved."""


@dataclass(frozen=True, eq=False)
class Trained:
    """What became of an agent.

    Args:
        steps: The numbers of environment steps after which the agent was judged.
        returns: The mean original return of its deterministic policy.
        arrived: The share of episodes that reached a terminal state that is not bad.
        lengths: The mean length of these episodes.
        deaths: How many training episodes ended in a bad terminal state by then.
        arrivals: How many training episodes ended in any other terminal state by then.
        maps: What the map said of some observations at the same times; NaN where it knew nothing.
        metrics: The metrics of the map at the end.
    """

    steps: Float[np.ndarray, " judgements"]
    returns: Float[np.ndarray, " judgements"]
    arrived: Float[np.ndarray, " judgements"]
    lengths: Float[np.ndarray, " judgements"]
    deaths: Float[np.ndarray, " judgements"]
    arrivals: Float[np.ndarray, " judgements"]
    maps: Float[np.ndarray, "judgements observations"]
    metrics: Mapping[str, float]

    @property
    def solved_at(self) -> float:
        """The steps at the first of `IN_A_ROW` judgements that all arrive, or infinity."""
        first = self._first
        return np.inf if first is None else float(self.steps[first])

    @property
    def failed_later(self) -> tuple[int, int]:
        """How many judgements failed after those that solved the world, and how many there were."""
        if self._first is None:
            return 0, 0
        later = self.arrived[self._first + IN_A_ROW :]
        return int((later < 1).sum()), later.size

    @property
    def _first(self) -> int | None:
        """The number of the first of `IN_A_ROW` judgements that all arrive."""
        good = self.arrived == 1
        if good.size < IN_A_ROW:
            return None
        rows = np.lib.stride_tricks.sliding_window_view(good, IN_A_ROW).all(axis=1)
        return int(rows.argmax()) if rows.any() else None
