"""Reads whole episodes: lists of them, and data sets of Minari."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Number
from typing import Any

import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Shaped

from drogo.data import arrays
from drogo.data.step import Key, part_of
from drogo.data.table import merge_equal
from drogo.errors import ArgumentTypeError, DataError, MissingFile, import_extra

PER_STEP = {"actions": "action", "rewards": "reward", "behaviour": "behaviour"}
"""The optional fields of an episode that have an entry for each step, and the columns they make."""


def recorded(trajectories: Iterable[Any], key: Key) -> dict[str, np.ndarray]:
    """Returns the columns of episodes, one after the other; see `Transitions.from_trajectories`."""
    if isinstance(trajectories, Mapping | str) or not isinstance(trajectories, Iterable):
        problem = f"trajectories is a {type(trajectories).__qualname__}; give a list of episodes."
        raise ArgumentTypeError(problem, argument="trajectories")
    episodes = [_episode(number, episode, key) for number, episode in enumerate(trajectories)]
    if not episodes:
        raise DataError("trajectories is empty; give at least one.", argument="trajectories")
    columns = {name: _joined(name, episodes) for name in episodes[0]}
    lengths = np.array([len(episode["terminated"]) for episode in episodes])
    last = np.cumsum(lengths + 1) - 1
    left = np.ones(last[-1] + 1, dtype=bool)
    left[last] = False  # an episode has one observation more than steps
    table, index = merge_equal(columns.pop("observations"))
    state, next_state = index[left], index[1:][left[:-1]]
    named = {PER_STEP.get(name, name): column for name, column in columns.items()}
    return {"observations": table, "state": state, "next_state": next_state, **named}


def _episode(number: int, episode: Any, key: Key) -> dict[str, np.ndarray]:
    """Returns the arrays of one episode, whose lengths fit together."""
    get = episode.get if isinstance(episode, Mapping) else lambda name: getattr(episode, name, None)
    values, name = get("observations"), f"observations of episode {number}"
    if values is None or isinstance(values, Number):
        raise arrays.wrong(name, f"is {values!r}, not an array.")
    if not isinstance(values, dict | tuple):
        values = arrays.plain(name, values)
    observations = arrays.plain(name, part_of(values, key, batch=1))
    n = len(observations) - 1 if observations.ndim else 0
    if n < 1:
        raise arrays.wrong(name, f"has shape {observations.shape}; a step needs two of them.")
    parts = {"observations": observations}
    for name in PER_STEP:
        if get(name) is not None:
            parts[name] = _per_step(number, name, get(name), n)
    parts["terminated"] = terminated = _flags(number, "terminated", get("terminated"), n)
    truncated = not terminated[-1] if get("truncated") is None else get("truncated")
    parts["truncated"] = _flags(number, "truncated", truncated, n)
    return parts


def _per_step(number: int, name: str, values: Any, n: int) -> Shaped[np.ndarray, "n ..."]:
    array = arrays.plain(f"{name} of episode {number}", values)
    if array.shape[:1] != (n,) or (name != "actions" and array.ndim > 1):
        raise arrays.wrong(
            f"{name} of episode {number}",
            f"has shape {array.shape}; expected {n}, one for each step of {n + 1} observations.",
            "An episode has one observation more than steps: the one after the last action. Where "
            "that was not recorded, leave the last action and reward out.",
        )
    return array


def _flags(number: int, name: str, values: Any, n: int) -> Bool[np.ndarray, " n"]:
    """Returns a flag for each step, of which only the last one may be True."""
    title = f"{name} of episode {number}"
    if values is None:
        remedy = "Give True if its last step reached a terminal state, otherwise False."
        raise arrays.wrong(title, "is missing.", remedy)
    if not np.iterable(values):
        values = [False] * (n - 1) + [values]
    flags = arrays.flags(title, _per_step(number, name, values, n), n)
    if flags[:-1].any():
        problem = f"is True at step {int(flags.argmax())}, and the episode goes on."
        raise arrays.wrong(title, problem, "Give each episode as an entry of the list.")
    return flags


def _joined(name: str, episodes: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Returns one column of all episodes, which must have the same shape and type in each."""
    first = episodes[0][name]
    for number, episode in enumerate(episodes):
        missing = min(set(episode) ^ set(episodes[0]), default=None)
        if missing is not None:
            raise arrays.wrong(missing, f"is in only one of the episodes 0 and {number}.")
        part = episode[name]
        if (part.shape[1:], part.dtype) != (first.shape[1:], first.dtype):
            kinds = (f"shape {one.shape[1:]} and type {one.dtype}" for one in (part, first))
            raise arrays.wrong(
                name, f"of episode {number} has {'; in episode 0 it has '.join(kinds)}."
            )
    return np.concatenate([episode[name] for episode in episodes])


def minari_dataset(dataset: Any) -> Any:
    """Returns a data set of Minari, given as it is or by its id. Nothing is downloaded."""
    if isinstance(dataset, str):
        minari = import_extra("minari", "Minari", extra="minari")
        try:
            dataset = minari.load_dataset(dataset)
        except FileNotFoundError as error:
            raise MissingFile(
                f"there is no data set {dataset!r} on this machine ({error}).",
                remedy=f"Run `minari download {dataset}`, or set MINARI_DATASETS_PATH.",
                argument="dataset",
            ) from error
    if not hasattr(dataset, "iterate_episodes"):
        problem = (
            f"dataset is a {type(dataset).__qualname__}; give a minari.MinariDataset or an id."
        )
        raise ArgumentTypeError(problem, argument="dataset")
    space = dataset.observation_space
    usable = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict)
    if not isinstance(space, usable):
        remedy = "Make arrays of its episodes and use Transitions.from_trajectories."
        raise arrays.wrong("dataset", f"has observations in {space}, not numbers.", remedy)
    return dataset


def episodes_of(dataset: Any) -> Iterator[dict[str, Any]]:
    """Yields the episodes of a data set with the names of `Transitions.from_trajectories`."""
    names = {"terminated": "terminations", "truncated": "truncations"}
    for episode in dataset.iterate_episodes():
        fields = ("observations", "actions", "rewards", "terminated", "truncated")
        yield {field: getattr(episode, names.get(field, field)) for field in fields}
