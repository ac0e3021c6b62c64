"""What a step of a task that never ends is worth, computed from transitions whose states repeat."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from drogo.data import Transitions
from drogo.data.empirical import empirical
from drogo.errors import DataError, NotConverged
from drogo.exact.growth import Growth, Steps, classes, growth

KNOWN = 1e-6
"""How near the bounds of an eigenvalue that was computed must be, in logs."""


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
        DataError: The reference is never come back to, or the map is infinite somewhere.
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
    if not found.bracket[1] - found.bracket[0] <= KNOWN * (1 + abs(found.log_eigenvalue)):
        raise NotConverged(
            f"what a step is worth at lam = {lam:g} could not be computed: its bounds are "
            f"{lam * found.bracket[0]:.6g} and {lam * found.bracket[1]:.6g}.",
            remedy="Use a larger lam.",
        )
    for part in parts:
        other = growth(steps, part).log_eigenvalue if part is not own else -np.inf
        if other >= found.log_eigenvalue:
            raise DataError(
                f"a step is worth {lam * found.log_eigenvalue:.6g} where the reference is, and "
                f"{lam * other:.6g} in a part of the observations that is left for good (number "
                f"{int(part.argmax())} of the table is in it). The map is infinite there.",
                remedy="Choose a reference= in that part, and leave out what follows it.",
            )
    return found, own[:-1]


def _check_leads_to(steps: Steps, row: int) -> None:
    """Raises an error unless all states that were ever left lead to the reference."""
    graph = sp.csr_array(
        (np.ones(steps.state.size), (steps.next_state, steps.state)), shape=(steps.n, steps.n)
    )
    leads = np.zeros(steps.n, dtype=bool)
    leads[csgraph.breadth_first_order(graph, row, return_predecessors=False)] = True
    lost = np.setdiff1d(steps.state, np.flatnonzero(leads))
    if lost.size:
        raise DataError(
            f"{lost.size} observations never lead to the reference in these data (the first is "
            f"number {int(lost[0])} of the table), so that the map is minus infinity there.",
            remedy="Choose a reference= that they lead to, collect more transitions, or leave "
            "these out.",
        )
