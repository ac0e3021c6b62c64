"""Which states can reach a goal, and which can reach each other."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int
from scipy.sparse import csgraph

from drogo.exact.rows import Rows
from drogo.mdp.arrays import leads_to as leads_to


def strong_classes(
    row: Int[np.ndarray, " edges"], column: Int[np.ndarray, " edges"], n: int
) -> tuple[int, Int[np.ndarray, " n"]]:
    """Returns the number of classes of states that can reach each other, and each state's class."""
    graph = sp.csr_array((np.ones(row.size), (row, column)), shape=(n, n))
    return csgraph.connected_components(graph, connection="strong")


class Reach:
    """Finds the states that can reach a goal, for one goal after another.

    States that can reach each other share one answer. In most worlds, all states but the terminal
    ones can, so that a goal costs a search among a handful of classes of states.
    """

    def __init__(self, rows: Rows) -> None:
        self.classes, self.label = strong_classes(rows.row, rows.column, rows.n)
        row, column = self.label[rows.row], self.label[rows.column]
        between = row != column
        self.row, self.column = row[between], column[between]

    def __call__(self, goals: Int[np.ndarray, " goals"]) -> Bool[np.ndarray, "states goals"]:
        """Returns for each goal the states that can reach it, the goal itself among them."""
        labels = self.label[goals]
        arrives = {
            label: leads_to(self.row, self.column, self.classes, np.array([label]))
            for label in np.unique(labels).tolist()
        }
        return np.stack([arrives[label][self.label] for label in labels.tolist()], axis=1)
