"""`Transitions`: what a learner is given. A table of distinct observations, and pairs into it.

A finite world costs what its states cost, however many transitions are drawn; a continuous one is
simply a table as long as the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from drogo.errors import ArgumentError, DataError, MissingFile
from drogo.files import read_array_file, write_array_file
from drogo.mdp import distinct_pairs

FORMAT = "drogo transitions 2"
OFTEN = 2
BYTES_CHECKED_AT_ONCE = 2**26


@dataclass(frozen=True)
class Edges:
    """Distinct transitions. A batch is how often each of them occurs in it."""

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
    """Make one with `collect`, or `from_arrays` from data of your own."""

    observations: Shaped[np.ndarray, "distinct ..."]
    state: Int[np.ndarray, " n"]
    """Index of the observation that was left."""
    next_state: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    """Of the state left: negative."""
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    terminal_value: Float[np.ndarray, " n"]
    """Where `terminated`: the reward of the end itself; v is `terminal_value / lam` there."""

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
        observations: Any,
        next_observations: Any,
        reward: Any,
        terminated: Any,
        truncated: Any = None,
        terminal_value: Any = None,
    ) -> Transitions:
        """From one array per part, a row per transition; equal observations (bit for bit) merge."""
        if isinstance(observations, np.memmap) or isinstance(next_observations, np.memmap):
            raise DataError(
                "merging needs all observations in memory. Of data in a file, give "
                "Transitions.from_table one table and indices into it."
            )
        before, after = np.asarray(observations), np.asarray(next_observations)
        if before.shape != after.shape or before.dtype != after.dtype:
            raise DataError(
                f"observations ({before.shape}, {before.dtype}) and next_observations "
                f"({after.shape}, {after.dtype}) must have one shape and type."
            )
        n = len(before)
        if n == 0:
            raise DataError("there are no transitions.")
        table, index = merge_equal(np.concatenate([before, after]))
        return cls.from_table(
            table, index[:n], index[n:], reward, terminated, truncated, terminal_value
        )

    @classmethod
    def from_table(
        cls,
        observations: np.ndarray,
        state: Any,
        next_state: Any,
        reward: Any,
        terminated: Any,
        truncated: Any = None,
        terminal_value: Any = None,
    ) -> Transitions:
        """From a table of distinct observations and indices into it; checked."""
        n = len(state)
        parts = {
            "state": np.asarray(state, dtype=np.int32),
            "next_state": np.asarray(next_state, dtype=np.int32),
            "reward": np.asarray(reward, dtype=np.float64),
            "terminated": np.asarray(terminated, dtype=bool),
            "truncated": np.zeros(n, bool) if truncated is None else np.asarray(truncated, bool),
            "terminal_value": np.asarray(
                np.zeros(n) if terminal_value is None else terminal_value, dtype=np.float64
            ),
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
        """States were seen often enough (`OFTEN` times on average) to be known one by one."""
        return len(self) >= OFTEN * len(self.observations)

    @property
    def are_images(self) -> bool:
        """Height, width and channels to each observation."""
        return self.observations.ndim == 4

    @cached_property
    def terminal_states(self) -> Int[np.ndarray, " ends"]:
        """Indices of the observations at which episodes ended."""
        return np.unique(self.next_state[self.terminated])

    @cached_property
    def terminal_values(self) -> Float[np.ndarray, " ends"]:
        """Mean reward of each of these ends."""
        at = np.searchsorted(self.terminal_states, self.next_state[self.terminated])
        total = np.bincount(at, self.terminal_value[self.terminated])
        return total / np.bincount(at)

    @cached_property
    def pure_terminal_states(self) -> tuple[Int[np.ndarray, " pure"], Float[np.ndarray, " pure"]]:
        """Ends that were never left, and their rewards. An observation that was both says too
        little to be looked up."""
        pure = ~np.isin(self.terminal_states, self.state)
        return self.terminal_states[pure], self.terminal_values[pure]

    @cached_property
    def edges(self) -> Edges:
        columns = (self.reward, self.terminal_value)
        key = self.state.astype(np.int64) * len(self.observations) + self.next_state
        for column in columns:
            values, index = np.unique(column, return_inverse=True)
            key = np.unique(key, return_inverse=True)[1] * values.size + index
        key = 2 * key + self.terminated
        _, first, of_transition, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        return Edges(
            self.state[first],
            self.next_state[first],
            self.reward[first],
            self.terminal_value[first],
            self.terminated[first],
            count,
            of_transition.astype(np.int32),
        )

    @cached_property
    def neighbours(self) -> Int[np.ndarray, "pairs 2"]:
        """Pairs of different observations that were seen one step apart, each pair once."""
        return distinct_pairs(self.state, self.next_state)

    def with_absorbing_terminals(self, delta: float) -> Transitions:
        """Ends stay at reward `-delta`, seen as often as the average state.

        The objectives without an anchor need them: the DR they describe has these rows.
        """
        ends = self.terminal_states
        often = max(1, round(len(self) / np.unique(self.state).size))
        extra = np.repeat(ends, often)
        return Transitions.from_table(
            self.observations,
            np.concatenate([self.state, extra]),
            np.concatenate([self.next_state, extra]),
            np.concatenate([self.reward, np.full(extra.size, -delta)]),
            np.concatenate([self.terminated, np.zeros(extra.size, bool)]),
            np.concatenate([self.truncated, np.zeros(extra.size, bool)]),
            np.concatenate([self.terminal_value, np.zeros(extra.size)]),
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """As an `.npz` without objects. Observations that are in a file of their own stay there;
        the `.npz` says where."""
        arrays = {name: getattr(self, name) for name in self.__dataclass_fields__}
        settings: dict[str, Any] = {"format": FORMAT}
        table = arrays["observations"]
        if _is_a_whole_file(table):
            del arrays["observations"]
            file = str(Path(str(table.filename)).resolve())
            settings |= {"file": file, "dtype": table.dtype.str, "shape": list(table.shape)}
        write_array_file(Path(path), arrays, settings, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Transitions:
        arrays, settings = read_array_file(Path(path))
        if settings.get("format") != FORMAT:
            raise ArgumentError(
                f"{path} does not hold transitions; it says {settings.get('format')}."
            )
        if "file" in settings:
            file, shape = Path(settings["file"]), tuple(settings["shape"])
            size = int(np.prod(shape)) * np.dtype(settings["dtype"]).itemsize
            if not file.is_file() or file.stat().st_size != size:
                raise MissingFile(
                    f"the observations of {path} are in {file}, which is not there or not of "
                    f"{size} bytes."
                )
            arrays["observations"] = np.memmap(file, settings["dtype"], mode="r", shape=shape)
        return cls.from_table(**arrays)


def _is_a_whole_file(table: Any) -> bool:
    """A memory map of all of a file, from its first byte."""
    if not isinstance(table, np.memmap) or table.filename is None or not table.flags.c_contiguous:
        return False
    return table.offset == 0 and Path(str(table.filename)).stat().st_size == table.nbytes


def merge_equal(rows: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, " n"]]:
    """Distinct rows in order of first appearance, and where each went. Equal: bit for bit."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    as_bytes = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    _, first, index = np.unique(as_bytes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return rows[first[order]], place[index]


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
    bad = ~np.isfinite(data.reward)
    if bad.any():
        raise DataError(
            f"the reward of transition {int(bad.argmax())} is {data.reward[bad.argmax()]}."
        )
    if not np.isfinite(data.terminal_value).all():
        raise DataError("a terminal_value is not a finite number.")
    bad = data.reward >= 0
    if bad.any():
        raise DataError(
            f"{int(bad.sum())} of {n} rewards are not negative (transition {int(bad.argmax())}: "
            f"{data.reward[bad.argmax()]:g}). The default representation needs r < 0: give a step "
            "cost, for example collect(..., reward=-1.0), or drogo learn --reward=-1."
        )
    if not data.terminated.any():
        raise DataError(
            f"none of the {n} transitions is terminated. The ends anchor the vector; without one "
            "it drifts to minus infinity. Collect more, or start nearer to an end (start=); a task "
            "that never ends has no such vector."
        )
