"""`under`: transitions of any policy, weighed so that they describe the default policy.

The vector belongs to the default policy, and data of another one describe another vector. Where
actions are known this is undone: in a world whose states repeat, each pair of a state and an action
counts as often as the default policy takes it, however often it was seen. That also removes the
noise of sampled actions. Elsewhere transitions get importance weights, if it is known with which
probability their actions were taken; or an objective with a value for each action (`q`) is used,
for which it does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from drogo.data.transitions import Transitions
from drogo.errors import ArgumentError

DefaultPolicy = npt.ArrayLike | Callable[[np.ndarray, np.ndarray], npt.ArrayLike]
"""The probability of each action, or a function `default_policy(observations, actions)` that
returns the probability (of vectors: the density) of each action of a batch."""


def under(
    data: Transitions,
    default_policy: DefaultPolicy | None = None,
    *,
    by_action: bool = False,
    always: bool = True,
) -> tuple[Transitions, list[str]]:
    """Weighs transitions so that they describe the default policy.

    Args:
        data: The transitions.
        default_policy: The probability of each action, or a function from a batch of observations
            and actions to probabilities (for continuous actions: densities). By default what the
            data say (`data.default`), or else uniform.
        by_action: Whether an objective with a value for each action will be used, which needs no
            weights.
        always: Whether to weigh also what the default policy itself did, which removes the noise of
            sampled actions.

    Returns:
        The transitions, with `default` and `weight` set, and sentences about what was done.
    """
    if data.action is None:
        if default_policy is not None:
            raise ArgumentError(
                "default_policy is given, but the transitions have no actions. Give action= to "
                "Transitions.from_arrays, or leave default_policy out."
            )
        return data, ["The transitions have no actions and are taken for the default policy's."]
    default = _probabilities(data, default_policy)
    by_table = data.n_actions is not None and data.repeats
    taken = default > 0
    if data.terminated.any() and not taken[data.terminated].any():
        raise ArgumentError(
            "the default policy takes none of the actions that led to a terminal state."
        )
    notes = []
    if not taken.all():
        data, default = _some(data, taken), default[taken]
        notes = [f"{(~taken).sum()} transitions whose action the default policy never takes "
                 "were left out."]  # fmt: skip
    data = replace(data, default=default)
    if not always and data.follows_default:
        return data, notes
    if by_table:
        weight, unseen = _table_weights(data, default)
        return replace(data, weight=weight), notes + unseen
    if by_action:
        return data, notes
    return replace(data, weight=_importance(data, default)), notes


def _probabilities(
    data: Transitions, default_policy: DefaultPolicy | None
) -> Float[np.ndarray, " n"]:
    """Returns the default policy's probability of each action that was taken."""
    n, count = len(data), data.n_actions
    assert data.action is not None
    if callable(default_policy):
        given = np.asarray(default_policy(data.observations[data.state], data.action))
        if given.shape != (n,) or not (np.isfinite(given) & (given >= 0)).all():
            raise ArgumentError(
                f"default_policy returned {given.dtype} of shape {given.shape}; it must return one "
                f"probability for each of {n} observations and actions, at least 0."
            )
        return given.astype(np.float64)
    if default_policy is not None:
        each = np.asarray(default_policy, dtype=np.float64)
        if each.shape != (count,) or (each < 0).any() or abs(each.sum() - 1) > 1e-9:
            raise ArgumentError(
                f"default_policy is {default_policy!r}; give one probability for each of the "
                f"{count} actions, which add up to 1, or a function of observations and actions."
            )
        return each[data.action]
    if data.default is not None:
        return data.default
    if count is None:
        raise ArgumentError(
            "the actions are vectors, and how the default policy chooses them is not known. Give "
            "default=, the density of each, to Transitions.from_arrays, or default_policy=, a "
            "function of observations and actions."
        )
    return np.full(n, 1 / count)


def _some(data: Transitions, chosen: np.ndarray) -> Transitions:
    columns = {name: getattr(data, name) for name in data.__dataclass_fields__}
    kept = {
        name: column[chosen]
        for name, column in columns.items()
        if isinstance(column, np.ndarray) and name != "observations"
    }
    return replace(data, **kept)


def _table_weights(
    data: Transitions, default: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], list[str]]:
    """Returns weights under which each state counts as often as it was seen, and each of its
    actions as often as the default policy takes it."""
    pair, times = _pairs(data)
    per_pair = default / times[pair]  # adds up to the default policy's share of the seen actions
    states = len(data.observations)
    covered = np.bincount(data.state, per_pair, states)
    seen = np.bincount(data.state, minlength=states)
    weight = per_pair * (seen / np.maximum(covered, np.finfo(float).tiny))[data.state]
    missing = unseen_pairs(data)
    if missing == 0:
        return weight, []
    return weight, [
        f"{missing} pairs of a visited state and an action were never seen. There the default "
        "policy is taken to choose among the actions that were seen, as if the others did not "
        "exist: more transitions, or start='uniform', would tell."
    ]


def unseen_pairs(data: Transitions) -> int:
    """Returns how many pairs of a visited state and an action were never seen; 0 if there are no
    discrete actions.

    Args:
        data: The transitions.
    """
    if data.action is None or data.n_actions is None:
        return 0
    visited = int((np.bincount(data.state) > 0).sum())
    return visited * data.n_actions - int((_pairs(data)[1] > 0).sum())


def _pairs(data: Transitions) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " pairs"]]:
    """Returns a number for the state and action of each transition, and how often it occurs."""
    assert data.action is not None
    assert data.n_actions is not None
    pair = data.state.astype(np.int64) * data.n_actions + data.action
    return pair, np.bincount(pair)


def _importance(data: Transitions, default: Float[np.ndarray, " n"]) -> Any:
    """Returns importance weights with a mean of 1."""
    if data.behaviour is None:
        raise ArgumentError(
            "it is not known with which probability these actions were taken, so they cannot be "
            "weighed like the default policy's.",
            remedy="Give behaviour= to Transitions.from_arrays or collect. For a single vector and "
            "discrete actions, objective='q' needs none.",
            command_remedy="Use --objective q.",
        )
    weight = default / data.behaviour
    return weight / weight.mean()
