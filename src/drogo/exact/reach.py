"""Which states can reach a goal."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int
from scipy.sparse import csgraph

from drogo.exact.rows import Rows


def leads_to(
    row: Int[np.ndarray, " steps"],
    column: Int[np.ndarray, " steps"],
    n: int,
    ends: Int[np.ndarray, " ends"],
) -> Bool[np.ndarray, " n"]:
    """Returns the nodes from which one of `ends` can be reached by steps from `row` to `column`."""
    # A further node leads to all ends, and every step is taken backwards.
    sources = np.concatenate([column, np.full(ends.size, n)])
    reached = np.concatenate([row, ends])
    graph = sp.csr_array((np.ones(sources.size), (sources, reached)), shape=(n + 1, n + 1))
    found = csgraph.breadth_first_order(graph, n, return_predecessors=False)
    leads = np.zeros(n + 1, dtype=bool)
    leads[found] = True
    return leads[:n]


class Reach:
    """Answers for one goal after another which states can reach it.

    States that can reach each other have one answer. In most worlds all but the terminal ones can,
    so a goal costs a search among a handful of classes of states.
    """

    def __init__(self, rows: Rows) -> None:
        graph = sp.csr_array((np.ones(rows.row.size), (rows.row, rows.column)), (rows.n, rows.n))
        self.classes, self.label = csgraph.connected_components(graph, connection="strong")
        row, column = self.label[rows.row], self.label[rows.column]
        between = row != column
        self.row, self.column = row[between], column[between]

    def __call__(self, goals: Int[np.ndarray, " goals"]) -> Bool[np.ndarray, "states goals"]:
        """Returns for each goal the states that can reach it, the goal itself among them."""
        labels = self.label[goals]
        known = {
            label: leads_to(self.row, self.column, self.classes, np.array([label]))
            for label in np.unique(labels).tolist()
        }
        return np.stack([known[label][self.label] for label in labels.tolist()], axis=1)
