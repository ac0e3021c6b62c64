"""The gain of a task that never ends, computed from transitions whose states repeat."""

from __future__ import annotations

import numpy as np

from drogo.data import Transitions
from drogo.errors import DataError, NotConverged
from drogo.exact.growth import Growth, WeightedEdges, classes, growth
from drogo.mdp.arrays import leads_to


def growth_around(data: Transitions, lam: float, row: int) -> tuple[Growth, np.ndarray]:
    """Computes the largest eigenvalue and its vector over the class of states that contains the
    reference.
    """
    steps = data.empirical(lam).steps
    everything = np.arange(steps.n) < steps.n - 1  # the last one stands for terminal states
    parts = classes(steps, everything)
    of_reference = next((part for part in parts if part[row]), None)
    if of_reference is None:
        raise DataError(
            f"observation {row} of the table, the reference, is never returned to in these data.",
            remedy="Choose another reference=, or collect more transitions.",
            argument="reference",
        )
    _check_leads_to(steps, row)
    own_growth = growth(steps, of_reference)
    others = [(part, growth(steps, part)) for part in parts if part is not of_reference]
    unknown = [
        one.bracket for one in [own_growth, *(other for _, other in others)] if not one.is_known
    ]
    if unknown:
        low, high = (lam * bound for bound in unknown[0])
        raise NotConverged(
            f"the gain at lam = {lam:g} could not be computed: its bounds are "
            f"{low:.6g} and {high:.6g}.",
            remedy="Use a larger lam.",
        )
    for part, other in others:
        if other.log_eigenvalue >= own_growth.log_eigenvalue:
            raise DataError(
                f"the gain is {lam * own_growth.log_eigenvalue:.6g} where the reference is, and "
                f"{lam * other.log_eigenvalue:.6g} in a part of the observations that is left for "
                f"good (number {int(part.argmax())} of the table is in it). The map is infinite "
                "there.",
                remedy="Choose a reference= in that part, and leave out what follows it.",
            )
    return own_growth, of_reference[:-1]


def _check_leads_to(steps: WeightedEdges, row: int) -> None:
    """Raises an error unless all states that were ever left lead to the reference."""
    leads = leads_to(steps.state, steps.next_state, steps.n, np.array([row]))
    lost = np.setdiff1d(steps.state, np.flatnonzero(leads))
    if lost.size:
        raise DataError(
            f"{lost.size} observation(s) never lead to the reference in these data (the first is "
            f"number {int(lost[0])} of the table), so that the map is minus infinity there.",
            remedy="Choose a reference= that they lead to, collect more transitions, or leave "
            "these out.",
        )
