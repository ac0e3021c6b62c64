"""`Costs`: how the rewards of an environment become the costs and the ends of a map."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo import errors
from drogo.errors import ArgumentError, ArgumentTypeError, DataError, NotNegative, Number

Rewards = Float[np.ndarray, " n"]
EPISODES_OF_AN_END = 10
"""The best end is worth as many of the longest episodes more than one that pays nothing. With one,
hurrying would be worth a risk, although steps are free and the limit of steps is seldom met."""
LEAST_HORIZON = 100
"""The smallest number of steps that the best end is worth more than one that pays nothing."""
LASTING = 0.75  # The share of their mean that steps late in an episode earn if going on pays.
FALLS, SEVERAL, MOST_PAIRS = -0.999, 4, 1000
"""The correlation of the last reward with the length of the episode that time alone explains, the
fewest different rewards and lengths that show it, and the most pairs of them that are kept."""


@dataclass(frozen=True)
class Costs:
    """How rewards of any sign become the costs of steps and the values of ends.

    A step of reward r costs `step + charge * max(-r, 0)`. The end of an episode whose last reward
    is r has the terminal reward `worth * min(r - best, 0)`, so that the best end has 0.

    `drogo.fit`, `drogo.solve`, certificates and online maps judge the rewards of the data by
    themselves where these are not all negative; give one to a problem to judge for them.
    """

    step: NotNegative = 1.0
    """The cost of every step."""
    charge: NotNegative = 0.0
    """The part of a negative reward that is added to it."""
    last: NotNegative | None = None
    """The cost of the last step of an episode, whose reward is about the end; by default as for all
    other steps."""
    best: Number = 0.0
    """The last reward of the best end."""
    worth: NotNegative = 1.0
    """The terminal reward of an end that pays 1 less than the best."""

    def __post_init__(self) -> None:
        errors.check_fields(self)
        if self.step == self.charge == 0:
            raise ArgumentError("a step costs nothing: give step= or charge=.", argument="step")

    def of_steps(self, reward: Any, terminated: Any, outcome: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rewards of steps, which are their costs with a minus, and the terminal
        rewards of those that are `terminated`, by their own rewards `outcome`."""
        return of_steps(self.numbers, reward, terminated, outcome)

    @property
    def numbers(self) -> Float[np.ndarray, " 5"]:
        """All fields, and NaN for a `last` of None."""
        return np.array(list(vars(self).values()), dtype=np.float64)


def of_steps(
    numbers: Any, reward: Any, terminated: Any, outcome: Any, library: Any = np
) -> tuple[Any, Any]:
    """Returns the same as `Costs.of_steps` by the numbers of costs, also in JAX."""
    step, charge, last, best, worth = numbers
    charged = -step + charge * library.minimum(reward, 0.0)
    charged = library.where(terminated & ~library.isnan(last), -last, charged)
    return charged, library.where(terminated, worth * library.minimum(outcome - best, 0.0), 0.0)


def as_costs(name: str, value: Any) -> Costs | None:
    """Returns the argument `name`, which is a `Costs`, None, or the fields of one in a file."""
    if value is None or isinstance(value, Costs):
        return value
    if isinstance(value, Mapping) and set(value) == {field.name for field in fields(Costs)}:
        return Costs(**value)
    example = "give drogo.mdp.Costs(step=1.0), or leave it out."
    raise ArgumentTypeError(f"{name} is a {type(value).__name__}; {example}", argument=name)


@dataclass(frozen=True)
class Judged:
    """What the rewards of some steps say."""

    costs: Costs | None  # The costs, or None if rewards are costs already.
    notes: tuple[str, ...] = ()
    sure: bool = True
    """Whether the rewards say which ends are good."""
    error: DataError | None = None
    """The reason why these steps alone are no map to a good end."""


def judge(
    reward: Rewards,
    terminated: Bool[np.ndarray, " n"],
    outcome: Rewards,
    time: Int[np.ndarray, " n"],
    horizon: int = 0,
    *,
    judge_ends: bool = True,
) -> Judged:
    """Judges the rewards of steps, and raises the error if there is one.

    Args:
        reward: The rewards, or what replaces them.
        terminated: The steps that ended an episode.
        outcome: The environment's own rewards, by which its ends are judged.
        time: The number of steps of the episode before each.
        horizon: The longest possible episode, if that is known.
        judge_ends: Whether it matters which ends are good.
    """
    tally = Tally(replaced=not np.array_equal(reward, outcome), longest=horizon)
    tally.add(reward, terminated, outcome, time)
    judged = tally.judged(judge_ends=judge_ends)
    if judged.error is not None:
        raise judged.error
    if judged.costs is None or not judge_ends:
        return judged
    pays = np.unique(outcome[terminated])[::-1]
    values = judged.costs.of_steps(pays, np.ones(pays.size, dtype=bool), pays)[1]
    kinds = [
        f"one whose last reward is {pay:g} is worth {value:.4g}"
        for pay, value in zip(pays.tolist(), values.tolist(), strict=True)
        if value < 0
    ]
    kinds = kinds if len(kinds) < 4 else [kinds[0], f"{len(kinds) - 2} lie between", kinds[-1]]
    said = (f"The best end is worth 0; {', and '.join(kinds)}.",) if kinds else ()
    return replace(judged, notes=(*judged.notes, *said))


