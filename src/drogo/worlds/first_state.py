"""The first state of an episode, as the options of `reset` say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from drogo.errors import ArgumentError


def check_start(start: str) -> None:
    if start not in ("map", "uniform"):
        raise ArgumentError(f"start is {start!r}; choose 'map' or 'uniform'.")


def first_state(
    options: Mapping[str, Any],
    terminal: Bool[np.ndarray, " states"],
    map_start: Float[np.ndarray, " states"],
    rng: np.random.Generator,
) -> int:
    """Returns the state of `options["state"]`, or draw one as `options["start"]` says."""
    unknown = set(options) - {"state", "start"}
    if unknown:
        raise ArgumentError(f"unknown reset option(s) {sorted(unknown)}; known: 'state', 'start'.")
    check_start(options["start"])
    if "state" in options:
        state = int(options["state"])
        if not 0 <= state < terminal.size or terminal[state]:
            raise ArgumentError(
                f"reset option 'state' is {state}; expected a non-terminal state from 0 to "
                f"{terminal.size - 1}."
            )
        return state
    return int(
        rng.choice(np.flatnonzero(~terminal if options["start"] == "uniform" else map_start))
    )
