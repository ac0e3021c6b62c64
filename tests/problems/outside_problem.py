"""A problem from outside the library, in one file: the paper's map with a cost for every step.

Many environments give a reward at the goal and none on the way. Such rewards have no map, and a cost
for every step makes one of them:

    solution = drogo.fit(data, ColumnWithCost(lam=4.0, cost=0.5))

A problem is a subclass of `AbstractProblem`, or of a problem that is close to it. This one changes
the rewards of whatever is solved or learned from (`given`). Every method that solves a `Column` then
solves it, too, because methods know problems by their `kind`.
"""

from dataclasses import replace

import numpy as np

from drogo import MDP, Column
from drogo.errors import check_positive
from drogo.learn.settings import check_fields


class ColumnWithCost(Column):
    """`Column` of the rewards r - cost."""

    cost: float | list[float] = 1.0
    """The cost of every step, in units of reward."""

    def __check_init__(self):
        check_fields(self, cost=check_positive)

    def given(self, source):
        reward = source.reward - self.cost
        if isinstance(source, MDP):  # whose terminal states keep their terminal rewards
            reward = np.where(source.terminal, source.reward, reward)
        return replace(source, reward=reward)
