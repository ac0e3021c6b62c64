"""`Plan`: how the data are split between training and evaluation.

There are three sizes of data:

- There are few states, and each was seen often: every update evaluates each distinct observation
  once (`whole`).
- The data fit on the device: batches are gathered there.
- They do not: batches are read from memory or from a file when they are needed (`streamed`).

Where states were not seen often, as in a continuous world, the equation of a state cannot be
checked by itself. Then some transitions are held out and checked in groups of similar value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from drogo.data import Transitions
from drogo.errors import ArgumentError

BYTES_ON_DEVICE = 2**30
"""Bytes of observations that are kept on the device."""
BYTES_IN_RESULT = 2**28
"""Bytes of observations that a result keeps; of a larger table it keeps a sample."""
BYTES_PER_CHUNK = 2**28
"""Bytes of streamed observations at a time."""
HELD_OUT, MOST_HELD_OUT = 0.05, 10_000
MOST_COMPARED = 20_000
"""The largest number of observations that are compared with a truth during training."""
BYTES_PER_LOG = 2**23
"""Bytes of observations that are evaluated at each logged update, where states do not repeat."""


@dataclass(frozen=True)
class Plan:
    """How the data are split between training and evaluation."""

    whole: bool
    """Whether each update evaluates the whole table of observations."""
    streamed: bool
    """Whether observations are read batch by batch."""
    repeats: bool
    """Whether states were seen often enough to check each by itself."""
    trained: Int[np.ndarray, " rows"]
    """The transitions to train on."""
    checked: Int[np.ndarray, " checked"]
    """The transitions on which equations are checked, if states do not repeat: those that are held
    out, or some of the others if none are."""
    kept: Int[np.ndarray, " kept"]
    """The observations that the result keeps."""
    compared: Int[np.ndarray, " compared"]
    """The observations that are compared with a truth during training."""


def make_plan(data: Transitions, batch_size: int | str | None, *, second: bool) -> Plan:
    """Returns the plan for some transitions."""
    n, m, size = len(data), len(data.observations), data.observations.nbytes
    streamed = size > BYTES_ON_DEVICE
    if streamed and second:
        raise ArgumentError(
            "this method needs a second batch for each update, and data of "
            f"{size / 2**30:.1f} GiB are read one batch at a time. Use drogo.Drogo(), or fewer "
            "transitions.",
            argument="method",
        )
    few = batch_size == "all"
    if isinstance(batch_size, int):
        few = m <= (3 if second else 2) * min(batch_size, n)
    if data.repeats and size <= BYTES_IN_RESULT:
        rows, everything = np.arange(n), np.arange(m)
        return Plan(few, streamed, True, rows, rows[:0], everything, everything)
    row_size = max(1, size // m)
    affordable = max(1000, BYTES_PER_LOG // row_size)
    order = np.random.default_rng(0).permutation(n)
    share = min(MOST_HELD_OUT / n, HELD_OUT, affordable / n)
    reaching = data.terminated[order]
    # Of both kinds the same share: without terminal states, any constant shift of v would pass.
    both = (order[reaching], order[~reaching])
    held_out = np.concatenate([part[: int(np.ceil(share * part.size))] for part in both])
    if held_out.size < 2 or both[0].size == 1:  # the only terminal state must not be held out
        trained, held_out = np.arange(n), np.arange(min(n, MOST_HELD_OUT))
    else:
        trained = np.setdiff1d(np.arange(n), held_out)
    kept = _sample(data, max(1, BYTES_IN_RESULT // row_size))
    compared = _sample(data, min(MOST_COMPARED, affordable))
    return Plan(False, streamed, False, trained, np.sort(held_out), kept, compared)


def _sample(data: Transitions, most: int) -> Int[np.ndarray, " some"]:
    """Returns at most so many observations of the table, a terminal state among them."""
    m = len(data.observations)
    if m <= most:
        return np.arange(m)
    some = np.random.default_rng(1).choice(m, most, replace=False)
    return np.unique(np.concatenate([some, data.terminal_states[:1]]))
