"""Checkpoints of a fit under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from drogo.device import to_device
from drogo.errors import BadCheckpoint, DamagedFile
from drogo.files import Header, read_arrays, write_arrays
from drogo.learn.learner import State
from drogo.requests import differences

KIND = "checkpoint"
HISTORY, STATE = "history/", "state/"


@dataclass(frozen=True)
class Progress:
    """The progress of a fit: everything that a checkpoint holds.

    Args:
        states: The states of all runs, stacked.
        history: The logged rows, by name.
        losses: The summed losses of the chunks since the last logged update.
    """

    states: State
    history: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)
    losses: tuple[np.ndarray, ...] = ()

    @property
    def update(self) -> int:
        return int(np.asarray(self.states.update).max())

    @property
    def is_logged(self) -> bool:
        return bool(self.history) and int(self.history["update"][-1]) == self.update

    @property
    def last_row(self) -> dict[str, np.ndarray]:
        return {name: rows[-1] for name, rows in self.history.items()}

    def with_row(self, row: Mapping[str, np.ndarray]) -> Progress:
        """Returns the progress with one more row in its history."""
        history = {name: (*self.history.get(name, ()), value) for name, value in row.items()}
        return Progress(self.states, history)


def save(path: Path, identity: dict[str, Any], progress: Progress) -> None:
    """Writes a checkpoint, replacing the last one."""
    arrays = as_section(HISTORY, progress.history) | as_section(STATE, by_path(progress.states))
    if progress.losses:
        arrays["losses"] = np.stack(progress.losses)
    write_arrays(path, KIND, arrays, identity, overwrite=True)


def restore(path: Path, identity: dict[str, Any], fresh: Progress) -> Progress:
    """Returns the progress that a checkpoint holds."""

    def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
        differ = differences(stored, identity)
        if differ:
            raise ValueError(f"it belongs to another fit, which differs in {', '.join(differ)}")
        check_leaves(section(headers, STATE), fresh.states)
        check_history(section(headers, HISTORY), len(fresh.states.update))

    try:
        arrays, _ = read_arrays(path, KIND, check)
    except (DamagedFile, OSError) as error:
        raise BadCheckpoint(str(error), remedy="Delete it, or give another path.") from error
    states = tree_from(section(arrays, STATE), fresh.states)
    history = history_rows(section(arrays, HISTORY))
    return Progress(states, history, tuple(arrays.get("losses", ())))


def history_rows(history: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
    """Returns the history of a solution as its logged rows."""
    return {name: tuple(map(np.asarray, rows)) for name, rows in history.items()}


def section(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Returns the arrays of a file whose names have a prefix, without it."""
    return {k.removeprefix(prefix): part for k, part in arrays.items() if k.startswith(prefix)}


def as_section(prefix: str, parts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns named parts as arrays for a file; those that are None are left out."""
    return {prefix + name: np.asarray(part) for name, part in parts.items() if part is not None}


def by_path(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves of a tree by their paths in it."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}


def tree_from(stored: Mapping[str, np.ndarray], like: PyTree) -> PyTree:
    """Returns the tree whose leaves `by_path` named."""
    check_leaves(stored, like)
    given = [to_device(stored[name], leaf.dtype) for name, leaf in by_path(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), given)


def check_leaves(stored: Mapping[str, Any], like: PyTree) -> None:
    """Raises an error unless arrays, or their headers, fit a tree."""
    leaves = by_path(like)
    expected = {name: (leaf.shape, leaf.dtype.kind) for name, leaf in leaves.items()}
    found = {name: (leaf.shape, leaf.dtype.kind) for name, leaf in stored.items()}
    differ = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    if differ:
        first = differ[0]
        raise DamagedFile(
            f"{len(differ)} of the stored arrays do not fit the network and the optimiser; the "
            f"first is {first}: stored is {found.get(first, 'nothing')}, expected is "
            f"{expected.get(first, 'nothing')}."
        )


def check_history(stored: Mapping[str, Any], runs: int) -> None:
    """Raises an error unless arrays, or their headers, are the history of this many runs."""
    rows = stored["update"].shape
    wrong = [name for name, part in stored.items() if part.shape not in (rows, (*rows, runs))]
    if len(rows) != 1 or wrong:
        raise DamagedFile(f"its history has another shape for {', '.join(wrong) or 'update'}")
