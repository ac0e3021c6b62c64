"""A problem from outside the library, in one file: the paper's map with a cost for every step.

Many environments give a reward at the goal and none on the way. Such rewards have no map, and a cost
for every step makes one of them:

    solution = drogo.fit(data, ColumnWithCost(lam=4.0, cost=0.5))

A problem is a subclass of `AbstractProblem`, or of a problem that is close to it. This one changes
the rewards of the transitions that are learned from (`prepare`) and of those that are solved exactly
(`solve`). Every method that solves a `Column` then solves it, too, because methods know problems by
their `kind`.
"""

from dataclasses import replace
from typing import ClassVar

from drogo import Column
from drogo.errors import check_positive
from drogo.learn.settings import check_fields


class ColumnWithCost(Column):
    """`Column` of the rewards r - cost."""

    cost: float | list[float] = 1.0
    """The cost of every step, in units of reward."""

    host_only: ClassVar[tuple[str, ...]] = (*Column.host_only, "cost")

    def __check_init__(self):
        check_fields(self, cost=check_positive)

    def prepare(self, data, method):
        return super().prepare(self.with_cost(data), method)

    def solve(self, source):
        return super().solve(self.with_cost(source))

    def with_cost(self, data):
        """Returns transitions with the cost of every step in their rewards."""
        return replace(data, reward=data.reward - self.cost)
