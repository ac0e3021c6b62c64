"""`certify`: how far a learned map is off, from rollouts of the environment itself.

See `drogo.learn.rollouts` for how rollouts estimate a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.data.collect import MOST_SEED, Start
from drogo.data.simulate import Simulator, simulator
from drogo.data.step import NumberOfStep
from drogo.errors import ArgumentError, check_number, check_whole
from drogo.learn.result import LogEigenvector
from drogo.learn.rollouts import Groups, Values, Walk, interval

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
    terminal_reward: NumberOfStep = None,
    key: str | Sequence[str] | None = None,
    default_policy: npt.ArrayLike | None = None,
    groups: int = 8,
    rollouts: int | None = None,
    candidates: int = 16,
    steps: int = 1000,
    rounds: int = 4,
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
        terminal_reward: As it was given to `collect`.
        key: As it was given to `collect`.
        default_policy: As it was given to `fit`: one probability for each action. By default that
            of the environment's MDP, or else uniform.
        groups: The number of independent groups of rollouts from each start, at least 3, in the
            first round.
        rollouts: The number of rollouts in a group: 16 unless given, or 4 of an environment that
            has to be copied.
        candidates: The number of actions that are tried in each state, if they are continuous.
        steps: The most steps of a rollout.
        rounds: The number of rounds. In each one after the first, twice as many further groups as
            in the last one start where nothing is decided yet.

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
    sim = simulator(env, start=start, reward=reward, terminal_reward=terminal_reward, key=key)
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
        rounds=rounds,
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
    rounds: int = 4,
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
        rounds: As in `certify`.
    """
    rollouts = sim.group_size if rollouts is None else rollouts
    counts = {"starts": starts, "rollouts": rollouts, "candidates": candidates, "steps": steps}
    counts["rounds"] = rounds
    for name, count in counts.items():
        check_whole(name, count, 1)
    check_whole("groups", groups, 3)
    if not (tolerance > 0).all():
        raise ArgumentError(f"tolerance is {tolerance.min():g}; it must be positive.")
    rng = np.random.default_rng(check_whole("seed", seed, 0, MOST_SEED))
    states, observations = sim.start(starts, rng)
    level = LEVEL / (starts * rounds)
    rows = []
    for values, name, allowed in zip(maps, seeds, tolerance, strict=True):
        walk = Walk(sim, values, lam, candidates, steps, rng, default_policy, same_rewards)
        claimed, ascents = values(observations), walk.ascents(states)
        made = _unknown(observations, name, allowed, claimed, ascents)
        pending, known, count = np.arange(starts), None, groups
        for _ in range(rounds):
            more = walk.weights(states[pending], claimed[pending], count, rollouts)
            known = more if known is None else known.joined(more)
            made = _with(made, pending, known, level)
            open_still = ~(made.held | made.refuted)[0, pending]
            pending, count = pending[open_still], 2 * count
            known = Groups(*(part[open_still] for part in known))
            if not pending.size or made.refuted.any():
                break
        rows.append(made)
    return _stacked(rows)


def _unknown(
    observations: np.ndarray,
    seed: int,
    tolerance: float,
    claimed: Float[np.ndarray, " starts"],
    ascents: Bool[np.ndarray, " starts"],
) -> Certificate:
    """Returns the certificate of one seed before its first rollout."""
    starts = claimed.size
    unknown = np.full((1, starts), np.nan)
    zero = np.zeros((1, starts))
    one_seed = {"claimed": claimed[None], "ascents": ascents[None]}
    one_seed |= {"groups": zero.astype(int), "effective": zero, "unfinished": zero}
    named = dict.fromkeys(("estimate", "low", "high", "surprise"), unknown)
    return Certificate(observations, (seed,), np.array([tolerance]), **one_seed, **named)


def _with(
    made: Certificate, which: Int[np.ndarray, " some"], measured: Groups, level: float
) -> Certificate:
    """Returns the certificate of one seed with what rollouts from some starts tell."""
    names = ("estimate", "low", "high", "effective", "unfinished", "surprise", "groups")
    found = (*interval(measured, made.claimed[0, which], level), measured.surprise)
    columns = {}
    for name, values in zip(names, (*found, measured.rise.shape[1]), strict=True):
        columns[name] = getattr(made, name).copy()
        columns[name][0, which] = values
    return replace(made, **columns)


def _stacked(parts: Sequence[Certificate]) -> Certificate:
    """Returns the certificates of single seeds as one."""
    names = {field.name for field in fields(Certificate)} - {"observations", "seeds"}
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    seeds = tuple(seed for part in parts for seed in part.seeds)
    return Certificate(parts[0].observations, seeds, **columns)


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
