"""Parts of `Dict` observations: one of them, or several that are joined to one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from drogo.errors import ArgumentError, DataError
from drogo.files import KINDS

Key = str | tuple[str, ...] | None
"""The name of a part, several names, or None for observations without parts."""


def as_key(given: str | Sequence[str] | None) -> Key:
    """Returns what a user gave for `key`, where a single name in a sequence is just that name."""
    if given is None or isinstance(given, str):
        return given
    names = tuple(given)
    if not names:
        raise ArgumentError("key is empty; name at least one part of the observation.")
    return names[0] if len(names) == 1 else names


def part_of(observation: Any, key: Key, batch: int = 0) -> Shaped[np.ndarray, ...]:
    """Returns a copy of the part of an observation, or of a batch of them, that is kept.

    Args:
        observation: The observation: an array or a number, or a dictionary of them.
        key: The part, or the parts that are joined to one vector in this order.
        batch: The number of first dimensions that count observations.

    Raises:
        DataError: The observation has no such parts, or they are not numbers.
    """
    if isinstance(key, tuple):
        return _joined(observation, key, batch)
    if isinstance(observation, dict) and not observation:
        raise DataError("the observation is a Dict without any part.")
    if isinstance(observation, dict):
        parts = ", ".join(map(str, observation))
        if key is None:
            raise DataError(
                f"the observation is a Dict of {parts}: choose the part to learn from,",
                remedy=f"for example key={next(iter(observation))!r}.",
                command_remedy=f"for example --key={next(iter(observation))}.",
            )
        if key not in observation:
            raise DataError(f"key is {key!r}; the observation has {parts}.")
        return _array(key, observation[key])
    if key is not None:
        raise DataError(f"key is {key!r}, but the observation is not a Dict.")
    if isinstance(observation, tuple):
        raise DataError(
            "the observation is a tuple, not an array. Choose one part of it with "
            "gymnasium.wrappers.TransformObservation."
        )
    return _array("the observation", observation)


def _array(name: str, values: Any) -> Shaped[np.ndarray, ...]:
    try:
        return np.array(values)
    except ValueError as error:
        raise DataError(f"{name} is not an array: {error}.") from error


def _joined(observation: Any, names: tuple[str, ...], batch: int) -> Shaped[np.ndarray, ...]:
    """Returns the numbers of several parts of an observation one after the other."""
    if not isinstance(observation, dict):
        raise DataError(f"key is {names!r}, but the observation is not a Dict.")
    known = ", ".join(map(str, observation))
    parts = []
    for name in names:
        if name not in observation:
            raise DataError(f"key has {name!r}; the observation has {known}.")
        part = _array(name, observation[name])
        if part.dtype.kind not in KINDS:
            raise DataError(
                f"key joins {', '.join(names)}, but {name} has the type {part.dtype}, and only "
                "numbers can be joined.",
                remedy=f"Leave {name} out, or transform it with "
                "gymnasium.wrappers.TransformObservation.",
            )
        parts.append(part.reshape(*part.shape[:batch], -1))
    return np.concatenate(parts, axis=-1)
