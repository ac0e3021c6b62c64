"""What a step of a task that never ends is worth, computed from transitions whose states repeat."""

from __future__ import annotations

import numpy as np

from drogo.data import Transitions
from drogo.data.empirical import empirical
from drogo.errors import DataError, NotConverged
from drogo.exact.growth import Growth, Steps, classes, growth
from drogo.exact.reach import leads_to


def growth_around(data: Transitions, lam: float, row: int) -> tuple[Growth, np.ndarray]:
    """Computes the largest eigenvalue and its vector over the class of states that the reference
    is in.

    Args:
        data: The transitions, none of which is terminated.
        lam: The temperature.
        row: The reference, by its row in the table.

    Returns:
        The eigenvalue and its vector, and which observations are in the class.

    Raises:
        DataError: The reference is never come back to, or the map is infinite or minus infinity
            somewhere.
        NotConverged: The eigenvalue could not be computed.
    """
    steps = empirical(data, lam).steps
    everything = np.arange(steps.n) < steps.n - 1  # the last one stands for terminal states
    parts = classes(steps, everything)
    own = next((part for part in parts if part[row]), None)
    if own is None:
        raise DataError(
            f"observation {row} of the table, the reference, is never come back to in these data.",
            remedy="Choose another reference=, or collect more transitions.",
        )
    _check_leads_to(steps, row)
    found = growth(steps, own)
    others = [(part, growth(steps, part)) for part in parts if part is not own]
    unknown = [one.bracket for one in [found, *(other for _, other in others)] if not one.is_known]
    if unknown:
        low, high = (lam * bound for bound in unknown[0])
        raise NotConverged(
            f"what a step is worth at lam = {lam:g} could not be computed: its bounds are "
            f"{low:.6g} and {high:.6g}.",
            remedy="Use a larger lam.",
        )
    for part, other in others:
        if other.log_eigenvalue >= found.log_eigenvalue:
            raise DataError(
                f"a step is worth {lam * found.log_eigenvalue:.6g} where the reference is, and "
                f"{lam * other.log_eigenvalue:.6g} in a part of the observations that is left for "
                f"good (number {int(part.argmax())} of the table is in it). The map is infinite "
                "there.",
                remedy="Choose a reference= in that part, and leave out what follows it.",
            )
    return found, own[:-1]


def _check_leads_to(steps: Steps, row: int) -> None:
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
