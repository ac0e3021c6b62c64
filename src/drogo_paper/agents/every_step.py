"""The return of the greedy policy after every single step of training, from a log of its changes.

Only a change of the best actions in a state that the greedy policy visits can change its return, so
the log is read backwards from the final policy, and the policy is evaluated at such changes alone.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from drogo.errors import ArgumentError
from drogo.mdp import MDP

EQUAL = 1e-6
"""The largest difference of returns that are equal."""


@dataclass(frozen=True)
class Walk:
    """A deterministic world in which a greedy policy is evaluated from one start."""

    next_state: Int[np.ndarray, "states actions"]
    reward: Float[np.ndarray, "states actions"]
    terminal: Bool[np.ndarray, " states"]
    start: int
    step_limit: int

    @classmethod
    def of(cls, mdp: MDP, step_limit: int) -> "Walk":
        """Returns the walk of an MDP, which must be deterministic and have one start."""
        after, starts = mdp.outcomes.next_state, np.flatnonzero(mdp.start)
        if after.shape[2] > 1 or starts.size != 1:
            problem = "an evaluation after every step needs a deterministic world with one start."
            raise ArgumentError(problem, argument="mdp")
        after = after[:, :, 0]
        reward = mdp.reward[:, None] + np.where(mdp.terminal, mdp.reward, 0.0)[after]
        return cls(after, reward, mdp.terminal, int(starts[0]), step_limit)

    def returns(
        self, best: Bool[np.ndarray, "states actions"]
    ) -> tuple[float, float, Bool[np.ndarray, " states"]]:
        """Returns the lowest and the highest return of a policy that chooses among its best actions
        at random, and the states that it may visit."""
        reached, edge = np.zeros(len(best), dtype=bool), np.array([self.start])
        while edge.size:
            reached[edge] = True
            edge = edge[~self.terminal[edge]]
            after = np.unique(self.next_state[edge][best[edge]])
            edge = after[~reached[after]]
        here = np.flatnonzero(reached & ~self.terminal)
        if (best[here].sum(axis=1) == 1).all():
            total = self.sample(best, np.random.default_rng(0))
            return total, total, reached
        bounds = []
        for worst, choose in ((np.inf, np.min), (-np.inf, np.max)):
            value = np.zeros(len(best))
            for _ in range(self.step_limit):
                each = self.reward[here] + value[self.next_state[here]]
                new = choose(np.where(best[here], each, worst), axis=1)
                if np.array_equal(new, value[here]):
                    break
                value[here] = new
            bounds.append(float(value[self.start]))
        return bounds[0], bounds[1], reached

    def sample(self, best: Bool[np.ndarray, "states actions"], rng: np.random.Generator) -> float:
        """Returns the return of one episode, in which ties are broken at random."""
        choices = [np.flatnonzero(row).tolist() for row in best]
        state, total = self.start, 0.0
        for number in rng.random(self.step_limit).tolist():
            action = choices[state][int(number * len(choices[state]))]
            total += float(self.reward[state, action])
            state = int(self.next_state[state, action])
            if self.terminal[state]:
                break
        return total


def last_different(
    walk: Walk,
    state: Integer[np.ndarray, " steps"],
    bits: Integer[np.ndarray, " steps"],
    rng: np.random.Generator,
) -> int:
    """Returns the last step after which the return differs from the final one, plus 1: the authors'
    measure of the steps until the final return is kept. Step 0 is before training, where all
    actions are equally good.

    Args:
        walk: The world.
        state: The state that each step left.
        bits: Its best actions after the step, as the bits of a number.
        rng: Breaks ties.
    """
    n, actions = walk.next_state.shape
    order, everything = np.argsort(state, kind="stable"), (1 << actions) - 1
    same = state[order][1:] == state[order][:-1]
    before, now = np.full(len(state), everything), np.full(n, everything)
    before[order[1:][same]] = bits[order[:-1][same]]
    last = order[np.append(~same, True)]  # the last step of each state
    now[state[last]] = bits[last]
    best = (now[:, None] >> np.arange(actions)) & 1 > 0
    low, high, reached = walk.returns(best)
    final = low if high - low < EQUAL else walk.sample(best, rng)
    end = len(state)  # the policy is that after this step

    def differs_until(first: int) -> int | None:
        """Returns the last step from `first` on at which this policy's return is another one."""
        if high - low < EQUAL:
            return end if abs(low - final) >= EQUAL else None
        steps = range(end, first - 1, -1)
        return next((at for at in steps if abs(walk.sample(best, rng) - final) >= EQUAL), None)

    for step in np.flatnonzero(bits != before)[::-1].tolist():
        counts = reached[state[step]]
        different = differs_until(step + 1) if counts else None
        if different is not None:
            return different + 1
        best[state[step]] = (int(before[step]) >> np.arange(actions)) & 1 > 0
        if counts:
            (low, high, reached), end = walk.returns(best), step
    different = differs_until(0)
    return 1 if different is None else different + 1
