"""A problem from outside the library: the paper's map with a cost for every step."""

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
