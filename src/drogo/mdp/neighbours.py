"""Which states are one step apart."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def distinct_pairs(
    first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"]
) -> Int[np.ndarray, "pairs 2"]:
    """Unordered pairs of two different states, each once."""
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)
    return np.unique(pairs[first != second], axis=0).astype(np.int64)
