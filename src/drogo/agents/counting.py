"""Sarsa and Q-learning with a bonus for what is new, in worlds that never end.

Many *lanes* take their steps together, as a few operations on small arrays. A lane is one agent
with its own random numbers, so that its result does not depend on the other lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from drogo.errors import ArgumentError, NumericalError, check_choice, check_share, check_whole
from drogo.use.counts import AbstractCounts, CountedStep, Lanes
from drogo.worlds.continuing import ContinuingWorld

TARGETS = ("sarsa", "q-learning")
BLOCK = 500
"""How many numbers of each lane are drawn together."""

Values = Float[np.ndarray, "lanes actions"]


@runtime_checkable
class Chance(Protocol):
    """What is left to chance in some lanes: where they begin, what they do, where that leads."""

    def start(self) -> Lanes:
        """Returns first states."""
        ...

    def act(self, values: Values) -> Lanes:
        """Returns actions, mostly the best ones."""
        ...

    def move(self, state: Lanes, action: Lanes) -> Lanes:
        """Returns next states."""
        ...


class Drawn:
    """Chance that is drawn from one generator for each lane.

    Args:
        world: The world.
        epsilon: The probability of a random action. Otherwise one of the best is taken.
        rngs: The generators of the lanes.
    """

    def __init__(
        self, world: ContinuingWorld, epsilon: float, rngs: Sequence[np.random.Generator]
    ) -> None:
        self.world, self.epsilon, self.rngs = world, check_share("epsilon", epsilon), rngs
        self._block, self._used = np.zeros((0, len(rngs))), 0

    def _numbers(self) -> Float[np.ndarray, " lanes"]:
        """Returns the next uniform number in [0, 1) of each lane."""
        if self._used == len(self._block):
            self._block = np.stack([rng.random(BLOCK) for rng in self.rngs], axis=1)
            self._used = 0
        self._used += 1
        return self._block[self._used - 1]

    def start(self) -> Lanes:
        cumulative = self.world.start.cumsum()
        last = np.flatnonzero(self.world.start)[-1]
        return np.minimum(np.searchsorted(cumulative, self._numbers(), side="right"), last)

    def act(self, values: Values) -> Lanes:
        explores, which = self._numbers() < self.epsilon, self._numbers()
        allowed = (values == values.max(axis=1, keepdims=True)) | explores[:, None]
        counted = allowed.cumsum(axis=1)
        chosen = np.floor(which * counted[:, -1])
        return (counted > chosen[:, None]).argmax(axis=1)

    def move(self, state: Lanes, action: Lanes) -> Lanes:
        return (self._numbers()[:, None] < self.world.cumulative[state, action]).argmax(axis=1)


@dataclass(frozen=True, eq=False)
class CountingRuns:
    """What some agents earned.

    Args:
        returns: The undiscounted sum of the rewards of each lane, without bonuses.
        visits: How often each lane took each action.
        q: The action values at the end.
    """

    returns: Float[np.ndarray, " lanes"]
    visits: Int[np.ndarray, "lanes states actions"]
    q: Float[np.ndarray, "lanes states actions"]


def run_counting(
    world: ContinuingWorld,
    chance: Chance,
    *,
    step_size: float,
    discount: float = 0.95,
    counts: AbstractCounts | None = None,
    target: str = "sarsa",
    steps: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> CountingRuns:
    """Runs one episode of each lane, in which an agent learns with rewards and bonuses.

    After each step the agent draws an action for the next state, from which the representation
    bootstraps, and Sarsa too. The action that is taken next is drawn anew, from the values after
    the update. Nothing is bootstrapped on the last step. (All of this is as published.)

    Args:
        world: The world.
        chance: Where lanes begin, what they do and where that leads, such as `Drawn`.
        step_size: The step size of the action values, which begin at 0.
        discount: The discount of the action values.
        counts: What gives the bonuses. Without it there are none.
        target: "sarsa" bootstraps from the action that was drawn, "q-learning" from the best one.
        steps: How many steps an episode has, by default as many as the world says.
        progress: Called now and then with the share of the steps that were taken.

    Returns:
        What the agents earned.

    Raises:
        NumericalError: A value is not finite.
    """
    check_choice("target", target, TARGETS)
    step_size, discount = check_share("step_size", step_size), check_share("discount", discount)
    steps = check_whole("steps", world.step_limit if steps is None else steps, 1)
    state = chance.start()
    lane = np.arange(len(state))
    if counts is not None and len(counts.table) != len(lane):
        raise ArgumentError(f"counts has {len(counts.table)} lanes, and there are {len(lane)}.")
    q = np.zeros((len(lane), world.n_states, world.n_actions))
    visits = np.zeros(q.shape, dtype=np.int64)
    earned = np.zeros(len(lane))
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found below
        for number in range(steps):
            action = chance.act(q[lane, state])
            following = chance.move(state, action)
            reward = world.reward[state, action, following]
            next_action = chance.act(q[lane, following])
            over = np.full(len(lane), number == steps - 1)
            gained = reward
            if counts is not None:
                step = CountedStep(state, action, reward, following, next_action, over)
                gained = reward + counts.update(step)
            after = q[lane, following]
            worth = after[lane, next_action] if target == "sarsa" else after.max(axis=1)
            goal = gained + np.where(over, 0.0, discount * worth)
            q[lane, state, action] += step_size * (goal - q[lane, state, action])
            visits[lane, state, action] += 1
            earned += reward
            state = following
            if progress is not None and number % BLOCK == 0:
                progress(number / steps)
    if not np.isfinite(q).all():
        raise NumericalError(
            "an action value is not finite: the bonus or the step size is too large."
        )
    return CountingRuns(earned, visits, q)
