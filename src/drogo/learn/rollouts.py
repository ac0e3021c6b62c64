"""Rollouts that follow a learned map, and what they tell of its values.

The value is `v(s) = log E[exp(sum of r/lam + terminal value/lam)]` over the default policy's
episodes from s. Rollouts that follow the learned map estimate it without bias: in each state
several actions are tried, one is chosen in proportion to what the map promises of it, and the
weight of the rollout is multiplied by what all of them promise together over what the state
promised. If the map is right, and every action is tried and has one outcome, this quotient is 1
everywhere. Otherwise the weights say by how much it is wrong, and how well that is known. Rollouts
of small weight are
replaced by copies of others on the way (a particle filter), which leaves the estimate unbiased.

A rollout does not go where the map promises little, so a map that is much too low in one place
hides what lies behind it. Therefore one action that was not chosen is followed one step further in
every step. What the actions that were not chosen turn out to promise beyond their values, and what
the chosen one does, are two estimates of the same mean: the one takes all actions alike and weighs
them, the other takes them as rollouts do. If the first exceeds the second, rollouts have missed
something: to first order, the value of the start is higher by that much. The interval is then not
believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int
from scipy.special import (
    logsumexp,
    stdtrit,  # importing scipy.stats takes a second
)

from drogo.data.simulate import Simulator
from drogo.errors import ArgumentError

MOST_GAIN = 50.0
"""A larger gain counts as this one, the log of a number that is far beyond every tolerance."""
SAME = 1e-6
"""Rewards that differ by less are the same."""

Values = Callable[[np.ndarray], Float[np.ndarray, " n"]]


class Groups(NamedTuple):
    """What groups of rollouts tell of the states where they started."""

    log_low: Float[np.ndarray, "starts groups"]
    """The log of the mean weight of each group. Only rollouts that arrived count."""
    log_all: Float[np.ndarray, "starts groups"]
    """The same, and all rollouts count."""
    rise: Float[np.ndarray, "starts groups"]
    """By how much the actions that were not chosen exceeded those that were, along the way."""

    @property
    def surprise(self) -> Float[np.ndarray, " starts"]:
        """The mean of `rise`, less one standard error: it is noisy where actions are continuous."""
        error = self.rise.std(axis=1, ddof=1) / np.sqrt(self.rise.shape[1])
        return self.rise.mean(axis=1) - error

    def joined(self, more: Groups) -> Groups:
        """Returns these groups and more of them from the same starts."""
        return Groups(*(np.concatenate(parts, axis=1) for parts in zip(self, more, strict=True)))


@dataclass(frozen=True)
class Walk:
    """Rollouts that follow a map.

    Args:
        sim: The environment.
        values: The map.
        lam: The temperature.
        candidates: How many actions are tried, if they are continuous.
        steps: The most steps.
        rng: The random numbers.
        default_policy: The probability of each action, if the environment does not know it.
        same_rewards: Whether it is an error if the actions of a state have different rewards.
    """

    sim: Simulator
    values: Values
    lam: float
    candidates: int
    steps: int
    rng: np.random.Generator
    default_policy: npt.ArrayLike | None = None
    same_rewards: bool = False

    def promises(
        self, states: np.ndarray
    ) -> tuple[np.ndarray, Float[np.ndarray, "n k"], Float[np.ndarray, "n k"], np.ndarray]:
        """Tries actions in each state.

        Returns:
            The states that they lead to (n, k), the log of what the map promises of each, the
            values there, and which of them are terminal.
        """
        actions, log_share = self.sim.candidates(states, self.candidates, self.rng)
        if self.default_policy is not None:
            with np.errstate(divide="ignore"):
                log_share = np.broadcast_to(np.log(self.default_policy), log_share.shape)
        n, k = log_share.shape
        flat = actions.reshape(n * k, *actions.shape[2:])
        after = self.sim.step(np.repeat(states, k, axis=0), flat, self.rng)
        if self.same_rewards and np.ptp(after.reward.reshape(n, k), axis=1).max() > SAME:
            raise ArgumentError(
                "the reward depends on the action, and a fit with scaled=False then learns other "
                "values than those of rollouts. Use scaled=True."
            )
        live = ~after.terminated
        v = after.terminal_reward / self.lam
        if live.any():
            v[live] = self.values(after.observations[live])
        promised = log_share + (after.reward / self.lam + v).reshape(n, k)
        arrived = after.states.reshape(n, k, *after.states.shape[1:])
        return arrived, promised, v.reshape(n, k), after.terminated.reshape(n, k)

    def weights(
        self, states: np.ndarray, claimed: Float[np.ndarray, " starts"], groups: int, size: int
    ) -> Groups:
        """Rolls out groups of rollouts from each of some states.

        Args:
            states: The states to start in.
            claimed: The map's values there.
            groups: The number of groups from each start.
            size: The number of rollouts in each group.
        """
        shape = (len(states) * groups, size)
        at = np.repeat(states, groups * size, axis=0)
        v = np.repeat(claimed, groups * size)
        over, log_weight = np.zeros(at.shape[0], dtype=bool), np.zeros(at.shape[0])
        total, surprise = np.zeros(shape[0]), np.zeros(at.shape[0])
        others = np.zeros(at.shape[0])  # the share of the actions that were not chosen
        for _ in range(self.steps):
            live = np.flatnonzero(~over)
            if not live.size:
                break
            arrived, promised, values, terminal = self.promises(at[live])
            together = np.asarray(logsumexp(promised, axis=1))
            log_weight[live] += together - v[live]
            surprise[live] -= others[live] * _gain(together - v[live])
            one = (np.arange(live.size), _drawn(promised, self.rng))
            others[live] = -np.expm1(promised[one] - together)
            surprise[live] += self.surprises(arrived, promised, values, terminal, one[1])
            at[live], v[live], over[live] = arrived[one], values[one], terminal[one]
            kept, log_weight, total = _resampled(log_weight.reshape(shape), total, self.rng)
            at, v, over = at[kept], v[kept], over[kept]
            surprise, others = surprise[kept], others[kept]
        log_weight = log_weight.reshape(shape)
        arrived_only = np.where(over.reshape(shape), log_weight, -np.inf)
        low, high = (total + _log_mean(part) for part in (arrived_only, log_weight))
        rise = surprise.reshape(len(states), groups, size).mean(axis=2)
        return Groups(low.reshape(-1, groups), high.reshape(-1, groups), rise)

    def surprises(
        self,
        arrived: np.ndarray,
        promised: Float[np.ndarray, "n k"],
        values: Float[np.ndarray, "n k"],
        terminal: Bool[np.ndarray, "n k"],
        chosen: Int[np.ndarray, " n"],
    ) -> Float[np.ndarray, " n"]:
        """Follows one action that was not chosen in each state one step further.

        Args:
            arrived: Where each action led.
            promised: The log of what the map promises of each.
            values: The map's value there.
            terminal: Which of them are terminal.
            chosen: The action that the rollout takes.

        Returns:
            What this would add to that which all actions promise together, as a share of it and
            for all actions that were not chosen.
        """
        rows, count = np.arange(len(chosen)), promised.shape[1]
        rise = np.zeros(len(chosen))
        if count == 1:
            return rise
        other = (chosen + self.rng.integers(1, count, size=chosen.size)) % count
        some = np.flatnonzero(~terminal[rows, other] & np.isfinite(promised[rows, other]))
        if some.size:
            one = (some, other[some])
            share = np.exp(promised[one] - np.asarray(logsumexp(promised[some], axis=1)))
            further = np.asarray(logsumexp(self.promises(arrived[one])[1], axis=1))
            rise[some] = (count - 1) * share * _gain(further - values[one])
        return rise

    def ascents(self, states: np.ndarray) -> Bool[np.ndarray, " starts"]:
        """Returns from which states the steepest ascent of the map reaches a terminal state."""
        over, at = np.zeros(len(states), dtype=bool), states.copy()
        for _ in range(self.steps):
            live = np.flatnonzero(~over)
            if not live.size:
                break
            arrived, promised, _, terminal = self.promises(at[live])
            one = (np.arange(live.size), promised.argmax(axis=1))
            at[live], over[live] = arrived[one], terminal[one]
        return over


def _gain(log_ratio: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Returns by what share a promise exceeded the value that it was compared with."""
    return np.expm1(np.minimum(log_ratio, MOST_GAIN))


