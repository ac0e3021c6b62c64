"""Checkpoints of a fit under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from drogo.errors import BadCheckpoint, DamagedFile
from drogo.files import read_array_file, write_array_file
from drogo.learn.learner import State

FORMAT = "drogo checkpoint 3"
HISTORY, LEAF = "history/", "leaf/"


@dataclass(frozen=True)
class Progress:
    """How far a fit is: everything that a checkpoint holds.

    Args:
        states: The states of all lanes, stacked.
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

    def with_row(self, row: Mapping[str, np.ndarray]) -> Progress:
        """Returns the progress with one more row in its history."""
        history = {name: (*self.history.get(name, ()), value) for name, value in row.items()}
        return Progress(self.states, history)


def save(path: Path, identity: dict[str, Any], progress: Progress) -> None:
    """Writes a checkpoint, replacing the last one.

    Args:
        path: The file.
        identity: What must agree for the checkpoint to be used again.
        progress: How far the fit is.
    """
    arrays = {**history_arrays(progress.history), **leaf_arrays(progress.states)}
    if progress.losses:
        arrays["losses"] = np.stack(progress.losses)
    write_array_file(path, arrays, {"format": FORMAT, **identity}, overwrite=True)


def restore(path: Path, identity: dict[str, Any], fresh: Progress) -> Progress:
    """Returns the progress that a checkpoint holds.

    Args:
        path: The file.
        identity: What the checkpoint must agree with.
        fresh: The fit before its first update, which has the shapes that are expected.
    """
    remedy = "Delete it, or give another path."
    try:
        arrays, stored = read_array_file(path)
        wanted = {"format": FORMAT, **identity}
        differ = sorted(name for name in wanted if stored.get(name) != wanted[name])
        if differ:
            raise BadCheckpoint(
                f"{path} is a checkpoint of another fit: {', '.join(differ)} differ.", remedy=remedy
            )
        states = tree_from_arrays(arrays, fresh.states)
    except BadCheckpoint:
        raise
    except (ValueError, KeyError, OSError) as error:
        raise BadCheckpoint(f"{path} cannot be read ({error}).", remedy=remedy) from error
    history = history_rows(history_from_arrays(arrays))
    return Progress(states, history, tuple(arrays.get("losses", ())))


def history_rows(history: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
    """Returns the history of a result as the rows that it was logged in."""
    return {name: tuple(map(np.asarray, rows)) for name, rows in history.items()}


def history_arrays(history: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns a history as arrays for a file."""
    return {f"{HISTORY}{name}": np.stack(list(rows)) for name, rows in history.items()}


def history_from_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the history that `history_arrays` wrote."""
    return {k.removeprefix(HISTORY): rows for k, rows in arrays.items() if k.startswith(HISTORY)}


def leaf_arrays(tree: PyTree, prefix: str = LEAF) -> dict[str, np.ndarray]:
    """Returns the leaves of a tree as arrays for a file."""
    return {f"{prefix}{k:04d}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(tree))}


def tree_from_arrays(arrays: Mapping[str, np.ndarray], like: PyTree, prefix: str = LEAF) -> PyTree:
    """Returns the tree that `leaf_arrays` wrote.

    Args:
        arrays: The arrays of a file.
        like: A tree of the same structure, shapes and types.
        prefix: The beginning of the leaves' names.
    """
    leaves, structure = jax.tree.flatten(like)
    stored = [arrays[name] for name in sorted(arrays) if name.startswith(prefix)]
    shapes = [[(leaf.shape, str(leaf.dtype)) for leaf in part] for part in (leaves, stored)]
    if shapes[0] != shapes[1]:
        raise DamagedFile(
            f"the stored arrays do not fit the network and the optimiser: stored are {len(stored)} "
            f"arrays, {_sizes(stored)}; expected are {len(leaves)}, {_sizes(leaves)}."
        )
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in stored])


def _sizes(leaves: list[Any]) -> str:
    listed = ", ".join("x".join(map(str, leaf.shape)) or "1" for leaf in leaves[:6])
    return listed + (", ..." if len(leaves) > 6 else "")
