"""`certify`: how far a learned map is off, from rollouts of the environment itself.

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
every step: if that would raise a promise, the interval is not believed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped
from scipy.special import logsumexp
from scipy.stats import t as student

from drogo.config import is_a
from drogo.data.collect import MOST_SEED, Start
from drogo.data.simulate import Simulator, simulator
from drogo.data.step import NumberOfStep
from drogo.errors import ArgumentError, check_number, check_whole
from drogo.learn.result import LogEigenvector

LEVEL = 0.05
"""The chance that any of the intervals of one seed misses its value, as far as the spread of the
groups tells it."""
SHARE_OF_DEPTH = 0.05
"""The share of the map's depth that is tolerated, unless a tolerance is given."""
INNER = (5.0, 95.0)
"""The depth is that between these percentiles, so that a single outlier does not count."""
MOST_UNFINISHED = 0.05
"""Rollouts that did not arrive count with what the map promises, which is not known to be right."""

SAME = 1e-6
"""Rewards that differ by less are the same."""

Values = Callable[[np.ndarray], Float[np.ndarray, " n"]]


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """How far the map of each seed is off at some states, as far as rollouts tell it.

    It says nothing about states that are far from all the rollouts' ways.
    """

    observations: Shaped[np.ndarray, "starts ..."]
    """Where the rollouts started."""
    seeds: tuple[int, ...]
    tolerance: Float[np.ndarray, " seeds"]
    claimed: Float[np.ndarray, "seeds starts"]
    """The learned values."""
    estimate: Float[np.ndarray, "seeds starts"]
    """The values by rollouts. Those that did not arrive are counted with what the map promises
    where they ended."""
    low: Float[np.ndarray, "seeds starts"]
    """The lower end of an interval for the value. Only rollouts that arrived count."""
    high: Float[np.ndarray, "seeds starts"]
    """The upper end. All rollouts count."""
    effective: Float[np.ndarray, "seeds starts"]
    """The effective number of independent groups of rollouts."""
    unfinished: Float[np.ndarray, "seeds starts"]
    """The share of the weight of rollouts that did not arrive."""
    surprise: Float[np.ndarray, "seeds starts"]
    """The most by which a promise on the way would rise if an action that was not chosen were
    followed one step further."""
    groups: int
    """The number of groups of rollouts from each start."""
    ascents: Bool[np.ndarray, "seeds starts"]
    """Whether the steepest ascent from each start arrived at a terminal state."""

    @property
    def error(self) -> Float[np.ndarray, " seeds"]:
        """The most by which a value may be off at the starts, as far as rollouts tell; infinite if
        they do not tell. A way that the map wrongly takes for bad is followed for one step only, so
        what lies farther behind such a way is not known."""
        ends = np.abs(np.stack([self.claimed - self.low, self.high - self.claimed]))
        return np.where(self.known, ends.max(axis=0), np.inf).max(axis=1)

    @property
    def known(self) -> Bool[np.ndarray, "seeds starts"]:
        """Where the interval is believed: enough groups agree, nearly all of their weight arrived,
        and no action that was not chosen was a surprise, from whatever start: a better way than the
        map knows may be a better way from everywhere."""
        agree = (self.effective >= self.groups / 2) & np.isfinite(self.high)
        surprised = self.surprise.max(axis=1) > self.tolerance
        return agree & (self.unfinished < MOST_UNFINISHED) & ~surprised[:, None]

    @property
    def refuted(self) -> Bool[np.ndarray, "seeds starts"]:
        """Where a value is outside of a believed interval by more than the tolerance."""
        more = self.tolerance[:, None]
        outside = (self.claimed > self.high + more) | (self.claimed < self.low - more)
        return self.known & outside

    @property
    def held(self) -> Bool[np.ndarray, "seeds starts"]:
        """Where the whole interval is within the tolerance of the learned value."""
        more = self.tolerance[:, None]
        within = (self.low >= self.claimed - more) & (self.high <= self.claimed + more)
        return self.known & within

    @property
    def status(self) -> tuple[str, ...]:
        """For each seed: "refuted" if some value is off by more than the tolerance, "certified" if
        no value at the starts is, and "undecided" if rollouts do not tell."""
        status = np.where(self.held.all(axis=1), "certified", "undecided")
        return tuple(np.where(self.refuted.any(axis=1), "refuted", status).tolist())

    @property
    def disagreement(self) -> float:
        """The largest difference between two seeds at a start."""
        return float(np.ptp(self.claimed, axis=0).max())

    def lines(self) -> list[str]:
        """Returns a sentence for each seed."""
        starts = len(self.observations)
        told = []
        for k, (seed, status) in enumerate(zip(self.seeds, self.status, strict=True)):
            held, refuted = int(self.held[k].sum()), int(self.refuted[k].sum())
            text = f"seed {seed}: {status}; {held} of {starts} values are within "
            text += f"{self.tolerance[k]:.2g}, {refuted} are not, and of {starts - held - refuted} "
            text += "that is not decided"
            if np.isfinite(self.error[k]):
                text += f" (off by at most {self.error[k]:.2g})"
            text += f"; steepest ascent arrives from {self.ascents[k].sum()} of {starts}"
            told.append(text)
        return told

    def __repr__(self) -> str:
        return "Certificate(\n  " + "\n  ".join(self.lines()) + "\n)"


