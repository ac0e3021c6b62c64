"""`Promises`: what a map says at one moment, and goes on saying while the map learns more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Promises:
    """What a map promised of each action when it was asked, as functions of a batch of
    observations.

    Args:
        logits: The log of what it promised of each action, up to a constant.
        untried: Which actions had not been tried there, or not often enough to count.
        is_done: Whether everything had been tried wherever the agent had been.
    """

    logits: Callable[[npt.ArrayLike], Float[np.ndarray, "n actions"]]
    untried: Callable[[npt.ArrayLike], Bool[np.ndarray, "n actions"]]
    is_done: bool


def no_promises(actions: int) -> Promises:
    """Returns what a map says before it has learned anything.

    Args:
        actions: The number of actions.
    """
    return Promises(
        lambda observations: np.zeros((len(np.asarray(observations)), actions)),
        lambda observations: np.ones((len(np.asarray(observations)), actions), dtype=bool),
        is_done=False,
    )
