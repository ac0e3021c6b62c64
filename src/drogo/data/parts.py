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


def joined(observation: Any, names: tuple[str, ...]) -> Shaped[np.ndarray, " numbers"]:
    """Returns the numbers of several parts of an observation one after the other.

    Args:
        observation: The observation, a dictionary of arrays or numbers.
        names: The names of the parts, in the order in which they are joined.

    Raises:
        DataError: The observation has no such parts, or they are not numbers.
    """
    if not isinstance(observation, dict):
        raise DataError(f"key is {names!r}, but the observation is not a Dict.")
    known = ", ".join(map(str, observation))
    parts = []
    for name in names:
        if name not in observation:
            raise DataError(f"key has {name!r}; the observation has {known}.")
        part = np.asarray(observation[name])
        if part.dtype.kind not in KINDS:
            raise DataError(
                f"key joins {', '.join(names)}, but {name} has the type {part.dtype}, and only "
                "numbers can be joined.",
                remedy=f"Leave {name} out, or transform it with "
                "gymnasium.wrappers.TransformObservation.",
            )
        parts.append(part.ravel())
    return np.concatenate(parts)
