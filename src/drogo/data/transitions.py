"""`Transitions`: a table of distinct observations, and transitions as pairs of indices into it.

A finite world takes as much memory as its states, however many transitions are drawn. In a
continuous world, the table is as long as the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.config import is_a
from drogo.data import arrays
from drogo.errors import ArgumentError, DamagedFile, DataError, MissingFile
from drogo.files import KINDS, Header, read_array_file, write_array_file
from drogo.mdp.arrays import frozen
from drogo.mdp.model import distinct_pairs

FORMAT = "drogo transitions 5"
OPTIONAL = ("action", "behaviour", "default")
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
    action: Int[np.ndarray, " edges"] | None
    log_default: Float[np.ndarray, " edges"] | None
    """The log of the probability with which the default policy takes the action."""
    weight: Float[np.ndarray, " edges"]
    """How much all transitions of this kind count together."""
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
    action: Int[np.ndarray, " n"] | Float[np.ndarray, "n size"] | None = None
    """The action that was taken, if it is known: a number from 0 on, or a vector."""
    behaviour: Float[np.ndarray, " n"] | None = None
    """The probability (of a vector: the density) with which the action was taken, if known."""
    default: Float[np.ndarray, " n"] | None = None
    """The probability or density with which the default policy takes the action, if known."""
    n_actions: int | None = None
    """The number of actions, if they are discrete and known."""
    weight: Float[np.ndarray, " n"] = field(kw_only=True)
    """How much each transition counts: 1 until `drogo.data.under` weighs the actions."""

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
        **actions: Any,
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
            **actions: What is known of the actions; see `from_table`.

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
        before = arrays.plain("observations", observations)
        after = arrays.plain("next_observations", next_observations)
        if before.shape != after.shape or before.dtype != after.dtype:
            raise DataError(
                f"observations ({before.shape}, {before.dtype}) and next_observations "
                f"({after.shape}, {after.dtype}) must have the same shape and type."
            )
        table, index = merge_equal(np.concatenate([before, after]))
        state, next_state = np.split(index, 2)
        columns = (state, next_state, reward, terminated, truncated, terminal_value)
        return cls.from_table(frozen(table), *columns, **actions)

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
        *,
        action: npt.ArrayLike | None = None,
        behaviour: npt.ArrayLike | None = None,
        default: npt.ArrayLike | None = None,
        n_actions: int | None = None,
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
            action: The actions: whole numbers from 0 on, or one vector per transition. Without
                them, transitions are taken for those of the default policy.
            behaviour: The probability with which each action was taken; of vectors the density.
            default: The probability or density with which the default policy takes it, if that is
                not the uniform one.
            n_actions: The number of discrete actions. By default the largest action plus 1.

        Returns:
            The transitions.

        Raises:
            DataError: The arrays do not fit together, or nothing can be learned from them.
        """
        table = arrays.plain("observations", observations)
        if table.ndim == 0:
            raise DataError("observations is a single number; give one observation per row.")
        left = arrays.indices("state", state, len(table))
        n = left.size
        data = cls(
            observations=table,
            state=left,
            next_state=arrays.indices("next_state", next_state, len(table)),
            reward=arrays.numbers("reward", reward, n),
            terminated=arrays.flags("terminated", terminated, n),
            truncated=arrays.flags("truncated", _or_zeros(truncated, n), n),
            terminal_value=arrays.numbers("terminal_value", _or_zeros(terminal_value, n), n),
            **arrays.actions(action, behaviour, default, n_actions, n),
            weight=frozen(np.ones(n)),
        )
        _check(data)
        return data

    @property
    def repeats(self) -> bool:
        """Whether states were seen often enough (`OFTEN` times on average) to be told apart."""
        return len(self) >= OFTEN * len(self.observations)

    @property
    def follows_default(self) -> bool:
        """Whether actions were taken as the default policy takes them, as far as the data tell."""
        if self.action is None or self.behaviour is None:
            return self.action is None
        default = 1 / self.n_actions if self.default is None and self.n_actions else self.default
        return default is not None and np.allclose(self.behaviour, default)

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
        discrete = self.action if self.n_actions is not None else None
        key = self.state.astype(np.int64) * len(self.observations) + self.next_state
        for column in (self.reward, self.terminal_value, self.terminated, self.weight, discrete):
            if column is not None:
                values, index = np.unique(column, return_inverse=True)
                key = np.unique(key, return_inverse=True)[1] * values.size + index
        _, first, of_transition, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        names = ("state", "next_state", "reward", "terminal_value", "terminated")
        log_default = None if self.default is None else np.log(self.default[first])
        return Edges(
            **{name: getattr(self, name)[first] for name in names},
            action=None if discrete is None else discrete[first],
            log_default=log_default,
            weight=np.bincount(of_transition, self.weight),
            count=count,
            of_transition=of_transition.astype(np.int32),
        )

    @cached_property
    def log_default(self) -> Float[np.ndarray, " n"] | None:
        """The log of the probability with which the default policy takes each action."""
        return None if self.default is None else np.log(self.default)

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
        zeros = np.zeros(added.size)
        longer = {
            name: np.r_[getattr(self, name), new.get(name, zeros)]
            for name in ("state", "next_state", "reward", "terminated", "truncated")
        }
        weight = np.r_[self.weight, np.ones(added.size)]
        return replace(Transitions.from_table(self.observations, **longer), weight=weight)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Saves to an `.npz` file.

        Observations that are in a file of their own stay there, and the `.npz` names that file.

        Args:
            path: The file to write.
            overwrite: Whether to replace a file that exists.
        """
        parts = {name: getattr(self, name) for name in ARRAYS}
        parts = {name: part for name, part in parts.items() if part is not None}
        settings: dict[str, Any] = {"format": FORMAT, "n_actions": self.n_actions}
        table = parts["observations"]
        if isinstance(table, np.memmap) and table.filename and table.flags.c_contiguous:
            file = Path(str(table.filename)).resolve()
            if table.offset == 0 and file.stat().st_size == table.nbytes:
                if file.parent != Path(path).resolve().parent:
                    raise ArgumentError(
                        f"the observations are in {file}, and are read only from beside the file "
                        f"that names them. Save to {file.parent}, or move the observations first."
                    )
                del parts["observations"]
                settings |= {"file": file.name, "dtype": table.dtype.str, "shape": table.shape}
        write_array_file(Path(path), parts, settings, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Transitions:
        """Loads what `save` wrote.

        Args:
            path: The `.npz` file.

        Returns:
            The transitions.
        """
        path = Path(path)
        parts, settings = read_array_file(path, FORMAT, _check_file)
        if "file" in settings:
            file, shape = path.parent / settings["file"], tuple(settings["shape"])
            size = math.prod(shape) * np.dtype(settings["dtype"]).itemsize
            if not file.is_file() or file.stat().st_size != size:
                raise MissingFile(
                    f"the observations of {path} are in {file}, which does not exist or does not "
                    f"have {size} bytes."
                )
            parts["observations"] = np.memmap(file, settings["dtype"], mode="r", shape=shape)
        try:
            return cls.from_table(**parts, n_actions=settings.get("n_actions"))
        except DataError as error:
            raise DamagedFile(f"{path} holds transitions that cannot be used: {error}") from error


ARRAYS = tuple(
    name for name in Transitions.__dataclass_fields__ if name not in ("n_actions", "weight")
)
"""What a file holds. Weights follow from the actions."""


def _check_file(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    actions = settings.get("n_actions")
    if actions is not None and (not is_a(actions, Integral) or actions < 1):
        raise ValueError(f"its number of actions is {actions!r}")
    expected = set(ARRAYS) - (set(OPTIONAL) - set(headers))
    if "file" in settings:
        expected.remove("observations")
        name, shape = settings["file"], settings["shape"]
        if Path(name).name != name or name in ("", ".", ".."):
            raise ValueError(f"its observations are in {name!r}, which is not beside it")
        if not shape or any(not is_a(k, Integral) or k < 0 for k in shape):
            raise ValueError(f"its observations have the shape {shape}")
        if np.dtype(settings["dtype"]).kind not in KINDS:
            raise ValueError(f"its observations have the type {settings['dtype']}")
    if set(headers) != expected:
        raise ValueError(f"it holds {', '.join(sorted(headers))}")
    lengths = {headers[name].shape[:1] for name in expected - {"observations"}}
    if len(lengths) > 1:
        raise ValueError(f"its arrays have different shapes: {', '.join(map(str, lengths))}")


def _or_zeros(values: npt.ArrayLike | None, n: int) -> npt.ArrayLike:
    return np.zeros(n) if values is None else values


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
    if data.next_state.size != n:
        raise DataError(f"next_state has {data.next_state.size} entries, and state has {n}.")
    if np.issubdtype(data.observations.dtype, np.floating):
        rows = max(1, BYTES_CHECKED_AT_ONCE // max(1, data.observations.nbytes // m))
        for at in range(0, m, rows):
            part = data.observations[at : at + rows]
            bad = ~np.isfinite(part.reshape(len(part), -1)).all(axis=1)
            if bad.any():
                first = at + int(bad.argmax())
                raise DataError(f"observation {first} of the table has a NaN or infinity.")
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
