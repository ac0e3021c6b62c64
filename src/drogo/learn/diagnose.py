"""What is wrong with a seed that has not converged, in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

MANY_AT_CAP = 0.02
FALLING = 0.05
"""Share of its depth by which `v` fell over the last quarter of training."""


def diagnose(history: Mapping[str, np.ndarray], status: str) -> str:
    """Of one seed's history; empty if there is nothing to say."""
    if status == "converged":
        return ""
    if status == "diverged":
        return "diverged. Try preset='stable' (a target network and a cap), or a smaller step_size."
    told = [f"the worst violation is {history['worst'][-1]:.2g}, too much for an answer"]
    level = history["level"]
    fell = level[3 * (len(level) - 1) // 4] - level[-1]
    if fell > FALLING * abs(level[-1]):
        told.append(
            f"v still falls (by {fell:.2g} over the last quarter): more updates, or, if it never "
            "stops, more ends in the data, which anchor it"
        )
    if history["at_cap"][-1] > MANY_AT_CAP:
        told.append(
            f"{history['at_cap'][-1]:.0%} of the steps are at the cap: something holds values up "
            "that nothing supports. More updates, Fourier features (frequencies), or a target "
            "network (target_rate)"
        )
    if len(told) == 1:
        told.append("more updates may help, or more data where states were seen seldom")
    return "; ".join(told) + "."
