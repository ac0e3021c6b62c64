"""When an agent is evaluated during training, and the results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from drogo.errors import Count, check_fields

IN_A_ROW = 3
"""Number of consecutive successful evaluations of a solved world."""


@dataclass(frozen=True, eq=False)
class Evaluations:
    every: Count
    """Steps between evaluations, or more where several environments step together."""
    episodes: Count = 1
    observations: Shaped[np.ndarray, "n ..."] | None = None
    """The observations at which the map is recorded at each evaluation."""
    stop_when_solved: bool = True
    progress: Callable[[int], None] | None = None
    """Called at each evaluation with the number of steps."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Trained:
    """Evaluation results of one agent."""

    steps: Float[np.ndarray, " evaluations"]
    """The environment steps at the evaluations."""
    returns: Float[np.ndarray, " evaluations"]
    """The mean original return of its deterministic policy."""
    arrived: Float[np.ndarray, " evaluations"]
    """The share of episodes that reached a terminal state that is not bad."""
    lengths: Float[np.ndarray, " evaluations"]
    deaths: Float[np.ndarray, " evaluations"]
    """Training episodes that ended in a bad terminal state by then."""
    arrivals: Float[np.ndarray, " evaluations"]
    """Training episodes that ended in another terminal state by then."""
    maps: Float[np.ndarray, "evaluations observations"]
    """The map at some observations; NaN where it has no value yet."""
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


def is_bad(info: Mapping[str, Any]) -> bool:
    """Returns whether the last step of an episode reported a negative value, as lava does."""
    return (info.get("terminal_reward") or 0.0) < 0
