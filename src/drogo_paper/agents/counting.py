"""Sarsa and Q-learning with exploration bonuses, in worlds that never end. The bonus is a norm of a
row of a learned representation, which counts visits and generalises to similar states."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo import errors
from drogo.errors import ArgumentError, NumericalError, check_share, check_whole
from drogo_paper.continuing_worlds import ContinuingWorld

TARGETS = ("sarsa", "q-learning")
BLOCK = 500
"""Random numbers of each run that are sampled together."""
ROUNDING = 1e-9
"""The relative excess over the best reward that counts as rounding."""

PerRun = Int[np.ndarray, " runs"]
Values = Float[np.ndarray, "runs actions"]


class CountedStep(NamedTuple):
    """One step of every run, and the action that follows it."""

    state: PerRun
    action: PerRun
    reward: Float[np.ndarray, " runs"]
    next_state: PerRun
    next_action: PerRun
    ended: Bool[np.ndarray, " runs"]
    """Whether the episode is over, so that nothing is bootstrapped."""


class AbstractCounts(abc.ABC):
    """A representation with `n` rows that is learned from steps, with a bonus for each."""

    def __init__(self, n: int, *, step_size: float, weight: float, runs: int) -> None:
        self.step_size, self.weight = check_share("step_size", step_size), weight
        self.table: Float[np.ndarray, "runs n n"] = np.zeros((check_whole("runs", runs, 1), n, n))
        self._index = np.arange(runs)

    @abc.abstractmethod
    def update(self, step: CountedStep) -> Float[np.ndarray, " runs"]:
        """Learns from one step of every run, and returns their bonuses."""

    def _towards(
        self, at: PerRun, next_at: PerRun, gain: np.ndarray, carry: np.ndarray
    ) -> Float[np.ndarray, "runs n"]:
        """Moves rows towards `gain 1_at + carry table[next_at]`, and returns them."""
        target = carry[:, None] * self.table[self._index, next_at]
        target[self._index, at] += gain
        row = self.table[self._index, at]
        row += self.step_size * (target - row)
        self.table[self._index, at] = row
        return row


@final
class DefaultCounts(AbstractCounts):
    """The default representation over pairs of a state and an action, with the bonus `weight log
    ||Z(sa, .)||_2` (Tse, Chandrasekar and Machado, 2025). It learns from `x = (r - best) / unit`:
    `Z(sa, .) += step_size (exp(x/lam) (1_sa + Z(s'a', .)) - Z(sa, .))`."""

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
        runs: int = 1,
    ) -> None:
        errors.check_positive("lam", lam)
        errors.check_positive("unit", unit)
        self.actions, self.lam, self.best, self.unit = actions, lam, best, unit
        super().__init__(states * actions, step_size=step_size, weight=weight, runs=runs)
        self.table[:] = np.eye(states * actions)

    def update(self, step: CountedStep) -> Float[np.ndarray, " runs"]:
        x = (step.reward - self.best) / self.unit
        if x.max() > ROUNDING * abs(self.best / self.unit):
            problem = f"a reward is {step.reward.max():g}, and best is {self.best:g}."
            remedy = "Give the largest reward of the environment as best."
            raise ArgumentError(problem, remedy=remedy, argument="best")
        factor = np.exp(x / self.lam)
        at = step.state * self.actions + step.action
        next_at = step.next_state * self.actions + step.next_action
        row = self._towards(at, next_at, factor, np.where(step.ended, 0.0, factor))
        return self.weight * np.log(np.sqrt(np.einsum("ln,ln->l", row, row)))


@final
class SuccessorCounts(AbstractCounts):
    """The successor representation over states, with the bonus `weight / ||SR(s, .)||_1` (Machado,
    Bellemare and Bowling, 2020). Its discount need not be that of the agent."""

    def __init__(
        self, states: int, *, discount: float, step_size: float, weight: float, runs: int = 1
    ) -> None:
        self.discount = check_share("discount", discount)
        super().__init__(states, step_size=step_size, weight=weight, runs=runs)

    def update(self, step: CountedStep) -> Float[np.ndarray, " runs"]:
        carry = np.where(step.ended, 0.0, self.discount)
        row = self._towards(step.state, step.next_state, np.ones(len(carry)), carry)
        return self.weight / np.abs(row).sum(axis=1)


@runtime_checkable
class Chance(Protocol):
    """The random choices of some runs: first states, actions (mostly the best), next states."""

    def start(self) -> PerRun: ...
    def act(self, values: Values) -> PerRun: ...
    def move(self, state: PerRun, action: PerRun) -> PerRun: ...


class SampledChance:
    """Random choices from one generator for each run, with epsilon-greedy actions."""

    def __init__(
        self, world: ContinuingWorld, epsilon: float, rngs: Sequence[np.random.Generator]
    ) -> None:
        self.world, self.epsilon, self.rngs = world, check_share("epsilon", epsilon), rngs
        self._block, self._used = np.zeros((0, len(rngs))), 0

    def _numbers(self) -> Float[np.ndarray, " runs"]:
        if self._used == len(self._block):
            self._block = np.stack([rng.random(BLOCK) for rng in self.rngs], axis=1)
            self._used = 0
        self._used += 1
        return self._block[self._used - 1]

    def start(self) -> PerRun:
        cumulative = self.world.start.cumsum()
        last = np.flatnonzero(self.world.start)[-1]
        return np.minimum(np.searchsorted(cumulative, self._numbers(), side="right"), last)

    def act(self, values: Values) -> PerRun:
        explores, which = self._numbers() < self.epsilon, self._numbers()
        allowed = (values == values.max(axis=1, keepdims=True)) | explores[:, None]
        counted = allowed.cumsum(axis=1)
        chosen = np.floor(which * counted[:, -1])
        return (counted > chosen[:, None]).argmax(axis=1)

    def move(self, state: PerRun, action: PerRun) -> PerRun:
        return (self._numbers()[:, None] < self.world.cumulative[state, action]).argmax(axis=1)


@dataclass(frozen=True, eq=False)
class CountingRuns:
    """The result of `run_counting`."""

    returns: Float[np.ndarray, " runs"]
    """Undiscounted, without bonuses."""
    q: Float[np.ndarray, "runs states actions"]


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
    """Runs one episode of each run, in which an agent learns with rewards and bonuses. As
    published, Sarsa and the representation bootstrap from an action that is sampled before the
    update; the action that is taken is sampled again after it."""
    errors.check_choice("target", target, TARGETS)
    step_size, discount = check_share("step_size", step_size), check_share("discount", discount)
    steps = check_whole("steps", world.step_limit if steps is None else steps, 1)
    state = chance.start()
    run = np.arange(len(state))
    if counts is not None and len(counts.table) != len(run):
        raise ArgumentError(
            f"counts has {len(counts.table)} runs, and there are {len(run)}.", argument="counts"
        )
    q = np.zeros((len(run), world.n_states, world.n_actions))
    earned = np.zeros(len(run))
    with np.errstate(invalid="ignore", over="ignore"):  # checked below
        for number in range(steps):
            action = chance.act(q[run, state])
            following = chance.move(state, action)
            reward = world.reward[state, action, following]
            next_action = chance.act(q[run, following])
            over = np.full(len(run), number == steps - 1)
            gained = reward
            if counts is not None:
                step = CountedStep(state, action, reward, following, next_action, over)
                gained = reward + counts.update(step)
            after = q[run, following]
            worth = after[run, next_action] if target == "sarsa" else after.max(axis=1)
            goal = gained + np.where(over, 0.0, discount * worth)
            q[run, state, action] += step_size * (goal - q[run, state, action])
            earned += reward
            state = following
            if progress is not None and number % BLOCK == 0:
                progress(number / steps)
    if not np.isfinite(q).all():
        raise NumericalError("an action value is infinite: the bonus or step size is too large.")
    return CountingRuns(earned, q)
