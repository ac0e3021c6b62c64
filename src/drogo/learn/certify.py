"""`certify`: the error of a learned map, estimated by rollouts of its environment."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo import errors
from drogo.data.collect import MOST_SEED
from drogo.data.simulate import Simulator, simulator
from drogo.data.step import Step
from drogo.errors import ArgumentError, Count, Positive
from drogo.learn.rollouts import Groups, Values, Walk, interval
from drogo.learn.solution import Solution
from drogo.progress import progress_bar

SHARE_OF_DEPTH = 0.05  # The share of the map's depth that is tolerated by default.
INNER = (5.0, 95.0)  # The depth is that between these percentiles, without outliers.
RISE = 4.0
"""The factor of `surprise` in bounds: over damaged maps, values were off by 2 to 5 times it."""
LEVEL = 0.05  # The chance that any interval of one seed ever misses its value.
MOST_UNFINISHED = 0.05  # The largest share of the weight of rollouts that did not arrive.


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """The errors of each seed's map at some states, estimated by rollouts. It says nothing about
    states that are far from all rollouts."""

    observations: Shaped[np.ndarray, "starts ..."]
    """The states where rollouts started."""
    seeds: tuple[int, ...]
    tolerance: Float[np.ndarray, " seeds"]
    claimed: Float[np.ndarray, "seeds starts"]
    """The learned values."""
    estimate: Float[np.ndarray, "seeds starts"]
    """The values by rollouts. Those that did not arrive end with the learned value."""
    low: Float[np.ndarray, "seeds starts"]
    """The lower end of an interval for the value, by the rollouts that arrived."""
    high: Float[np.ndarray, "seeds starts"]
    """The upper end, by all rollouts."""
    effective: Float[np.ndarray, "seeds starts"]
    """The effective number of independent groups of rollouts."""
    unfinished: Float[np.ndarray, "seeds starts"]
    """The share of the weight of rollouts that did not arrive."""
    surprise: Float[np.ndarray, "seeds starts"]
    """The increase of the value, less one standard error, by the actions that were not chosen."""
    groups: Int[np.ndarray, "seeds starts"]
    """The number of groups of rollouts from each start."""
    ascents: Bool[np.ndarray, "seeds starts"]
    """Whether the steepest ascent from each start arrived at a terminal state."""
    interrupted: bool = False
    """Whether Ctrl-C, or the largest number of seconds, stopped the rollouts. Values that were not
    measured by then are undecided."""

    @property
    def error(self) -> Float[np.ndarray, " seeds"]:
        """The largest error of a value at the starts, infinite if rollouts do not determine it.
        Errors inside a region whose values are wrongly low are not included."""
        bounds = np.abs(np.stack([self.claimed - self.low, self.highest - self.claimed]))
        return np.where(self.known, bounds.max(axis=0), np.inf).max(axis=1)

    @property
    def highest(self) -> Float[np.ndarray, "seeds starts"]:
        """The upper end of the interval, with the possible gain of actions that were not chosen."""
        return self.high + RISE * np.maximum(self.surprise, 0.0)

    @property
    def agreed(self) -> Bool[np.ndarray, "seeds starts"]:
        """Whether enough groups agree, and nearly all of their weight arrived."""
        agree = (self.effective >= self.groups / 2) & np.isfinite(self.high)
        return agree & (self.unfinished < MOST_UNFINISHED)

    @property
    def known(self) -> Bool[np.ndarray, "seeds starts"]:
        """Whether the interval is reliable: groups agree, and no other actions are better."""
        surprised = RISE * self.surprise.max(axis=1) > self.tolerance
        return self.agreed & ~surprised[:, None]

    @property
    def refuted(self) -> Bool[np.ndarray, "seeds starts"]:
        """Whether the groups agree that a value is off by more than the tolerance."""
        more = self.tolerance[:, None]
        too_high, too_low = self.claimed > self.highest + more, self.claimed < self.low - more
        return self.agreed & (too_high | too_low)

    @property
    def held(self) -> Bool[np.ndarray, "seeds starts"]:
        """Whether the whole interval is within the tolerance of the learned value."""
        more = self.tolerance[:, None]
        within = (self.low >= self.claimed - more) & (self.highest <= self.claimed + more)
        return self.known & within

    @property
    def status(self) -> tuple[str, ...]:
        """For each seed: "refuted" if a value is, "certified" if all hold, or else "undecided"."""
        status = np.where(self.held.all(axis=1), "certified", "undecided")
        return tuple(np.where(self.refuted.any(axis=1), "refuted", status).tolist())

    def lines(self) -> list[str]:
        """Returns a sentence for each seed."""
        starts, lines = len(self.observations), []
        for k, (seed, status) in enumerate(zip(self.seeds, self.status, strict=True)):
            held, refuted = self.held[k].sum(), self.refuted[k].sum()
            error = ""
            if np.isfinite(self.error[k]):
                error = f" (estimated to be off by at most {self.error[k]:.2g})"
            lines.append(
                f"seed {seed}: {status}; {held} of {starts} values are within "
                f"{self.tolerance[k]:.2g}, {refuted} are not, {starts - held - refuted} undecided"
                f"{error}; steepest ascent arrives from {self.ascents[k].sum()} of {starts}"
            )
        return lines + ["The rollouts were stopped early."] * self.interrupted

    def __repr__(self) -> str:
        return "Certificate(\n  " + "\n  ".join(self.lines()) + "\n)"


@dataclass(frozen=True)
class Effort:
    """The amount of work that goes into a certificate."""

    groups: Annotated[int, errors.at_least(3)] = 8
    """Independent groups of rollouts from each start in the first round, at least 3."""
    rollouts: Count | None = None
    """The number of rollouts in a group. By default 16, or 4 of an environment that is copied."""
    candidates: Count = 16
    """The number of actions that are tried in each state, if they are continuous."""
    steps: Count = 1000
    """The largest number of steps of a rollout."""
    rounds: Count = 4
    """The number of rounds. Each further one doubles the groups where nothing is decided yet."""
    seconds: Positive | None = None
    """About the largest number of seconds, shared among the seeds; None for no limit."""

    def __post_init__(self) -> None:
        errors.check_fields(self)


@dataclass(frozen=True)
class Map:
    """A function from observations to v, and what a certificate needs to know about it."""

    values: Values  # The function of a batch of observations that are not terminal.
    lam: float
    tolerance: float  # The largest error that is tolerated.
    name: int = 0  # The seed, or any number that names it.
    default_policy: npt.ArrayLike | None = None
    """The probability of each action, if the environment does not know it."""
    same_rewards: bool = False
    """Whether it is right only if all actions of a state have one reward."""


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
        tolerance: The largest error that is tolerated. By default a twentieth of the map's depth,
            or the tolerance of the problem if that is more.
        effort: The number of rollouts and their length.
        **collected: `reward`, `terminal_reward` and `key` as they were given to `collect`, and
            `start`, a function `start(env, rng)` that puts the environment into a state. By default
            rollouts start in any state of a known MDP; elsewhere after a reset and random steps.

    Returns:
        The certificate of all seeds. Ctrl-C at a terminal or in a notebook returns that of the
        rollouts so far.
    """
    learned = isinstance(solution, Solution) and getattr(solution.method, "finds_column", False)
    if not learned or solution.problem.kind != "column":
        wrong = "give a solution of Column, learned with Drogo or Regression."
        remedy = "Compare other values with drogo.solve, and policies by their returns."
        raise ArgumentError(wrong, remedy=remedy, argument="solution")
    problem, method = solution.problem, solution.method
    if problem.changes_source:
        raise ArgumentError(f"{type(problem).__name__} changes the rewards.", argument="solution")
    policy = problem.default_policy
    if callable(policy):
        raise ArgumentError("rollouts need a default_policy of numbers.", argument="solution")
    if tolerance is None:
        live = np.setdiff1d(np.arange(len(solution.observations)), solution.terminal_states)
        limits = tolerated(solution.v[:, live], problem.tolerance)
    else:
        limits = np.full(len(solution.seeds), errors.check_number("tolerance", tolerance))
    maps = [
        Map(problem.values_of(solution, one), problem.lam, limit, one, policy, not method.scaled)
        for one, limit in zip(solution.seeds, limits.tolist(), strict=True)
    ]
    if (costs := problem.costs) is not None:  # the environment then has these as well
        reward, value = collected.get("reward"), collected.get("terminal_reward")

        def cost(step: Step) -> float:
            paid = step.numbers(reward, 0.0)[0]
            return float(costs.of_steps(paid, step.terminated, step.reward)[0])

        def worth(step: Step) -> float:
            return float(costs.of_steps(step.reward, step.terminated, step.reward)[1])

        value = worth if value is None else value
        collected = {**collected, "reward": cost, "terminal_reward": value}
    return certify_maps(maps, simulator(env, **collected), starts=starts, seed=seed, effort=effort)


