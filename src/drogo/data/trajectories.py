"""Whole episodes that somebody else recorded, as lists of them or as a data set of Minari."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Number
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Shaped

from drogo.data import arrays
from drogo.data.parts import Key, part_of
from drogo.data.recorded import Recorded
from drogo.data.table import merge_equal
from drogo.errors import ArgumentTypeError, DataError, MissingFile, import_extra

PER_STEP = ("actions", "rewards", "behaviour")
"""What an episode may have for each of its steps."""


def recorded(
    trajectories: Iterable[Any], action_space: gymnasium.Space | None, key: Key
) -> Recorded:
    """Returns the steps of episodes, one after the other; see `Transitions.from_trajectories`."""
    if isinstance(trajectories, Mapping) or not isinstance(trajectories, Iterable):
        raise ArgumentTypeError(
            f"trajectories is a {type(trajectories).__qualname__}; give a list of episodes, even "
            "if it is only one."
        )
    episodes = [_episode(number, one, key) for number, one in enumerate(trajectories)]
    if not episodes:
        raise DataError("trajectories is empty; at least one episode is needed.")
    columns = {name: _joined(name, episodes) for name in episodes[0]}
    lengths = np.array([len(episode["terminated"]) for episode in episodes])
    last = np.cumsum(lengths + 1) - 1
    left = np.ones(last[-1] + 1, dtype=bool)
    left[last] = False  # an episode has one observation more than steps
    table, index = merge_equal(columns["observations"])
    state = index[left]
    next_state = index[1:][left[:-1]]
    return Recorded(
        table,
        state,
        next_state,
        columns["terminated"],
        columns["truncated"],
        columns.get("rewards"),
        columns.get("actions"),
        columns.get("behaviour"),
        action_space=action_space,
    )


def _episode(number: int, episode: Any, key: Key) -> dict[str, np.ndarray]:
    """Returns the arrays of one episode, whose lengths fit together."""
    own = _field(episode, "observations")
    if own is None or isinstance(own, Number):
        raise DataError(f"episode {number} has no observations, but {own!r}.")
    if not isinstance(own, dict | tuple):
        own = arrays.plain(f"observations of episode {number}", own)
    observations = arrays.plain(f"observations of episode {number}", part_of(own, key, batch=1))
    n = len(observations) - 1 if observations.ndim else 0
    if n < 1:
        raise DataError(
            f"observations of episode {number} have shape {observations.shape}; a step needs two: "
            "the one that was left and the one that was reached."
        )
    parts = {"observations": observations}
    for name in PER_STEP:
        values = _field(episode, name)
        if values is not None:
            parts[name] = _of_steps(number, name, values, n)
    parts["terminated"] = over = _end(number, "terminated", _field(episode, "terminated"), n)
    cut = _field(episode, "truncated")
    parts["truncated"] = _end(number, "truncated", not over[-1] if cut is None else cut, n)
    return parts


def _field(episode: Any, name: str) -> Any:
    return episode.get(name) if isinstance(episode, Mapping) else getattr(episode, name, None)


def _of_steps(number: int, name: str, values: Any, n: int) -> Shaped[np.ndarray, "n ..."]:
    array = arrays.plain(f"{name} of episode {number}", values)
    if array.shape[:1] != (n,) or (name != "actions" and array.ndim > 1):
        raise DataError(
            f"episode {number} has {n + 1} observations, and {name} of shape {array.shape}; "
            f"expected {n}, one for each step.",
            remedy="An episode has one observation more than steps: the one after the last action. "
            "Where that was not recorded, leave the last action and reward out.",
        )
    return array


def _end(number: int, name: str, given: Any, n: int) -> Bool[np.ndarray, " n"]:
    """Returns a flag for each step, of which only the last one may be True."""
    if given is None:
        raise DataError(
            f"episode {number} has no {name}.",
            remedy="Give True if its last step reached a terminal state, and False if it was cut "
            "off there.",
        )
    if not np.iterable(given):
        given = [False] * (n - 1) + [given]
    flags = arrays.flags(f"{name} of episode {number}", _of_steps(number, name, given, n), n)
    if flags[:-1].any():
        raise DataError(
            f"episode {number} goes on after step {int(flags.argmax())}, which is {name}.",
            remedy="Give each episode as an entry of its own.",
        )
    return flags


def _joined(name: str, episodes: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Returns one column of all episodes, which must agree about its shape and type."""
    first = episodes[0][name]
    for number, episode in enumerate(episodes):
        part = episode.get(name)
        if part is None or (part.shape[1:], part.dtype) != (first.shape[1:], first.dtype):
            found = "none" if part is None else f"shape {part.shape[1:]} and type {part.dtype}"
            raise DataError(
                f"{name} of episode {number}: {found}; in episode 0 each has shape "
                f"{first.shape[1:]} and type {first.dtype}."
            )
    missing = {extra for episode in episodes for extra in episode} - set(episodes[0])
    if missing:
        raise DataError(f"episode 0 has no {min(missing)}, which other episodes have.")
    return np.concatenate([episode[name] for episode in episodes])


@runtime_checkable
class MinariDataset(Protocol):
    """What is needed of a `minari.MinariDataset`."""

    observation_space: gymnasium.Space
    action_space: gymnasium.Space

    def iterate_episodes(self) -> Iterable[Any]:
        """Returns the episodes."""
        ...


def minari_dataset(given: object) -> MinariDataset:
    """Returns a data set of Minari that is on this machine.

    Args:
        given: The data set, or its id.

    Raises:
        MissingFile: There is no data set of this id on this machine. Nothing is downloaded.
        DataError: Its observations cannot be used.
    """
    if isinstance(given, str):
        minari = import_extra("minari", "Minari", extra="minari")
        try:
            given = minari.load_dataset(given)
        except FileNotFoundError as error:
            raise MissingFile(
                f"there is no data set {given!r} on this machine ({error}).",
                remedy=f"Download it with `minari download {given}`, or set MINARI_DATASETS_PATH.",
            ) from error
    if not isinstance(given, MinariDataset):
        raise ArgumentTypeError(
            f"dataset is a {type(given).__qualname__}; it must be a minari.MinariDataset or an id."
        )
    space = given.observation_space
    usable = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict)
    if not isinstance(space, usable):
        raise DataError(
            f"the observations of the data set are a {space}, not numbers or a Dict of them.",
            remedy="Make arrays of its episodes and use Transitions.from_trajectories.",
        )
    return given


def episodes_of(dataset: MinariDataset) -> Iterator[dict[str, Any]]:
    """Returns the episodes of a data set under the names of `Transitions.from_trajectories`."""
    for episode in dataset.iterate_episodes():
        yield {
            "observations": episode.observations,
            "actions": episode.actions,
            "rewards": episode.rewards,
            "terminated": episode.terminations,
            "truncated": episode.truncations,
        }
