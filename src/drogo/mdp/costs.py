"""`Costs`: how the rewards of an environment become the costs and the ends of a map."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

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
FALLS = -0.999
"""The correlation of the last reward with the length of the episode that time alone explains."""


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
    """The cost of the last step of an episode, by default as for all other steps."""
    best: Number = 0.0
    """The last reward of the best end."""
    worth: NotNegative = 1.0
    """The terminal reward of an end that pays 1 less than the best."""

    def __post_init__(self) -> None:
        errors.check_fields(self)
        if self.step == self.charge == 0:
            raise ArgumentError("a step costs nothing: give step= or charge=.", argument="step")

    def of_steps(self, reward: Any, terminated: Any, outcome: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns minus the costs of steps, and the terminal rewards of those `terminated`."""
        charged = -self.step + self.charge * np.minimum(reward, 0.0)
        if self.last is not None:
            charged = np.where(terminated, -self.last, charged)
        return charged, np.where(terminated, self.worth * np.minimum(outcome - self.best, 0.0), 0.0)


def as_costs(name: str, value: Any) -> Costs | None:
    """Returns the argument `name`, which is a `Costs`, None, or the fields of one in a file."""
    if value is None or isinstance(value, Costs):
        return value
    if isinstance(value, Mapping) and set(value) == {field.name for field in fields(Costs)}:
        return Costs(**value)
    example = "give drogo.Costs(step=1.0), or leave it out."
    raise ArgumentTypeError(f"{name} is a {type(value).__name__}; {example}", argument=name)


@dataclass(frozen=True)
class Judged:
    """What the rewards of some steps say."""

    costs: Costs | None  # The costs, or None if rewards are costs already.
    notes: tuple[str, ...] = ()
    sure: bool = True  # Whether the rewards say which ends are good.


def judge(
    reward: Rewards,
    terminated: Bool[np.ndarray, " n"],
    outcome: Rewards,
    time: Int[np.ndarray, " n"],
    horizon: int = 0,
    *,
    judge_ends: bool = True,
) -> Judged:
    """Judges the rewards of steps.

    Args:
        reward: The rewards, or what replaces them.
        terminated: The steps that ended an episode.
        outcome: The environment's own rewards, by which its ends are judged.
        time: The number of steps of the episode before each.
        horizon: The longest possible episode, if that is known.
        judge_ends: Whether it matters which ends are good.
    """
    replaced = not np.array_equal(reward, outcome)
    steps, ordinary, ends = reward[~terminated], outcome[~terminated], outcome[terminated]
    if not replaced and (reward < 0).all():
        if not (ends.size and steps.size and ends.max() < steps.min()):
            return Judged(None)
        note = f"Every end that was seen costs more than any step ({-ends.max():g} at least): if a "
        return Judged(None, (f"{note}better one exists, collect until it is seen.",))
    longest = max(horizon, int(time.max(initial=0)) + 1, LEAST_HORIZON)
    said, costs = _of_steps(steps, float(np.ptp(ends) if ends.size else 0.0) / longest)
    if replaced and steps.size and costs["charge"] and np.ptp(steps) == 0:
        said, costs = f"A step costs {-steps[0]:g}.", {"step": float(-steps[0]), "charge": 0.0}
    charges = np.maximum(-steps, 0).mean() if steps.size else 1
    usual = costs["step"] + costs["charge"] * float(charges)
    if costs["charge"] and not (replaced and (reward < 0).all()):
        each = costs["step"] + costs["charge"] * np.maximum(-steps, 0.0)
        costs["last"] = float(np.median(each))
    if not (ends.size and judge_ends):
        return Judged(Costs(**costs), (said,))
    _check_good(ordinary, time[~terminated], ends)
    free, best = not (ordinary < 0).any(), float(ends.max())
    paying, at = ends > 0, time[terminated]
    if free and _falls(ends[paying], at[paying]):  # what varies is the time, not the end
        best = float(ends[paying].min())
    costs["best"] = best
    if free:
        whole = best if best > 0 else np.abs(ends).max() or 1.0
        costs["worth"] = EPISODES_OF_AN_END * longest * usual / whole
    elif replaced:
        costs["worth"] = usual / float(np.maximum(-ordinary, 0.0).mean())
    made = Costs(**costs)
    pays = np.unique(ends)[::-1]
    values = made.of_steps(pays, np.ones(pays.size, dtype=bool), pays)[1]
    kinds = [
        f"one whose last reward is {pay:g} is worth {value:.4g}"
        for pay, value in zip(pays.tolist(), values.tolist(), strict=True)
        if value < 0
    ]
    kinds = kinds if len(kinds) < 4 else [kinds[0], f"{len(kinds) - 2} lie between", kinds[-1]]
    if kinds:
        return Judged(made, (said, f"The best end is worth 0; {', and '.join(kinds)}."))
    if not free or best > 0:
        return Judged(made, (said,))
    problem = "No reward that was seen is positive, so nothing says whether the ends that were "
    problem += "seen are goals or failures."
    given = "terminal_reward=0" if replaced else "reward=-1"
    remedy = f"If they are goals, give {given}; if not, collect until a good one is seen."
    if not replaced:
        command = "Use --reward=-1 if they are goals, or more --transitions."
        raise DataError(problem, remedy=remedy, command_remedy=command, argument="reward")
    return Judged(made, (said, f"{problem} They are taken for goals. {remedy}"), sure=False)