def certify(
    result: LogEigenvector,
    env: gymnasium.Env,
    *,
    starts: int = 20,
    seed: int = 0,
    tolerance: float | None = None,
    start: Start | None = None,
    reward: NumberOfStep = None,
    terminal_value: NumberOfStep = None,
    key: str | Sequence[str] | None = None,
    default_policy: npt.ArrayLike | None = None,
    groups: int = 8,
    rollouts: int | None = None,
    candidates: int = 16,
    steps: int = 1000,
) -> Certificate:
    """Compares a fit with rollouts of its environment, also where states do not repeat.

    Args:
        result: The fit, with the objective drogo or q.
        env: The environment. Its states must be known or copied; see `drogo.data.simulate`.
        starts: The number of states from which rollouts start.
        seed: The seed of all random numbers.
        tolerance: By how much a value may be off. By default a twentieth of the map's depth, or the
            tolerance of the fit if that is more.
        start: A function `start(env, rng)` that puts the environment into a state, as in `collect`.
            By default any state of a known MDP; elsewhere a reset and some random steps.
        reward: As it was given to `collect`.
        terminal_value: As it was given to `collect`.
        key: As it was given to `collect`.
        default_policy: As it was given to `fit`: one probability for each action. By default that
            of the environment's MDP, or else uniform.
        groups: The number of independent groups of rollouts from each start, at least 3.
        rollouts: The number of rollouts in a group: 16 unless given, or 4 of an environment that
            has to be copied.
        candidates: The number of actions that are tried in each state, if they are continuous.
        steps: The most steps of a rollout.

    Returns:
        The certificate of all seeds.
    """
    if not result.learner.objective.is_column:
        raise ArgumentError(
            f"the objective {result.config.objective!r} does not learn the values of episodes, "
            "which rollouts estimate. Only drogo and q do."
        )
    _check_default(result, env, default_policy)
    if tolerance is None:
        live = np.setdiff1d(np.arange(len(result.observations)), result.terminal_states)
        allowed = tolerated(result.v[:, live], result.config.tolerance)
    else:
        allowed = np.full(len(result.seeds), check_number("tolerance", tolerance))
    sim = simulator(env, start=start, reward=reward, terminal_value=terminal_value, key=key)
    maps = [result.values_of(k) for k in range(len(result.seeds))]
    return certify_maps(
        maps,
        sim,
        lam=result.config.lam,
        tolerance=allowed,
        seeds=result.seeds,
        default_policy=default_policy,
        same_rewards=not result.config.scaled,
        starts=starts,
        seed=seed,
        groups=groups,
        rollouts=rollouts,
        candidates=candidates,
        steps=steps,
    )


def tolerated(v: Float[np.ndarray, "seeds states"], least: float) -> Float[np.ndarray, " seeds"]:
    """Returns by how much the values of a map may be off, unless that is given.

    Args:
        v: The values of states that are not terminal.
        least: The least that is tolerated.
    """
    low, high = np.percentile(v, INNER, axis=1)
    return np.fmax(least, SHARE_OF_DEPTH * (high - low))


def certify_maps(
    maps: Sequence[Values],
    sim: Simulator,
    *,
    lam: float,
    tolerance: Float[np.ndarray, " seeds"],
    seeds: tuple[int, ...],
    default_policy: npt.ArrayLike | None = None,
    same_rewards: bool = False,
    starts: int = 20,
    seed: int = 0,
    groups: int = 8,
    rollouts: int | None = None,
    candidates: int = 16,
    steps: int = 1000,
) -> Certificate:
    """Compares any functions from observations to `v` with rollouts, as `certify` does a fit.

    Args:
        maps: The functions, which take a batch of observations that are not terminal.
        sim: What the rollouts step.
        lam: The temperature.
        tolerance: By how much a value of each map may be off.
        seeds: The name of each map.
        default_policy: As in `certify`.
        same_rewards: Whether the maps are only right if all actions of a state have one reward.
        starts: As in `certify`.
        seed: As in `certify`.
        groups: As in `certify`.
        rollouts: As in `certify`.
        candidates: As in `certify`.
        steps: As in `certify`.
    """
    rollouts = sim.group_size if rollouts is None else rollouts
    counts = {"starts": starts, "groups": groups, "rollouts": rollouts, "steps": steps}
    for name, count in {**counts, "candidates": candidates}.items():
        least = 3 if name == "groups" else 1
        if not is_a(count, Integral) or count < least:
            raise ArgumentError(f"{name} is {count!r}; it must be a whole number from {least} on.")
    if not (tolerance > 0).all():
        raise ArgumentError(f"tolerance is {tolerance.min():g}; it must be positive.")
    rng = np.random.default_rng(check_whole("seed", seed, 0, MOST_SEED))
    states, observations = sim.start(starts, rng)
    rows = []
    for values in maps:
        claimed = values(observations)
        walk = Walk(sim, values, lam, candidates, steps, rng, default_policy, same_rewards)
        log_low, log_all, surprise = walk.weights(states, claimed, groups, rollouts)
        measured = _interval(log_low, log_all, claimed)
        rows.append((claimed, *measured, surprise, walk.ascents(states)))
    names = ("claimed", "estimate", "low", "high", "effective", "unfinished", "surprise", "ascents")
    columns = dict(zip(names, map(np.stack, zip(*rows, strict=True)), strict=True))
    return Certificate(observations, seeds, tolerance, groups=groups, **columns)