class Summary(NamedTuple):
    """Some rewards: their number and that of negative ones, the sum of all and that of negative
    ones with a plus, the lowest and the highest."""

    number: float = 0.0
    negative: float = 0.0
    total: float = 0.0
    charge: float = 0.0
    lowest: float = np.inf
    highest: float = -np.inf

    def with_more(self, rewards: Rewards) -> "Summary":
        """Returns the summary of these and further rewards."""
        low = np.minimum(rewards, 0.0)
        sums = (rewards.size, np.count_nonzero(low), rewards.sum(), -low.sum())
        lowest, highest = rewards.min(initial=self.lowest), rewards.max(initial=self.highest)
        n, negative, total, charge = (a + float(b) for a, b in zip(self, sums, strict=False))
        return Summary(n, negative, total, charge, float(lowest), float(highest))

    @property
    def all_negative(self) -> bool:
        return self.negative == self.number


@dataclass
class Tally:
    """Everything by which the rewards of steps are judged. It does not grow with their number.

    A step of reward r costs, by the rewards of steps that end nothing:

    - where all rewards are negative, those of ends too: -r, and all ends are worth 0;
    - where one negative number replaces them: that number;
    - where all are negative: -r; where none is: 1;
    - where some are: max(-r, 0), and the mean of that (or less, lest it outweighs the ends).

    An end of reward r is worth, by the environment's own rewards of the other steps:

    - where none is negative: 0 if it is the best, and if it pays nothing as much as ten of the
      longest episodes cost;
    - where some are: r - best, and in other units if other rewards replace them.
    """

    replaced: bool = False
    """Whether other rewards replace those of the environment."""
    longest: int = 0
    """The number of steps of the longest episode."""
    steps: Summary = field(default_factory=Summary)
    """The rewards, or what replaces them, of the steps that ended nothing,"""
    own: Summary = field(default_factory=Summary)
    """and those of the environment."""
    ends: Summary = field(default_factory=Summary)
    """The environment's rewards of the steps that ended an episode,"""
    least: float = np.inf
    """and the lowest of them that is positive."""
    costly_ends: bool = True
    """Whether the rewards of ends, or what replaces them, are all negative."""
    times: float = 0.0
    """The sum of the times of the steps that ended nothing,"""
    earned: float = 0.0
    """and of these times their rewards."""
    pairs: set[tuple[float, float]] = field(default_factory=set)
    """The times and the rewards of the first ends that paid."""
    falls: bool = False
    """Whether the time alone says what these pay: the later, the less."""

    def add(self, reward: Rewards, terminated: Any, outcome: Rewards, time: Any) -> None:
        """Adds some steps, with the arguments of `judge`."""
        has_ends = terminated.any()
        going = ~terminated if has_ends else slice(None)
        own, at = outcome[going], time[going]
        self.own = self.own.with_more(own)
        self.steps = self.steps.with_more(reward[going]) if self.replaced else self.own
        self.times, self.earned = self.times + float(at.sum()), self.earned + float(at @ own)
        self.longest = max(self.longest, int(time.max(initial=-1)) + 1)
        if not has_ends:
            return
        ends = outcome[terminated]
        self.ends = self.ends.with_more(ends)
        self.costly_ends &= bool((reward[terminated] < 0).all())
        at, pays, before = time[terminated][ends > 0], ends[ends > 0], len(self.pairs)
        self.least = float(pays.min(initial=self.least))
        some = slice(MOST_PAIRS - before)
        self.pairs.update(zip(at[some].tolist(), pays[some].tolist(), strict=True))
        if len(self.pairs) > before:
            at, pays = np.array(list(self.pairs)).T
            several = min(np.unique(at).size, np.unique(pays).size) >= SEVERAL
            self.falls = several and bool(np.corrcoef(at, pays)[0, 1] < FALLS)

    def judged(self, *, judge_ends: bool = True) -> Judged:
        """Returns what the rewards say. It raises no error."""
        own, ends = self.own, self.ends
        if not self.replaced and own.all_negative and self.costly_ends:
            if not (own.number and ends.number and judge_ends and ends.highest < own.lowest):
                return Judged(None)
            note = f"Every end that was seen costs more than any step ({-ends.highest:g} at "
            note += "least): if a better one exists, collect until it is seen."
            return Judged(None, (note,), sure=False)
        said, costs = self._of_steps()
        return self._of_ends(said, costs) if ends.number and judge_ends else Judged(costs, (said,))

    def _of_steps(self) -> tuple[str, Costs]:
        """Returns what steps cost, with a sentence that says so."""
        steps = self.steps
        if not steps.negative:
            rest = ", and positive ones are left out" if steps.highest > 0 else ""
            return f"A step costs 1, because no reward of a step is negative{rest}.", Costs()
        if self.replaced and steps.lowest == steps.highest:
            return f"A step costs {-steps.lowest:g}.", Costs(step=-steps.lowest)
        step, said = 0.0, "A step costs what its reward says."
        if not steps.all_negative:
            # The longest way to the best end costs no more than the worst end, unless both are one.
            range_of_ends = self.ends.highest - self.ends.lowest if self.ends.number else 0.0
            most = range_of_ends / max(self.longest, LEAST_HORIZON)
            mean = steps.charge / steps.number
            step = min(mean, most or mean)
            said = f"A step costs {step:.3g} besides what a negative reward says. Rewards that are "
            said += "not negative are left out."
        costs = Costs(step=step, charge=1.0)
        if self.replaced and steps.all_negative and self.costly_ends:
            return said, costs
        return said, replace(costs, last=step + max(-steps.highest, 0.0))

    def _of_ends(self, said: str, costs: Costs) -> Judged:
        """Returns the costs of steps with what ends are worth."""
        own, ends, notes = self.own, self.ends, [said]
        free, best, worth = not own.negative, ends.highest, 1.0
        if free and self.falls:
            best = self.least
            notes.append("Ends pay less the later they come, so that all that pay count as equal.")
        if free:
            whole = best if best > 0 else -ends.lowest or 1.0
            worth = self.far(costs) / whole
        elif self.replaced:
            worth = self._usual(costs) * own.number / own.charge
        error, sure = self._objection(), not (free and best <= 0)
        if not sure and error is None:
            problem = "No reward that was seen is positive, so nothing says whether the ends that "
            problem += "were seen are goals or failures."
            given = "terminal_reward=0" if self.replaced else "reward=-1"
            given = given if ends.lowest == ends.highest else "terminal_reward as a function"
            remedy = f"If they are goals, give {given}; if not, collect until a good one is seen."
            command = "Use --reward=-1 if they are goals, or more --transitions."
            notes.append(f"{problem} The best of them are taken for goals. {remedy}")
            if not self.replaced and ends.lowest == ends.highest:
                error = DataError(problem, remedy=remedy, command_remedy=command, argument="reward")
        costs = replace(costs, best=best, worth=worth)
        return Judged(costs, tuple(notes), sure and error is None, error)

    def far(self, costs: Costs) -> float:
        """Returns the cost of ten of the longest episodes."""
        return EPISODES_OF_AN_END * max(self.longest, LEAST_HORIZON) * self._usual(costs)

    def _usual(self, costs: Costs) -> float:
        """Returns the mean cost of a step, 1 before the first."""
        count = self.steps.number
        return costs.step + costs.charge * (self.steps.charge / count if count else 1.0)

    def _objection(self) -> DataError | None:
        """Returns an error if an environment punishes all ends that were seen, or if going on pays:
        late steps too, unlike those of a shaping reward, which pays for the way to a goal alone."""
        own, ends, lowest = self.own, self.ends, min(self.own.lowest, 0.0)
        pays = own.total > 0 and ends.highest <= own.highest
        pays = pays and self.earned >= LASTING * self.times * own.total / own.number
        if not (ends.highest < lowest or pays):
            return None
        why = f"their last rewards are at most {ends.highest:g}, and those of other steps at least "
        why = f"{why}{lowest:g}"
        remedy = "Collect until a good one is seen. "
        command = "Collect more transitions, for example --transitions=1000000. "
        if pays:
            why = f"steps earn {own.total / own.number:g} on average, and the last ones no more"
            remedy = "If the task is to go on, use the problem Continuing with NeverEnding(env, "
            remedy, command = f"{remedy}at_end=0). ", f"{remedy}at_end=0) in Python. "
        problem = f"none of the {ends.number:g} ends that were seen is one to reach: {why}."
        remedy += "If these are goals after all, give reward=-1 and terminal_reward=0."
        command += "If these are goals after all, use --reward=-1 --terminal-reward=0."
        return DataError(problem, remedy=remedy, command_remedy=command, argument="terminated")