def _of_steps(steps: Rewards, most: float) -> tuple[str, dict[str, float]]:
    """Returns what the rewards of steps that end nothing cost, with a sentence that says so. Where
    some are free, `most` is the largest cost of each, so that the longest way to the best end costs
    no more than the worst end; 0 if all ends are equal."""
    if steps.size and (steps < 0).all():
        return "A step costs what its reward says.", {"step": 0.0, "charge": 1.0}
    if not (steps < 0).any():
        rest = ", and positive ones are left out" if (steps > 0).any() else ""
        said = f"A step costs 1, because no reward of a step is negative{rest}."
        return said, {"step": 1.0, "charge": 0.0}
    mean = float(np.maximum(-steps, 0.0).mean())
    step = min(mean, most or mean)
    said = f"A step costs {step:.3g} besides what a negative reward says. Rewards that are not "
    return f"{said}negative are left out.", {"step": step, "charge": 1.0}


def _falls(pays: Rewards, time: Int[np.ndarray, " n"]) -> bool:
    """Returns whether the time alone says what ends pay: the later, the less."""
    if pays.size < 2 or not np.ptp(pays) or not np.ptp(time):
        return False
    return bool(np.corrcoef(time, pays)[0, 1] < FALLS)


def _check_good(ordinary: np.ndarray, time: np.ndarray, ends: np.ndarray) -> None:
    """Raises an error if an environment punishes all ends that were seen, or if going on pays: late
    steps too, unlike those of a shaping reward, which pays for the way to a goal alone."""
    lowest = ordinary.min(initial=0.0)
    pays = ordinary.size and ordinary.mean() > 0 and ends.max() <= ordinary.max()
    pays = pays and ordinary[time >= np.median(time)].mean() > LASTING * ordinary.mean()
    if not (ends.max() < lowest or pays):
        return
    why = f"their last rewards are at most {ends.max():g}, and those of other steps at least "
    why = f"{why}{lowest:g}"
    if pays:
        why = f"steps earn {ordinary.mean():g} on average, and the last ones no more"
    problem = f"none of the {ends.size} ends that were seen is one to reach: {why}."
    remedy = "Collect until a good one is seen. "
    command = "Collect more transitions, for example --transitions=1000000. "
    if pays:
        remedy = "If the task is to go on, use the problem Continuing with NeverEnding(env, "
        remedy, command = f"{remedy}at_end=0). ", f"{remedy}at_end=0) in Python. "
    remedy += "If these are goals after all, give reward=-1 and terminal_reward=0."
    command += "If these are goals after all, use --reward=-1 --terminal-reward=0."
    raise DataError(problem, remedy=remedy, command_remedy=command, argument="terminated")
