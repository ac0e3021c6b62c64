"""`Plan`: what of the data is used for what. Small worlds whole, large ones by batches.

Three sizes of problem, told apart by the data:

- A table in which every state was seen often, and small: each distinct observation is evaluated
  once per update (`whole`).
- Data that fit on the device: batches are gathered there.
- Data that do not: batches are read from memory or from a file as they are needed (`streamed`).

Where states were not seen often, as in a continuous world, a state's equation cannot be checked by
itself. Then some transitions are held out, and checked in groups of states of like value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from drogo.config import Config
from drogo.data.transitions import Transitions
from drogo.errors import ArgumentError
from drogo.learn.objectives import PENALISED

ON_DEVICE = 2**30
"""Bytes of observations."""
IN_A_RESULT = 2**28
"""Bytes of observations that a result keeps; of larger tables, a sample."""
PER_CHUNK = 2**28
"""Bytes of streamed observations at a time."""
HELD_OUT, MOST_HELD_OUT = 0.05, 10_000
COMPARED = 20_000
"""Most observations that are compared with a truth along the way, where states do not repeat."""
LOOKED_AT = 2**23
"""Bytes of observations in each of these two looks: images are dear to evaluate."""


@dataclass(frozen=True)
class Plan:
    whole: bool
    streamed: bool
    repeats: bool
    """States were seen often enough to check each by itself."""
    trained: Int[np.ndarray, " rows"]
    """Transitions to train on; the others are held out."""
    held_out: Int[np.ndarray, " held"]
    kept: Int[np.ndarray, " kept"]
    """Observations in the result."""
    compared: Int[np.ndarray, " compared"]
    """Observations that are compared with a truth along the way."""

    @property
    def checked(self) -> Int[np.ndarray, " rows"]:
        """Transitions on which equations are checked: those held out, or some if none are."""
        return self.held_out if self.held_out.size else self.trained[:MOST_HELD_OUT]


def make_plan(data: Transitions, config: Config) -> Plan:
    n, m = len(data), len(data.observations)
    penalised = config.objective in PENALISED
    streamed = data.observations.nbytes > ON_DEVICE
    few = m <= (3 if penalised else 2) * min(config.batch_size, n)
    repeats = data.repeats and data.observations.nbytes <= IN_A_RESULT
    whole = few and repeats
    if streamed and penalised:
        raise ArgumentError(
            f"objective {config.objective!r} needs a second batch for each, and data of "
            f"{data.observations.nbytes / 2**30:.1f} GiB are read one batch at a time. Use "
            "objective='drogo', or fewer transitions."
        )
    everything = np.arange(m)
    if repeats:
        rows = np.arange(n)
        return Plan(whole, streamed, True, rows, rows[:0], everything, everything)
    size = max(1, data.observations.nbytes // m)
    affordable = max(1000, LOOKED_AT // size)
    order = np.random.default_rng(0).permutation(n)
    held = order[: min(MOST_HELD_OUT, int(HELD_OUT * n), affordable)]
    trained = np.sort(order[held.size :])
    if not data.terminated[trained].any():  # the only ends must not be held out
        trained, held = np.arange(n), order[:0]
    kept = _sample(data, max(1, IN_A_RESULT // size))
    compared = _sample(data, min(COMPARED, affordable))
    return Plan(whole, streamed, False, trained, np.sort(held), kept, compared)


def _sample(data: Transitions, most: int) -> Int[np.ndarray, " some"]:
    """So many observations of the table, an end among them."""
    m = len(data.observations)
    if m <= most:
        return np.arange(m)
    some = np.random.default_rng(1).choice(m, most, replace=False)
    return np.unique(np.concatenate([some, data.terminal_states[:1]]))
