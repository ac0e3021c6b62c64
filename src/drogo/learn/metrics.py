"""How close learned vectors are to a known one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def cosine(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, " states"]
) -> Float[np.ndarray, " lanes"]:
    """Returns the cosine similarity of the logs, the paper's measure, which ignores scale.

    A vector of zeros has no direction, and its cosine is 0.

    Args:
        v: The learned vectors.
        truth: The known vector.
    """
    return _directions(v) @ _directions(truth)


def differences(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, " states"], anchor: int
) -> Float[np.ndarray, "lanes states"]:
    """Returns the absolute differences of the logs, both shifted to 0 at the anchor.

    Args:
        v: The learned vectors.
        truth: The known vector.
        anchor: A state, usually a terminal one.
    """
    return np.abs((v - v[:, [anchor]]) - (truth - truth[anchor]))


def _directions(v: Float[np.ndarray, "*lanes states"]) -> Float[np.ndarray, "*lanes states"]:
    """Returns vectors of length 1. They are divided by their largest entry first: the squares of
    very small or very large numbers are 0 or infinity."""
    with np.errstate(invalid="ignore"):
        within_one = np.nan_to_num(v / np.abs(v).max(axis=-1, keepdims=True))
    return within_one / np.maximum(np.linalg.norm(within_one, axis=-1, keepdims=True), 1.0)