def tolerated(v: Float[np.ndarray, "seeds states"], least: float) -> Float[np.ndarray, " seeds"]:
    """Returns the default tolerance of a map."""
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
    """Compares any functions from observations to v with rollouts."""
    effort = effort if effort is not None else Effort()
    rollouts = sim.group_size if effort.rollouts is None else effort.rollouts
    errors.check_whole("starts", starts, 1)
    if not all(one.tolerance > 0 for one in maps):
        raise ArgumentError("tolerance must be positive.", argument="tolerance")
    rng = np.random.default_rng(errors.check_whole("seed", seed, 0, MOST_SEED))
    states, observations = sim.start(starts, rng)
    level, shape = LEVEL / (starts * effort.rounds), (len(maps), starts)
    names = ("estimate", "low", "high", "surprise")
    empty: dict[str, Any] = {name: np.full(shape, np.nan) for name in names}
    empty |= {"effective": np.zeros(shape), "unfinished": np.zeros(shape)}
    certificate = Certificate(
        observations,
        tuple(one.name for one in maps),
        np.array([one.tolerance for one in maps]),
        np.stack([one.values(observations) for one in maps]),
        groups=np.zeros(shape, int),
        ascents=np.zeros(shape, bool),
        **empty,
    )
    late, each = False, (effort.seconds or np.inf) / len(maps)
    with progress_bar("certify") as show:
        for k, one in enumerate(maps):
            until = time.monotonic() + each
            walk, claimed = Walk(sim, one, effort, rng, show, until), certificate.claimed[k]
            which = f"map {k + 1} of {len(maps)}, round"
            certificate.ascents[k] = walk.ascents(states)
            pending, measured, count = np.arange(starts), None, effort.groups
            for number in range(effort.rounds):
                walk.label = f"{which} {number + 1} of at most {effort.rounds}"
                more = walk.weights(states[pending], claimed[pending], count, rollouts)
                measured = more if measured is None else measured.joined(more)
                columns = interval(measured, claimed[pending], level)
                columns |= {"surprise": measured.surprise, "groups": measured.rise.shape[1]}
                for name, values in columns.items():
                    getattr(certificate, name)[k, pending] = values
                undecided = ~(certificate.held | certificate.refuted)[k, pending]
                pending, count = pending[undecided], 2 * count
                measured = Groups(*(part[undecided] for part in measured))
                if not pending.size or certificate.refuted[k].any() or walk.stopped:
                    break
            late |= walk.stopped
            if walk.interrupted:
                break
    return replace(certificate, interrupted=late)
