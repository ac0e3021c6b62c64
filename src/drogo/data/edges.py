"""`Edges`: the distinct transitions of some data, and the number of times that each occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

if TYPE_CHECKING:
    from drogo.data.transitions import Transitions


@dataclass(frozen=True)
class Edges:
    """Distinct transitions. A batch is given by the number of times that each occurs in it."""

    state: Int[np.ndarray, " edges"]
    next_state: Int[np.ndarray, " edges"]
    reward: Float[np.ndarray, " edges"]
    terminal_reward: Float[np.ndarray, " edges"]
    terminated: Bool[np.ndarray, " edges"]
    action: Int[np.ndarray, " edges"] | None
    log_default: Float[np.ndarray, " edges"] | None
    """The log of the probability with which the default policy takes the action."""
    weight: Float[np.ndarray, " edges"]
    """The sum of the weights of all transitions of this kind."""
    count: Int[np.ndarray, " edges"]
    of_transition: Int[np.ndarray, " n"]
    """The edge of each transition."""


def edges_of(data: Transitions) -> Edges:
    """Returns the distinct transitions of some data."""
    discrete = data.action if data.n_actions is not None else None
    key = data.state.astype(np.int64) * len(data.observations) + data.next_state
    for column in (data.reward, data.terminal_reward, data.terminated, data.weight, discrete):
        if column is not None:
            values, index = np.unique(column, return_inverse=True)
            key = np.unique(key, return_inverse=True)[1] * values.size + index
    _, first, of_transition, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    names = ("state", "next_state", "reward", "terminal_reward", "terminated")
    return Edges(
        **{name: getattr(data, name)[first] for name in names},
        action=None if discrete is None else discrete[first],
        log_default=None if data.default is None else np.log(data.default[first]),
        weight=np.bincount(of_transition, data.weight),
        count=count,
        of_transition=of_transition.astype(np.int32),
    )
