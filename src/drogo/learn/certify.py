"""`certify`: the error of a learned map, estimated by rollouts of the environment itself.

`drogo.learn.rollouts` explains how rollouts estimate a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.data.collect import MOST_SEED
from drogo.data.simulate import Simulator, simulator
from drogo.errors import ArgumentError, check_number, check_whole
from drogo.learn.rollouts import Groups, Values, Walk, interval
from drogo.learn.solution import Solution

SHARE_OF_DEPTH = 0.05
"""The share of the map's depth that is tolerated, unless a tolerance is given."""
INNER = (5.0, 95.0)
"""The depth is that between these percentiles, so that a single outlier does not count."""
RISE = 4.0
"""How much higher a value may be for each unit by which looking one step further raises it. That is
only the first term of a series: over damaged maps, values were off by 2 to 5 times as much."""
LEVEL = 0.05
"""The chance that any interval of one seed ever misses its value, as far as the spread of the
groups tells it."""
MOST_UNFINISHED = 0.05
"""Rollouts that did not arrive count with what the map promises, which is not known to be right."""


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """The errors of the map of each seed at some states, as far as rollouts show them.

    It says nothing about states that are far from all rollouts.
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
    """By how much the value would rise at least, to first order and less one standard error, if the
    actions that rollouts did not choose were followed one step further: how much more these turned
    out to be worth than those that were chosen."""
    groups: Int[np.ndarray, "seeds starts"]
    """The number of groups of rollouts from each start."""
    ascents: Bool[np.ndarray, "seeds starts"]
    """Whether the steepest ascent from each start arrived at a terminal state."""

    @property
    def error(self) -> Float[np.ndarray, " seeds"]:
        """The most by which a value may be off at the starts, as far as rollouts tell; infinite if
        they do not tell. A way that the map wrongly takes for bad is followed for one step only, so
        what lies farther behind such a way is not known."""
        ends = np.abs(np.stack([self.claimed - self.low, self.highest - self.claimed]))
        return np.where(self.known, ends.max(axis=0), np.inf).max(axis=1)

    @property
    def highest(self) -> Float[np.ndarray, "seeds starts"]:
        """The upper end of the interval, with what actions that were not chosen may add to it."""
        return self.high + RISE * np.maximum(self.surprise, 0.0)

    @property
    def agreed(self) -> Bool[np.ndarray, "seeds starts"]:
        """Where enough groups agree, and nearly all of their weight arrived."""
        agree = (self.effective >= self.groups / 2) & np.isfinite(self.high)
        return agree & (self.unfinished < MOST_UNFINISHED)

    @property
    def known(self) -> Bool[np.ndarray, "seeds starts"]:
        """Where the interval is believed: the groups agree, and the actions that were not chosen
        were no surprise, from whatever start: a better way than the map knows may be a better way
        from everywhere."""
        surprised = RISE * self.surprise.max(axis=1) > self.tolerance
        return self.agreed & ~surprised[:, None]

    @property
    def refuted(self) -> Bool[np.ndarray, "seeds starts"]:
        """Where the groups agree that a value is too low, or too high even with what actions that
        were not chosen may add, by more than the tolerance."""
        more = self.tolerance[:, None]
        too_high, too_low = self.claimed > self.highest + more, self.claimed < self.low - more
        return self.agreed & (too_high | too_low)

    @property
    def held(self) -> Bool[np.ndarray, "seeds starts"]:
        """Where the whole interval is within the tolerance of the learned value."""
        more = self.tolerance[:, None]
        within = (self.low >= self.claimed - more) & (self.highest <= self.claimed + more)
        return self.known & within

    @property
    def status(self) -> tuple[str, ...]:
        """For each seed: "refuted" if some value is, "certified" if all intervals are believed and
        within the tolerance, and "undecided" otherwise."""
        status = np.where(self.held.all(axis=1), "certified", "undecided")
        return tuple(np.where(self.refuted.any(axis=1), "refuted", status).tolist())

    @property
    def disagreement(self) -> float:
        """The largest difference between two seeds at a start."""
        return float(np.ptp(self.claimed, axis=0).max())

    def lines(self) -> list[str]:
        """Returns a sentence for each seed."""
        starts = len(self.observations)
        lines = []
        for k, (seed, status) in enumerate(zip(self.seeds, self.status, strict=True)):
            held, refuted = int(self.held[k].sum()), int(self.refuted[k].sum())
            text = f"seed {seed}: {status}; {held} of {starts} values are within "
            text += f"{self.tolerance[k]:.2g}, {refuted} are not, and of {starts - held - refuted} "
            text += "that is not decided"
            if np.isfinite(self.error[k]):
                text += f" (off by at most {self.error[k]:.2g})"
            text += f"; steepest ascent arrives from {self.ascents[k].sum()} of {starts}"
            lines.append(text)
        return lines

    def __repr__(self) -> str:
        return "Certificate(\n  " + "\n  ".join(self.lines()) + "\n)"


@dataclass(frozen=True)
class Effort:
    """The amount of work that goes into a certificate."""

    groups: int = 8
    """The number of independent groups of rollouts from each start, at least 3, in the first
    round."""
    rollouts: int | None = None
    """The number of rollouts in a group. By default 16, or 4 of an environment that is copied."""
    candidates: int = 16
    """The number of actions that are tried in each state, if they are continuous."""
    steps: int = 1000
    """The largest number of steps of a rollout."""
    rounds: int = 4
    """The number of rounds. In each one after the first, twice as many further groups as in the
    last one start where nothing is decided yet."""

    def __post_init__(self) -> None:
        check_whole("groups", self.groups, 3)
        for name in ("candidates", "steps", "rounds"):
            check_whole(name, getattr(self, name), 1)
        if self.rollouts is not None:
            check_whole("rollouts", self.rollouts, 1)


@dataclass(frozen=True)
class Map:
    """A function from observations to v, and everything that a certificate needs of it.

    Args:
        values: The function, which takes a batch of observations that are not terminal.
        lam: The temperature.
        tolerance: The largest error that is tolerated.
        name: The seed, or any number that names it.
        default_policy: The probability of each action, if the environment does not know it.
        same_rewards: Whether it is only right if all actions of a state have one reward.
    """

    values: Values
    lam: float
    tolerance: float
    name: int = 0
    default_policy: npt.ArrayLike | None = None
    same_rewards: bool = False


def certify(
    solution: Solution,
    env: gymnasium.Env,
    *,
    starts: int = 20,
    seed: int = 0,
    tolerance: float | None = None,
    effort: Effort | None = None,
    **collected: Any,
) -> Certificate:
    """Compares a learned map with rollouts of its environment, also where states do not repeat.

    Args:
        solution: A solution of `Column`, learned with `Drogo` or `Regression`.
        env: The environment. Its states must be known or copied; see `drogo.data.simulate`.
        starts: The number of states from which rollouts start.
        seed: The seed of all random numbers.
        tolerance: The largest error that is tolerated. By default a twentieth of the map's depth,
            or the tolerance of the problem if that is more.
        effort: The number of rollouts and their length.
        **collected: `reward`, `terminal_reward` and `key` as they were given to `collect`, and
            `start`, a function `start(env, rng)` that puts the environment into a state. By default
            rollouts start in any state of a known MDP; elsewhere after a reset and random steps.

    Returns:
        The certificate of all seeds.
    """
    learned = isinstance(solution, Solution) and getattr(solution.method, "finds_column", False)
    if not learned or solution.problem.kind != "column":
        raise ArgumentError(
            "only the values of episodes are estimated by rollouts: those of a drogo.Column that "
            "was learned with drogo.Drogo or drogo.Regression.",
            argument="solution",
        )
    problem, method = solution.problem, solution.method
    policy = problem.default_policy
    if callable(policy):
        raise ArgumentError(
            "rollouts need the default policy as one probability for each action, and that of this "
            "solution is a function.",
            argument="solution",
        )
    if tolerance is None:
        live = np.setdiff1d(np.arange(len(solution.observations)), solution.terminal_states)
        limits = tolerated(solution.v[:, live], problem.tolerance)
    else:
        limits = np.full(len(solution.seeds), check_number("tolerance", tolerance))
    maps = [
        Map(problem.values_of(solution, one), problem.lam, limit, one, policy, not method.scaled)
        for one, limit in zip(solution.seeds, limits.tolist(), strict=True)
    ]
    sim = simulator(env, **collected)
    return certify_maps(maps, sim, starts=starts, seed=seed, effort=effort)


def tolerated(v: Float[np.ndarray, "seeds states"], least: float) -> Float[np.ndarray, " seeds"]:
    """Returns the tolerance of a map, unless it is given."""
    low, high = np.percentile(v, INNER, axis=1)
    return np.fmax(least, SHARE_OF_DEPTH * (high - low))


def certify_maps(
    maps: Sequence[Map],
    sim: Simulator,
    *,
    starts: int = 20,
    seed: int = 0,
    effort: Effort | None = None,
) -> Certificate:
    """Compares any functions from observations to v with rollouts, as `certify` does a solution."""
    effort = effort or Effort()
    rollouts = sim.group_size if effort.rollouts is None else effort.rollouts
    check_whole("starts", starts, 1)
    if not all(one.tolerance > 0 for one in maps):
        raise ArgumentError("tolerance must be positive.", argument="tolerance")
    rng = np.random.default_rng(check_whole("seed", seed, 0, MOST_SEED))
    states, observations = sim.start(starts, rng)
    level = LEVEL / (starts * effort.rounds)
    parts = []
    for one in maps:
        walk = Walk(sim, one, effort, rng)
        claimed, ascents = one.values(observations), walk.ascents(states)
        certificate = _unknown(observations, one, claimed, ascents)
        pending, known, count = np.arange(starts), None, effort.groups
        for _ in range(effort.rounds):
            more = walk.weights(states[pending], claimed[pending], count, rollouts)
            known = more if known is None else known.joined(more)
            certificate = _with(certificate, pending, known, level)
            undecided = ~(certificate.held | certificate.refuted)[0, pending]
            pending, count = pending[undecided], 2 * count
            known = Groups(*(part[undecided] for part in known))
            if not pending.size or certificate.refuted.any():
                break
        parts.append(certificate)
    return _stacked(parts)


def _unknown(
    observations: np.ndarray,
    one: Map,
    claimed: Float[np.ndarray, " starts"],
    ascents: Bool[np.ndarray, " starts"],
) -> Certificate:
    """Returns the certificate of one map before its first rollout."""
    starts = claimed.size
    unknown = np.full((1, starts), np.nan)
    zero = np.zeros((1, starts))
    one_seed = {"claimed": claimed[None], "ascents": ascents[None]}
    one_seed |= {"groups": zero.astype(int), "effective": zero, "unfinished": zero}
    named = dict.fromkeys(("estimate", "low", "high", "surprise"), unknown)
    return Certificate(observations, (one.name,), np.array([one.tolerance]), **one_seed, **named)


def _with(
    certificate: Certificate, which: Int[np.ndarray, " some"], measured: Groups, level: float
) -> Certificate:
    """Returns the certificate of one seed with what rollouts from some starts tell."""
    names = ("estimate", "low", "high", "effective", "unfinished", "surprise", "groups")
    measures = (*interval(measured, certificate.claimed[0, which], level), measured.surprise)
    columns = {}
    for name, values in zip(names, (*measures, measured.rise.shape[1]), strict=True):
        columns[name] = getattr(certificate, name).copy()
        columns[name][0, which] = values
    return replace(certificate, **columns)


def _stacked(parts: Sequence[Certificate]) -> Certificate:
    """Returns the certificates of single seeds as one."""
    names = {field.name for field in fields(Certificate)} - {"observations", "seeds"}
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    seeds = tuple(seed for part in parts for seed in part.seeds)
    return Certificate(parts[0].observations, seeds, **columns)
