"""How close learned vectors are to a known one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def cosine(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, " states"]
) -> Float[np.ndarray, " lanes"]:
    """Returns the cosine similarity of the logs, the paper's measure, which ignores scale.

    Args:
        v: The learned vectors.
        truth: The known vector.
    """
    size = np.linalg.norm(v, axis=-1) * np.linalg.norm(truth)
    return v @ truth / np.maximum(size, np.finfo(float).tiny)


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
