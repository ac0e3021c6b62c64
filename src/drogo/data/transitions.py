"""`Transitions`: a table of distinct observations, and transitions as pairs of indices into it.

A finite world takes as much memory as its states, however many transitions are drawn. In a
continuous world, the table is as long as the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.errors import ArgumentError, DataError, MissingFile
from drogo.files import read_array_file, write_array_file
from drogo.mdp.model import distinct_pairs

FORMAT = "drogo transitions 3"
OFTEN = 2
BYTES_CHECKED_AT_ONCE = 2**26


@dataclass(frozen=True)
class Edges:
    """Distinct transitions. A batch is given by how often each of them occurs in it."""

    state: Int[np.ndarray, " edges"]
    next_state: Int[np.ndarray, " edges"]
    reward: Float[np.ndarray, " edges"]
    terminal_value: Float[np.ndarray, " edges"]
    terminated: Bool[np.ndarray, " edges"]
    count: Int[np.ndarray, " edges"]
    of_transition: Int[np.ndarray, " n"]
    """The edge of each transition."""


@dataclass(frozen=True, eq=False, repr=False)
class Transitions:
    """The data to learn from. Make them with `collect`, or from your own arrays (`from_arrays`)."""

    observations: Shaped[np.ndarray, "distinct ..."]
    """The distinct observations."""
    state: Int[np.ndarray, " n"]
    """The index of the observation that was left."""
    next_state: Int[np.ndarray, " n"]
    """The index of the observation that was reached."""
    reward: Float[np.ndarray, " n"]
    """The reward of the state that was left, negative."""
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    terminal_value: Float[np.ndarray, " n"]
    """Where `terminated`: the value of the terminal state, in units of reward. Elsewhere 0."""

    def __len__(self) -> int:
        return self.state.size

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.observations.shape[1:])) or "scalar"
        return (
            f"Transitions({len(self):,} transitions, {len(self.observations):,} distinct "
            f"observations ({shape} {self.observations.dtype}), "
            f"{int(self.terminated.sum()):,} terminated)"
        )

    @classmethod
    def from_arrays(
        cls,
        observations: npt.ArrayLike,
        next_observations: npt.ArrayLike,
        reward: npt.ArrayLike,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike | None = None,
        terminal_value: npt.ArrayLike | None = None,
    ) -> Transitions:
        """Makes transitions from arrays with one row per transition.

        Args:
            observations: The observations that were left. Equal ones (bit for bit) are merged.
            next_observations: The observations that were reached.
            reward: The rewards, negative. They do not include terminal values.
            terminated: Which transitions reached a terminal state.
            truncated: Which transitions were the last of an episode that was cut off.
            terminal_value: Of the transitions that are terminated, the value of the terminal state
                in units of reward (`v` there is `terminal_value / lam`). By default 0.

        Returns:
            The transitions.

        Raises:
            DataError: The arrays do not fit together, or nothing can be learned from them.
        """
        if isinstance(observations, np.memmap) or isinstance(next_observations, np.memmap):
            raise DataError(
                "observations are in a file, but equal ones can only be merged in memory. Use "
                "Transitions.from_table with one table and indices into it."
            )
        before, after = np.asarray(observations), np.asarray(next_observations)
        if before.shape != after.shape or before.dtype != after.dtype:
            raise DataError(
                f"observations ({before.shape}, {before.dtype}) and next_observations "
                f"({after.shape}, {after.dtype}) must have the same shape and type."
            )
        table, index = merge_equal(np.concatenate([before, after]))
        state, next_state = np.split(index, 2)
        return cls.from_table(
            table, state, next_state, reward, terminated, truncated, terminal_value
        )

    @classmethod
    def from_table(
        cls,
        observations: npt.ArrayLike,
        state: npt.ArrayLike,
        next_state: npt.ArrayLike,
        reward: npt.ArrayLike,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike | None = None,
        terminal_value: npt.ArrayLike | None = None,
    ) -> Transitions:
        """Makes transitions from a table of observations and indices into it.

        Args:
            observations: The table, one observation per row. It may be a memory map.
            state: The rows of the observations that were left.
            next_state: The rows of the observations that were reached.
            reward: As for `from_arrays`.
            terminated: As for `from_arrays`.
            truncated: As for `from_arrays`.
            terminal_value: As for `from_arrays`.

        Returns:
            The transitions.

        Raises:
            DataError: The arrays do not fit together, or nothing can be learned from them.
        """
        n = np.size(state)
        truncated = np.zeros(n) if truncated is None else truncated
        terminal_value = np.zeros(n) if terminal_value is None else terminal_value
        parts = {
            "state": np.asarray(state, dtype=np.int32),
            "next_state": np.asarray(next_state, dtype=np.int32),
            "reward": np.asarray(reward, dtype=np.float64),
            "terminated": np.asarray(terminated, dtype=bool),
            "truncated": np.asarray(truncated, dtype=bool),
            "terminal_value": np.asarray(terminal_value, dtype=np.float64),
        }
        for name, part in parts.items():
            if part.shape != (n,):
                raise DataError(f"{name} has shape {part.shape}; expected ({n},).")
        table = observations if isinstance(observations, np.memmap) else np.asarray(observations)
        data = cls(observations=table, **parts)
        _check(data)
        return data

    @property
    def repeats(self) -> bool:
        """Whether states were seen often enough (`OFTEN` times on average) to be told apart."""
        return len(self) >= OFTEN * len(self.observations)

    @property
    def are_images(self) -> bool:
        """Whether each observation has height, width and channels."""
        return self.observations.ndim == 4

    @cached_property
    def terminal_states(self) -> Int[np.ndarray, " terminal"]:
        """The indices of the observations in which episodes terminated."""
        return np.unique(self.next_state[self.terminated])

    @cached_property
    def terminal_values(self) -> Float[np.ndarray, " terminal"]:
        """The mean terminal value of each of `terminal_states`, in units of reward."""
        at = np.searchsorted(self.terminal_states, self.next_state[self.terminated])
        total = np.bincount(at, self.terminal_value[self.terminated])
        return total / np.bincount(at)

    @cached_property
    def pure_terminal_states(self) -> tuple[Int[np.ndarray, " pure"], Float[np.ndarray, " pure"]]:
        """The terminal states that were never left, and their terminal values.

        An observation that was also left does not determine whether an episode is over.
        """
        pure = ~np.isin(self.terminal_states, self.state)
        return self.terminal_states[pure], self.terminal_values[pure]

    @cached_property
    def edges(self) -> Edges:
        """The distinct transitions, and how often each of them occurs."""
        key = self.state.astype(np.int64) * len(self.observations) + self.next_state
        for column in (self.reward, self.terminal_value):
            values, index = np.unique(column, return_inverse=True)
            key = np.unique(key, return_inverse=True)[1] * values.size + index
        key = 2 * key + self.terminated
        _, first, of_transition, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        names = ("state", "next_state", "reward", "terminal_value", "terminated")
        distinct = {name: getattr(self, name)[first] for name in names}
        return Edges(**distinct, count=count, of_transition=of_transition.astype(np.int32))

    @cached_property
    def neighbours(self) -> Int[np.ndarray, "pairs 2"]:
        """Pairs of different observations that were seen one step apart, each pair once."""
        return distinct_pairs(self.state, self.next_state)

    def with_absorbing_terminals(self, delta: float) -> Transitions:
        """Add transitions from each terminal state to itself, as many as the average state has.

        The objectives without an anchor need them: the DR that they describe has these rows.

        Args:
            delta: Minus the reward of these transitions.

        Returns:
            The transitions with the new ones at the end.
        """
        often = max(1, round(len(self) / np.unique(self.state).size))
        added = np.repeat(self.terminal_states, often)
        new = {"state": added, "next_state": added, "reward": np.full(added.size, -delta)}
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        table, zeros = parts.pop("observations"), np.zeros(added.size)
        longer = {name: np.r_[part, new.get(name, zeros)] for name, part in parts.items()}
        return Transitions.from_table(table, **longer)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Saves to an `.npz` file.

        Observations that are in a file of their own stay there, and the `.npz` names that file.

        Args:
            path: The file to write.
            overwrite: Whether to replace a file that exists.
        """
        arrays = {name: getattr(self, name) for name in self.__dataclass_fields__}
        settings: dict[str, Any] = {"format": FORMAT}
        table = arrays["observations"]
        if isinstance(table, np.memmap) and table.filename and table.flags.c_contiguous:
            file = Path(str(table.filename)).resolve()
            if table.offset == 0 and file.stat().st_size == table.nbytes:
                del arrays["observations"]
                settings |= {"file": str(file), "dtype": table.dtype.str, "shape": table.shape}
        write_array_file(Path(path), arrays, settings, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Transitions:
        """Loads what `save` wrote.

        Args:
            path: The `.npz` file.

        Returns:
            The transitions.
        """
        arrays, settings = read_array_file(Path(path))
        if settings.get("format") != FORMAT:
            raise ArgumentError(
                f"{path} has the format {settings.get('format')!r}, not {FORMAT!r}. Collect the "
                "transitions again with this version."
            )
        if "file" in settings:
            file, shape = Path(settings["file"]), tuple(settings["shape"])
            size = int(np.prod(shape)) * np.dtype(settings["dtype"]).itemsize
            if not file.is_file() or file.stat().st_size != size:
                raise MissingFile(
                    f"the observations of {path} are in {file}, which does not exist or does not "
                    f"have {size} bytes."
                )
            arrays["observations"] = np.memmap(file, settings["dtype"], mode="r", shape=shape)
        return cls.from_table(**arrays)


def merge_equal(rows: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, " n"]]:
    """Returns the distinct rows (bit for bit) in order of appearance, and the index of each row."""
    _, first, index = np.unique(row_bytes(rows), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return rows[first[order]], np.argsort(order)[index]


def row_bytes(rows: np.ndarray) -> np.ndarray:
    """Returns the bytes of each row as one element."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


def _check(data: Transitions) -> None:
    n, m = len(data), len(data.observations)
    if n == 0:
        raise DataError("there are no transitions.")
    for name in ("state", "next_state"):
        index = getattr(data, name)
        if index.min() < 0 or index.max() >= m:
            raise DataError(f"{name} points outside the table of {m} observations.")
    if np.issubdtype(data.observations.dtype, np.floating):
        rows = max(1, BYTES_CHECKED_AT_ONCE // max(1, data.observations.nbytes // m))
        for at in range(0, m, rows):
            part = data.observations[at : at + rows]
            bad = ~np.isfinite(part.reshape(len(part), -1)).all(axis=1)
            if bad.any():
                first = at + int(bad.argmax())
                raise DataError(f"observation {first} of the table has a NaN or infinity.")
    for name in ("reward", "terminal_value"):
        values = getattr(data, name)
        bad = ~np.isfinite(values)
        if bad.any():
            raise DataError(f"the {name} of transition {bad.argmax()} is {values[bad.argmax()]}.")
    bad = data.reward >= 0
    if bad.any():
        raise DataError(
            f"{int(bad.sum())} of {n} rewards are not negative (transition {int(bad.argmax())}: "
            f"{data.reward[bad.argmax()]:g}). The default representation needs r < 0.",
            remedy="Give a step cost, for example collect(..., reward=-1.0).",
            command_remedy="Give a step cost, for example --reward=-1.",
        )
    if not data.terminated.any():
        raise DataError(
            f"none of the {n} transitions is terminated. Terminal states anchor the vector, which "
            "drifts to minus infinity without one; a task that never terminates has no vector.",
            remedy="Collect more transitions, or begin nearer to a terminal state (start=).",
            command_remedy="Collect more transitions, for example --transitions=1000000.",
        )
