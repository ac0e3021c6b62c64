"""`FiniteWorld`: a deterministic world as tables, from which transitions can be drawn at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class FiniteWorld:
    next_state: Int[np.ndarray, "states actions"]
    """Ends lead to themselves."""
    reward: Float[np.ndarray, " states"]
    """Of leaving a state; in an end, the end's own."""
    terminal: Bool[np.ndarray, " states"]
    begin: Int[np.ndarray, " starts"]
    """States in which episodes begin, each as likely."""
    step_limit: int


@runtime_checkable
class HasFiniteWorld(Protocol):
    """An environment that knows all its states, and what each of them looks like."""

    def finite_world(self) -> FiniteWorld: ...

    def all_observations(self) -> Any:
        """One observation to each state, in their order."""