def _check_default(
    result: LogEigenvector, env: gymnasium.Env, default_policy: npt.ArrayLike | None
) -> None:
    """Raises an error if rollouts would be those of another default policy than the fit's."""
    if default_policy is None:
        if "default_policy" in result.own:
            raise ArgumentError(
                "this fit was given a default policy of its own, and rollouts of another one have "
                "other values.",
                remedy="Give the same default_policy=, one probability for each action.",
            )
        return
    space = env.action_space
    count = int(space.n) if isinstance(space, gymnasium.spaces.Discrete) else None
    given = None if callable(default_policy) else np.asarray(default_policy, dtype=np.float64)
    if given is None or given.shape != (count,) or (given < 0).any() or abs(given.sum() - 1) > 1e-9:
        raise ArgumentError(
            f"default_policy is {default_policy!r}; for a certificate it must be one probability "
            f"for each action of {space}, and they must add up to 1."
        )


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
        v = after.terminal_value / self.lam
        if live.any():
            v[live] = self.values(after.observations[live])
        promised = log_share + (after.reward / self.lam + v).reshape(n, k)
        arrived = after.states.reshape(n, k, *after.states.shape[1:])
        return arrived, promised, v.reshape(n, k), after.terminated.reshape(n, k)

    def weights(
        self, states: np.ndarray, claimed: Float[np.ndarray, " starts"], groups: int, size: int
    ) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, " starts"]]:
        """Returns the log of the mean weight of each group, of those that arrived and of all, and
        the largest surprise on the ways from each start.

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
        total, surprise = np.zeros(shape[0]), np.zeros(len(states))
        start = np.repeat(np.arange(len(states)), groups * size)
        for _ in range(self.steps):
            live = np.flatnonzero(~over)
            if not live.size:
                break
            arrived, promised, values, terminal = self.promises(at[live])
            log_weight[live] += logsumexp(promised, axis=1) - v[live]
            one = (np.arange(live.size), _drawn(promised, self.rng))
            rise = self.surprises(arrived, promised, values, terminal, one[1])
            np.maximum.at(surprise, start[live], rise)
            at[live], v[live], over[live] = arrived[one], values[one], terminal[one]
            kept, log_weight, total = _resampled(log_weight.reshape(shape), total, self.rng)
            at, v, over = at[kept], v[kept], over[kept]
        log_weight = log_weight.reshape(shape)
        arrived_only = np.where(over.reshape(shape), log_weight, -np.inf)
        low, high = (total + _log_mean(part) for part in (arrived_only, log_weight))
        return low.reshape(-1, groups), high.reshape(-1, groups), surprise

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
            By how much the log of what all actions promise together would rise.
        """
        rows, count = np.arange(len(chosen)), promised.shape[1]
        rise = np.zeros(len(chosen))
        if count == 1:
            return rise
        other = (chosen + self.rng.integers(1, count, size=chosen.size)) % count
        some = np.flatnonzero(~terminal[rows, other] & np.isfinite(promised[rows, other]))
        if some.size:
            one = (some, other[some])
            share = promised[one] - np.asarray(logsumexp(promised[some], axis=1))
            further = np.asarray(logsumexp(self.promises(arrived[one])[1], axis=1))
            with np.errstate(divide="ignore"):
                rest = np.log(-np.expm1(np.minimum(share, 0.0)))
            rise[some] = np.logaddexp(rest, share + further - values[one])
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


def _interval(
    log_low: Float[np.ndarray, "starts groups"],
    log_all: Float[np.ndarray, "starts groups"],
    claimed: Float[np.ndarray, " starts"],
) -> tuple[np.ndarray, ...]:
    """Returns the estimate, both ends of its interval, the effective number of groups, and the
    share of the weight that did not arrive.

    Weights have long tails. The interval therefore holds that of the mean by Student's distribution
    and that of the mean of numbers whose logarithms are normal (Cox's method).
    """
    starts, groups = log_all.shape
    top = log_all.max(axis=1)
    finite = np.isfinite(top)
    top = np.where(finite, top, 0.0)[:, None]
    width = student.ppf(1 - LEVEL / (2 * starts), groups - 1) / np.sqrt(groups)
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
