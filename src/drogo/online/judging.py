"""Judges the rewards of an agent's steps as they come, for the map that learns from them."""

import numpy as np
from jaxtyping import Bool, Float

from drogo.mdp.costs import EPISODES_OF_AN_END, LEAST_HORIZON, Costs

Numbers = Float[np.ndarray, " n"]


class Judging:
    """The costs of steps and the values of ends, by the rewards that were seen so far.

    A step costs what its reward says; 1 while none was negative; and the mean charge besides where
    only some are. An end is as good as the best, 0, unless its reward is one that the environment
    punishes with, or, where steps cost nothing, not positive: then it is as bad as 1,000 steps.
    """

    def __init__(self, costs: Costs | None, reward: float | None) -> None:
        self.costs, self.reward = costs, reward
        self.numbers = np.array([0.0, 0.0, 0.0, 0.0, np.inf, -np.inf])
        """Of the steps that ended nothing: their number, that of negative ones, the sum of these
        with a plus, and of all; the lowest and the highest."""

    def see(self, reward: Numbers, terminated: Bool[np.ndarray, " n"]) -> None:
        """Counts the rewards of some steps."""
        each = reward[~terminated]
        charge = np.maximum(-each, 0.0)
        self.numbers[:4] += each.size, (each < 0).sum(), charge.sum(), each.sum()
        self.numbers[4] = each.min(initial=self.numbers[4])
        self.numbers[5] = each.max(initial=self.numbers[5])

    @property
    def _usual(self) -> float:
        """The mean cost of a step."""
        count, negative, charge = self.numbers[:3]
        if self.reward is not None:
            return -self.reward
        return charge / count if negative else 1.0

    @property
    def _all_cost(self) -> bool:
        return bool(self.numbers[0] == self.numbers[1])

    def of_steps(self, reward: Numbers, terminated: Bool[np.ndarray, " n"]) -> Numbers:
        """Returns the rewards of the map."""
        if self.costs is not None:
            return self.costs.of_steps(reward, terminated, reward)[0]
        if self.reward is not None:
            return np.full(len(reward), self.reward)
        if self._all_cost:
            return np.where(reward < 0, reward, -self._usual)
        return np.minimum(reward, 0.0) - self._usual if self.numbers[1] else -np.ones(len(reward))

    def of_ends(self, reward: Numbers, terminated: Bool[np.ndarray, " n"]) -> Numbers:
        """Returns the terminal rewards of the map."""
        if self.costs is not None:
            return self.costs.of_steps(reward, terminated, reward)[1]
        _, negative, _, total, lowest, highest = self.numbers
        if self._all_cost and self.reward is None:  # the last reward is a cost like all others
            bad = np.zeros(len(reward), dtype=bool)
        else:
            bad = (reward < lowest) | ((total > 0) & (reward <= highest))
            bad |= (reward <= 0) & (not negative)
        return np.where(terminated & bad, -EPISODES_OF_AN_END * LEAST_HORIZON * self._usual, 0.0)
