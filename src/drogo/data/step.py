"""`Step`: one step of an environment, its numbers, and the parts of its observations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from drogo.errors import ArgumentError, Check, DataError, check_cost, check_number, check_type
from drogo.files import KINDS

NumberOfStep = float | Callable[[Any], float] | None
"""A number for every step, a function of the step, or None for the environment's number."""


class Step(NamedTuple):
    """One step of an environment, as the environment reported it."""

    observation: Any
    action: Any
    reward: float
    next_observation: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    def numbers(self, reward: NumberOfStep, terminal_reward: NumberOfStep) -> tuple[float, float]:
        """Returns the reward of the state that was left, and the value of a terminal state."""
        reported = float(self.info.get("terminal_reward") or 0.0) if self.terminated else 0.0
        value = reported if terminal_reward is None or not self.terminated else terminal_reward
        cost = self.reward - reported if reward is None else reward
        return cost(self) if callable(cost) else cost, value(self) if callable(value) else value


def number_or_function(name: str, given: NumberOfStep, check: Check = check_number) -> NumberOfStep:
    """Returns the argument `name`, a number as a float; a function or None stays as it is."""
    return given if given is None or callable(given) else check(name, given)


class StepNumbers(NamedTuple):
    """The numbers of a step that a user gave, as in `collect`."""

    reward: NumberOfStep = None
    terminal_reward: NumberOfStep = None
    behaviour: Callable[[Step], float] | None = None

    def checked(self) -> "StepNumbers":
        """Returns the same with numbers as floats, and raises if the reward is not a cost."""
        reward = number_or_function("reward", self.reward, check_cost)
        terminal_reward = number_or_function("terminal_reward", self.terminal_reward)
        return StepNumbers(reward, terminal_reward, self.behaviour)


def info_of(infos: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Returns the info of environment k of a vector; after a reset, that of its last step."""
    if "_final_info" in infos and infos["_final_info"][k]:
        infos = infos["final_info"]
    return {
        name: values[k]
        for name, values in infos.items()
        if not name.startswith("_") and f"_{name}" in infos and infos[f"_{name}"][k]
    }


Keys = str | Sequence[str] | None
Key = str | tuple[str, ...] | None
"""The part of a `Dict` observation, several parts, or None for observations without parts."""


def as_key(given: Keys) -> Key:
    """Returns the argument `key`, in which a single name in a sequence is just that name."""
    if given is None or isinstance(given, str):
        return given
    names = tuple(check_type("key", given, Sequence, "the names of parts"))
    for name in names:
        check_type("key", name, str, "the names of parts")
    if not names:
        raise ArgumentError("key is empty; name at least one part.", argument="key")
    return names[0] if len(names) == 1 else names


def part_of(observation: Any, key: Key, batch: int = 0) -> Shaped[np.ndarray, "..."]:
    """Returns a copy of the part of an observation (or of a batch) that `key` names or joins.
    Without a key, all numbers of a `Tuple` or a `Dict` are joined, the latter sorted by name."""
    names = ", ".join(map(str, observation)) if isinstance(observation, dict) else ""
    if key is not None:
        if not isinstance(observation, dict):
            problem = f"key is {key!r}, but the observation is not a Dict."
            raise DataError(problem, argument="key")
        for name in (key,) if isinstance(key, str) else key:
            if name not in observation:
                problem = f"{name!r} is no part of the observation, which has {names}."
                raise DataError(problem, argument="key")
        observation = observation[key] if isinstance(key, str) else tuple(map(observation.get, key))
    if not isinstance(observation, dict | tuple):
        return _array(str(key or "the observation"), observation)
    parts = list(_leaves(observation))
    wrong = [part for part in parts if part.dtype.kind not in KINDS]
    wrong += [part for part in parts if key is None and part.ndim - batch > 2]
    if wrong or not parts:
        problem = f"the observation has parts ({names}) that are images or no numbers, or none: "
        problem += f"choose what to learn from{'' if key is None else f' in place of {key}'},"
        remedy = f"for example key={names.partition(',')[0]!r}." if names else "with a wrapper."
        command = remedy.replace("key=", "--key=").replace("'", "")
        raise DataError(problem, remedy=remedy, command_remedy=command, argument="key")
    return np.concatenate([part.reshape(*part.shape[:batch], -1) for part in parts], axis=-1)


def _leaves(observation: Any) -> Iterator[np.ndarray]:
    """Yields the values of all parts of an observation, and of parts of parts."""
    if isinstance(observation, dict):
        observation = tuple(part for _, part in sorted(observation.items()))
    if isinstance(observation, tuple):
        yield from (leaf for part in observation for leaf in _leaves(part))
    else:
        yield _array("a part of the observation", observation)


def _array(name: str, values: Any) -> Shaped[np.ndarray, "..."]:
    try:
        return np.array(values)
    except ValueError as error:
        raise DataError(f"{name} is not an array: {error}.") from error
