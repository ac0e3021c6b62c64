"""Bonuses for what is new, from the norm of a representation that is learned along the way.

The rows of a default or a successor representation that is learned by temporal differences tell how
often a state was left: a row moves from where it began to its fixed point as it is updated. So a
norm of a row counts, without counting, and also generalises to what leads to the same places.

- `DefaultCounts`: over pairs of a state and an action, with the bonus `weight log ||Z(sa, .)||_2`
  (Tse, Chandrasekar and Machado, 2025). A row begins as that of the identity, whose log norm is 0,
  and shrinks, the more the worse its rewards are: what is known and pays little is a loss.
- `SuccessorCounts`: over states, with the bonus `weight / ||SR(s, .)||_1` (Machado, Bellemare and
  Bowling, 2020). A row begins at 0 and grows: what is new is a gain.

Both hold many *lanes*, of one learner each, which take their steps together.
"""

from __future__ import annotations

import abc
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError, check_number, check_share, check_whole

ROUNDING = 1e-9
"""How far, relatively, a reward may be above the best one that was promised."""

Lanes = Int[np.ndarray, " lanes"]


class CountedStep(NamedTuple):
    """One step of every lane, and the action that follows it."""

    state: Lanes
    action: Lanes
    reward: Float[np.ndarray, " lanes"]
    next_state: Lanes
    next_action: Lanes
    ended: Bool[np.ndarray, " lanes"]
    """Whether the episode is over. Nothing is then bootstrapped."""


class AbstractCounts(abc.ABC):
    """A representation that is learned from steps, with a bonus for each of them.

    Args:
        n: How many rows it has: states, or pairs of a state and an action.
        step_size: The step size of its updates.
        weight: What the bonus is multiplied with (beta).
        lanes: How many learners there are.
    """

    def __init__(self, n: int, *, step_size: float, weight: float, lanes: int) -> None:
        self.step_size, self.weight = check_share("step_size", step_size), weight
        self.table: Float[np.ndarray, "lanes n n"] = np.zeros(
            (check_whole("lanes", lanes, 1), n, n)
        )
        self._lane = np.arange(lanes)

    @abc.abstractmethod
    def update(self, step: CountedStep) -> Float[np.ndarray, " lanes"]:
        """Learns from one step of every lane, and returns the bonus of each.

        Args:
            step: The step.
        """

    def _towards(
        self, at: Lanes, next_at: Lanes, gain: np.ndarray, carry: np.ndarray
    ) -> Float[np.ndarray, "lanes n"]:
        """Moves rows towards `gain 1_at + carry table[next_at]`, and returns them."""
        target = carry[:, None] * self.table[self._lane, next_at]
        target[self._lane, at] += gain
        row = self.table[self._lane, at]
        row += self.step_size * (target - row)
        self.table[self._lane, at] = row
        return row


@final
class DefaultCounts(AbstractCounts):
    """The default representation over pairs of a state and an action, learned along the steps.

    `Z(sa, .) += step_size (exp(x/lam) (1_sa + Z(s'a', .)) - Z(sa, .))`, which tends to
    `(diag(exp(-x/lam)) - P)^-1`. Rewards must not be positive in it: x is `(r - best) / unit`.

    Args:
        states: The number of states.
        actions: The number of actions.
        lam: The temperature lambda.
        step_size: The step size of the representation.
        weight: What the bonus is multiplied with (beta).
        best: The largest reward that there is.
        unit: What rewards are divided by.
        lanes: How many learners there are.
    """

    def __init__(
        self,
        states: int,
        actions: int,
        *,
        lam: float,
        step_size: float,
        weight: float,
        best: float = 0.0,
        unit: float = 1.0,
        lanes: int = 1,
    ) -> None:
        for name, number in (("lam", lam), ("unit", unit)):
            if check_number(name, number) <= 0:
                raise ArgumentError(f"{name} is {number}; it must be positive.")
        self.actions, self.lam, self.best, self.unit = actions, lam, best, unit
        super().__init__(states * actions, step_size=step_size, weight=weight, lanes=lanes)
        self.table[:] = np.eye(states * actions)

    def update(self, step: CountedStep) -> Float[np.ndarray, " lanes"]:
        x = (step.reward - self.best) / self.unit
        if x.max() > ROUNDING * abs(self.best / self.unit):
            raise ArgumentError(
                f"a reward is {step.reward.max():g}, and best is {self.best:g}. Rewards above the "
                "best would let the representation grow without bounds.",
                remedy="Give the largest reward of the environment as best.",
            )
        factor = np.exp(x / self.lam)
        at = step.state * self.actions + step.action
        next_at = step.next_state * self.actions + step.next_action
        row = self._towards(at, next_at, factor, np.where(step.ended, 0.0, factor))
        return self.weight * np.log(np.sqrt(np.einsum("ln,ln->l", row, row)))


@final
class SuccessorCounts(AbstractCounts):
    """The successor representation over states, learned along the steps.

    `SR(s, .) += step_size (1_s + discount SR(s', .) - SR(s, .))`.

    Args:
        states: The number of states.
        discount: The discount of the representation, which need not be that of the agent.
        step_size: The step size of the representation.
        weight: What the bonus is multiplied with (beta).
        lanes: How many learners there are.
    """

    def __init__(
        self, states: int, *, discount: float, step_size: float, weight: float, lanes: int = 1
    ) -> None:
        self.discount = check_share("discount", discount)
        super().__init__(states, step_size=step_size, weight=weight, lanes=lanes)

    def update(self, step: CountedStep) -> Float[np.ndarray, " lanes"]:
        carry = np.where(step.ended, 0.0, self.discount)
        row = self._towards(step.state, step.next_state, np.ones(len(carry)), carry)
        return self.weight / np.abs(row).sum(axis=1)