def _log_mean(logs: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """Returns the log of the mean of the exponentials of each row."""
    return np.asarray(logsumexp(logs, axis=1)) - np.log(logs.shape[1])


def _drawn(log_chance: Float[np.ndarray, "n k"], rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """Draws an index of each row in proportion to the exponentials of its numbers."""
    chance = np.exp(log_chance - log_chance.max(axis=1, keepdims=True)).cumsum(axis=1)
    drawn = rng.random((len(chance), 1)) * chance[:, -1:]
    return (drawn >= chance[:, :-1]).sum(axis=1)


def _resampled(
    log_weight: Float[np.ndarray, "groups size"],
    total: Float[np.ndarray, " groups"],
    rng: np.random.Generator,
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " groups"]]:
    """Draws anew from the groups in which few rollouts have most of the weight.

    Returns:
        Which rollout each one becomes, the log weights, and the log of the mean weights that the
        groups had before they were drawn from.
    """
    groups, size = log_weight.shape
    kept = np.tile(np.arange(size), (groups, 1))
    mean = _log_mean(log_weight)
    share = np.exp(log_weight - mean[:, None]) / size
    poor = (1 / (share**2).sum(axis=1) < size / 2) & np.isfinite(mean)
    if poor.any():
        # One random number for a whole group, and equal distances: the least added noise.
        marks = (rng.random((poor.sum(), 1)) + np.arange(size)) / size
        ends = share[poor].cumsum(axis=1)
        ends[:, -1] = 1.0
        kept[poor] = (marks[:, :, None] >= ends[:, None, :-1]).sum(axis=2)
        log_weight = np.where(poor[:, None], 0.0, log_weight)
        total = total + np.where(poor, mean, 0.0)
    offset = size * np.arange(groups)[:, None]
    return (kept + offset).ravel(), log_weight.ravel(), total


def interval(
    measured: Groups, claimed: Float[np.ndarray, " starts"], level: float
) -> tuple[np.ndarray, ...]:
    """Returns the estimate, both ends of its interval, the effective number of groups, and the
    share of the weight that did not arrive.

    Weights have long tails. The interval therefore holds that of the mean by Student's distribution
    and that of the mean of numbers whose logarithms are normal (Cox's method).

    Args:
        measured: The weights of groups of rollouts.
        claimed: The map's values at the starts.
        level: The chance that an interval misses its value.
    """
    log_low, log_all, _ = measured
    groups = log_all.shape[1]
    top = log_all.max(axis=1)
    finite = np.isfinite(top)
    top = np.where(finite, top, 0.0)[:, None]
    width = stdtrit(groups - 1, 1 - level / 2) / np.sqrt(groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, whole = np.exp(log_low - top), np.exp(log_all - top)
        effective = np.nan_to_num(whole.sum(axis=1) ** 2 / (whole**2).sum(axis=1))
        unfinished = np.nan_to_num(1 - low.sum(axis=1) / whole.sum(axis=1), nan=1.0)
        least = np.log(np.maximum(low.mean(axis=1) - width * low.std(axis=1, ddof=1), 0.0))
        most = np.log(whole.mean(axis=1) + width * whole.std(axis=1, ddof=1))
        least = np.fmin(least, _of_logs(log_low - top, width)[0])
        most = np.fmax(most, _of_logs(log_all - top, width)[1])
        ends = (np.log(whole.mean(axis=1)), least, most)
        estimate, lower, upper = (
            claimed + np.where(finite, top[:, 0] + end, -np.inf) for end in ends
        )
    return estimate, lower, upper, effective, unfinished


def _of_logs(
    logs: Float[np.ndarray, "starts groups"], width: float
) -> tuple[Float[np.ndarray, " starts"], Float[np.ndarray, " starts"]]:
    """Returns an interval of the log of the mean, if the logs are normal; NaN if some are not
    finite."""
    variance = logs.var(axis=1, ddof=1)
    middle = logs.mean(axis=1) + variance / 2
    groups = logs.shape[1]
    half = width * np.sqrt(variance + groups * variance**2 / (2 * (groups - 1)))
    return middle - half, middle + half
