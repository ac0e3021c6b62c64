"""Judges the rewards of an agent's steps as they come, for the map that learns from them."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from drogo.mdp.costs import Costs, Summary, Tally
from drogo.use.shaping import StepBatch

AS_THEY_ARE = Costs(step=0.0, charge=1.0, worth=0.0)
"""The costs where all rewards are negative, of ends too."""
NUMBERS = 3 * len(Summary()) + 7  # The length of `Judging.numbers` before the first end that pays.


def are_judged(steps: StepBatch) -> Bool[np.ndarray, " n"]:
    """Returns which steps ended an episode whose end is judged by its last reward."""
    return steps.terminated & np.isnan(steps.terminal_reward)


class Judging:
    """What steps cost and ends are worth by all rewards that were seen, as `drogo.solve` judges
    those of data. An agent that `explores` can look for better ends: until the rewards say that one
    is good, the best is worth ten of the longest episodes more than any that was seen.

    Args:
        given: The costs of the problem, or None.
        reward: The reward of every step in place of the agent's, or None.
    """

    def __init__(self, given: Costs | None, reward: float | None, *, explores: bool) -> None:
        self.given, self.reward, self.explores = given, reward, explores
        self.tally = Tally(replaced=reward is not None)
        self.reported = -np.inf
        """The best terminal reward that was reported, and not judged."""

    def see(self, steps: StepBatch, time: Float[np.ndarray, " n"] | None) -> None:
        """Counts the rewards of some steps."""
        judged, own = are_judged(steps), steps.reward
        time = np.zeros(own.size) if time is None else time
        reward = own if self.reward is None else np.full(own.size, self.reward)
        self.tally.add(reward, judged, own, time)
        if steps.terminated.any():
            reported = steps.terminal_reward[steps.terminated & ~judged]
            self.reported = float(reported.max(initial=self.reported))

    def costs(self) -> Costs:
        """Returns the costs by all rewards so far."""
        if self.given is not None:
            step, charge = self.given.step, self.given.charge
            if self.reward is None:
                return self.given
            return replace(self.given, step=step - charge * self.reward, charge=0.0)
        judged, ends = self.tally.judged(), self.tally.ends
        costs = judged.costs or AS_THEY_ARE
        # That all rewards are negative says nothing before other steps than those into ends.
        sure = judged.sure and (judged.costs is not None or self.tally.own.number)
        if sure or not (ends.number and self.explores):
            return costs
        worth = costs.worth or 1.0
        return replace(costs, best=ends.highest + self.tally.far(costs) / worth, worth=worth)

    def best(self) -> float:
        """Returns the best terminal reward that was seen; minus infinity before the first."""
        highest = self.tally.ends.highest
        value = self.costs().of_steps(0.0, True, highest)[1] if self.tally.ends.number else -np.inf
        return max(self.reported, float(value))

    @property
    def numbers(self) -> Float[np.ndarray, " n"]:
        """Everything that a file holds of this."""
        tally = self.tally
        single = [tally.longest, tally.least, tally.costly_ends, tally.times, tally.earned]
        rows = (tally.steps, tally.own, tally.ends, [*single, tally.falls, self.reported])
        return np.hstack([*rows, *sorted(tally.pairs)]).astype(np.float64)

    @numbers.setter
    def numbers(self, numbers: Float[np.ndarray, " n"]) -> None:
        single, pairs = numbers[:NUMBERS].tolist(), numbers[NUMBERS:].reshape(-1, 2)
        size = len(Summary())
        sums = [Summary(*single[k : k + size]) for k in range(0, 3 * size, size)]
        longest, least, costly, times, earned, falls, self.reported = single[3 * size :]
        rest = (least, bool(costly), times, earned, set(map(tuple, pairs.tolist())), bool(falls))
        self.tally = Tally(self.tally.replaced, int(longest), *sums, *rest)  # pyright: ignore
