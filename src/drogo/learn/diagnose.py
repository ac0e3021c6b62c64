"""Says in words what is wrong with a seed that has not converged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

MANY_AT_CAP = 0.02
FALLING = 0.05
"""The share of its depth by which v may fall over the last quarter of training."""


def diagnose(history: Mapping[str, np.ndarray], status: str) -> str:
    """Returns what is wrong and what may help, or nothing if all is well.

    Args:
        history: The history of one seed.
        status: Its status.
    """
    if status == "converged":
        return ""
    if status == "diverged":
        return "diverged. Try preset='stable' (a target network and a cap), or a smaller step_size."
    parts = [f"the largest residual is {history['worst'][-1]:.2g}, above the tolerance"]
    level = history["level"]
    fell = level[3 * (len(level) - 1) // 4] - level[-1]
    if fell > FALLING * abs(level[-1]):
        parts.append(
            f"v still falls (by {fell:.2g} over the last quarter). Use more updates; if it never "
            "stops falling, collect more transitions into terminal states, which anchor it"
        )
    if history["at_cap"][-1] > MANY_AT_CAP:
        parts.append(
            f"{history['at_cap'][-1]:.0%} of the transitions are at the cap, so some values are "
            "higher than anything supports. Use more updates, Fourier features (frequencies) or a "
            "target network (target_rate)"
        )
    if len(parts) == 1:
        parts.append("more updates may help, or more data where states were seen seldom")
    return "; ".join(parts) + "."
