"""Rollouts that follow a learned map, and the estimates of its values that they give.

The value is `v(s) = log E[exp(sum of r/lam + terminal reward/lam)]` over the default policy's
episodes from s. In each state several actions are tried, one is sampled in proportion to its value,
and the weight of the rollout is multiplied by the sum of all their values over the value of the
state, which is 1 if the map is right. Rollouts of small weight are replaced by copies of others (a
particle filter). The estimate is unbiased.

A map that is much too low in one place hides what lies behind it. Therefore one action that was not
chosen is followed one step further in every step. The gains of these actions and of the chosen ones
are two estimates of one mean. If the first is larger, to first order the value of the start is
higher by the difference, and the interval is not reliable."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp, stdtrit  # importing scipy.stats takes a second

from drogo.data.collect import sample_rows
from drogo.data.simulate import Simulator
from drogo.errors import ArgumentError
from drogo.progress import stops

MOST_GAIN = 50.0
"""A larger gain counts as this one, the log of a number that is far beyond every tolerance."""
SAME = 1e-6  # Rewards that differ by less are the same.

Table = Float[np.ndarray, "n k"]
Starts = Float[np.ndarray, " starts"]
Values = Callable[[np.ndarray], Float[np.ndarray, " n"]]


class Groups(NamedTuple):
    """The weights of groups of rollouts, by the states where they started."""

    log_low: Float[np.ndarray, "starts groups"]
    """The log of the mean weight of each group, of rollouts that arrived."""
    log_all: Float[np.ndarray, "starts groups"]
    """The log of the mean weight of each group, of all rollouts."""
    rise: Float[np.ndarray, "starts groups"]
    """The gain of the actions that were not chosen over those that were, along the way."""

    @property
    def surprise(self) -> Starts:
        """The mean of `rise`, less one standard error, as continuous actions make it noisy."""
        return self.rise.mean(axis=1) - self.rise.std(axis=1, ddof=1) / np.sqrt(self.rise.shape[1])

    def joined(self, more: "Groups") -> "Groups":
        """Returns these groups and more of them from the same starts."""
        return Groups(*(np.concatenate(parts, axis=1) for parts in zip(self, more, strict=True)))


@dataclass
class Walk:
    """Rollouts that follow one map in an environment."""

    sim: Simulator
    one: Any  # The map.
    effort: Any
    rng: np.random.Generator
    show: Any  # Shows the progress.
    until: float  # The time at which they stop.
    label: str = "steepest ascents"
    interrupted: bool = False

    @property
    def stopped(self) -> bool:
        return self.interrupted or time.monotonic() > self.until

    def action_values(self, states: np.ndarray) -> tuple[np.ndarray, Table, Table, np.ndarray]:
        """Tries actions in each state."""
        actions, log_share = self.sim.candidates(states, self.effort.candidates, self.rng)
        if self.one.default_policy is not None:
            with np.errstate(divide="ignore"):
                log_share = np.broadcast_to(np.log(self.one.default_policy), log_share.shape)
        n, k = log_share.shape
        flat = actions.reshape(n * k, *actions.shape[2:])
        after = self.sim.step(np.repeat(states, k, axis=0), flat, self.rng)
        if self.one.same_rewards and np.ptp(after.reward.reshape(n, k), axis=1).max() > SAME:
            wrong = "with scaled=False and rewards by action, a map has other values."
            raise ArgumentError(wrong, remedy="Use scaled=True.")
        live = ~after.terminated
        v = after.terminal_reward / self.one.lam
        if live.any():
            v[live] = self.one.values(after.observations[live])
        log_q = log_share + (after.reward / self.one.lam + v).reshape(n, k)
        arrived = after.states.reshape(n, k, *after.states.shape[1:])
        return arrived, log_q, v.reshape(n, k), after.terminated.reshape(n, k)

    def weights(self, states: np.ndarray, claimed: Starts, groups: int, size: int) -> Groups:
        """Rolls out groups of rollouts from each of some states."""
        shape = (len(states) * groups, size)
        at = np.repeat(states, groups * size, axis=0)
        v = np.repeat(claimed, groups * size)
        over, log_weight = np.zeros(at.shape[0], dtype=bool), np.zeros(shape)
        total, surprise = np.zeros(shape[0]), np.zeros(at.shape[0])
        others = np.zeros(at.shape[0])  # the share of the actions that were not chosen
        for live, chosen in self.attempts(over, lambda live: self.choose(at[live])):
            arrived, log_q, values, terminal, one, more = chosen
            together = np.asarray(logsumexp(log_q, axis=1))
            log_weight.reshape(-1)[live] += together - v[live]
            surprise[live] -= others[live] * _gain(together - v[live])
            surprise[live] += more
            others[live] = -np.expm1(log_q[one] - together)
            at[live], v[live], over[live] = arrived[one], values[one], terminal[one]
            # Groups in which few rollouts have most of the weight are sampled again.
            kept, mean = np.tile(np.arange(size), (shape[0], 1)), _log_mean(log_weight)
            share = np.exp(log_weight - mean[:, None]) / size
            poor = (1 / (share**2).sum(axis=1) < size / 2) & np.isfinite(mean)
            if poor.any():
                # One random number for a whole group, and equal distances: the least added noise.
                marks = (self.rng.random((poor.sum(), 1)) + np.arange(size)) / size
                bounds = share[poor].cumsum(axis=1)
                kept[poor] = (marks[:, :, None] >= bounds[:, None, :-1]).sum(axis=2)
                log_weight[poor] = 0.0
                total[poor] += mean[poor]
            rows = (kept + size * np.arange(shape[0])[:, None]).ravel()
            at[:], v, over[:] = at[rows], v[rows], over[rows]
            surprise, others = surprise[rows], others[rows]
        arrived_only = np.where(over.reshape(shape), log_weight, -np.inf)
        low, high = (total + _log_mean(part) for part in (arrived_only, log_weight))
        rise = surprise.reshape(len(states), groups, size).mean(axis=2)
        return Groups(low.reshape(-1, groups), high.reshape(-1, groups), rise)

    def choose(self, states: np.ndarray) -> tuple[Any, ...]:
        """Returns the values of the actions in each state, the choice, and its surprise, for which
        one action that was not chosen is followed one step further."""
        tried = arrived, log_q, values, terminal = self.action_values(states)
        chance = np.exp(log_q - log_q.max(axis=1, keepdims=True)).cumsum(axis=1)
        rows, chosen = np.arange(len(states)), sample_rows(chance, self.rng)
        rise, count = np.zeros(len(states)), log_q.shape[1]
        if count == 1:
            return *tried, (rows, chosen), rise
        other = (chosen + self.rng.integers(1, count, size=chosen.size)) % count
        some = np.flatnonzero(~terminal[rows, other] & np.isfinite(log_q[rows, other]))
        if some.size:
            one = (some, other[some])
            share = np.exp(log_q[one] - np.asarray(logsumexp(log_q[some], axis=1)))
            further = np.asarray(logsumexp(self.action_values(arrived[one])[1], axis=1))
            rise[some] = (count - 1) * share * _gain(further - values[one])
        return *tried, (rows, chosen), rise

    def attempts(self, over: Bool[np.ndarray, " n"], take: Callable[[Any], Any]) -> Iterator[Any]:
        """Takes steps and yields where rollouts were not `over`, and what each step gave, until all
        are, or Ctrl-C or the time stops the rollouts, which then count as unfinished."""
        for step in range(self.effort.steps):
            live = np.flatnonzero(~over)
            if not live.size:
                return
            try:
                self.show(step, self.effort.steps, self.label)
                if self.stopped:
                    return
                taken = take(live)
            except KeyboardInterrupt as interrupt:
                if not stops(interrupt):
                    raise
                self.interrupted = True
                return
            yield live, taken

    def ascents(self, states: np.ndarray) -> Bool[np.ndarray, " starts"]:
        """Returns from which states the steepest ascent of the map reaches a terminal state."""
        over, at = np.zeros(len(states), dtype=bool), states.copy()
        for live, tried in self.attempts(over, lambda live: self.action_values(at[live])):
            arrived, log_q, _, terminal = tried
            one = (np.arange(live.size), log_q.argmax(axis=1))
            at[live], over[live] = arrived[one], terminal[one]
        return over


def _gain(log_ratio: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Returns the share by which a value exceeded the one that it was compared with."""
    return np.expm1(np.minimum(log_ratio, MOST_GAIN))


def _log_mean(logs: Table) -> Float[np.ndarray, " n"]:
    return np.asarray(logsumexp(logs, axis=1)) - np.log(logs.shape[1])


def interval(measured: Groups, claimed: Starts, level: float) -> dict[str, Any]:
    """Returns columns of a certificate, by the wider of Student's and Cox's intervals."""
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
        estimate, lower, upper = (
            claimed + np.where(finite, top[:, 0] + log, -np.inf)
            for log in (np.log(whole.mean(axis=1)), least, most)
        )
    columns = {"estimate": estimate, "low": lower, "high": upper}
    return columns | {"effective": effective, "unfinished": unfinished}


def _of_logs(logs: Float[np.ndarray, "starts groups"], width: float) -> tuple[Starts, Starts]:
    """Returns an interval of the log of the mean if the logs are normal, or NaN."""
    variance = logs.var(axis=1, ddof=1)
    middle = logs.mean(axis=1) + variance / 2
    groups = logs.shape[1]
    half = width * np.sqrt(variance + groups * variance**2 / (2 * (groups - 1)))
    return middle - half, middle + half
