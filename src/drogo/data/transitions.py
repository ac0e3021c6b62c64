"""`Transitions`: a table of distinct observations, and transitions as pairs of indices into it.

A finite world takes as much memory as its states, however many transitions are drawn. In a
continuous world, the table is as long as the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.data import arrays, files, replay, trajectories as episodes
from drogo.data.edges import Edges, edges_of
from drogo.data.parts import as_key
from drogo.data.step import NumberOfStep, Step
from drogo.data.table import merge_equal
from drogo.errors import DamagedFile, DataError
from drogo.mdp.arrays import frozen
from drogo.mdp.model import distinct_pairs

OFTEN = 2
BYTES_CHECKED_AT_ONCE = 2**26


@dataclass(frozen=True, eq=False, repr=False)
class Transitions:
    """The data to learn from. Make them with `collect`, or from what you already have
    (`from_arrays`, `from_trajectories`, `from_replay_buffer`, `from_minari`)."""

    observations: Shaped[np.ndarray, "distinct ..."]
    """The distinct observations."""
    state: Int[np.ndarray, " n"]
    """The index of the observation that was left."""
    next_state: Int[np.ndarray, " n"]
    """The index of the observation that was reached."""
    reward: Float[np.ndarray, " n"]
    """The reward of the state that was left: negative for all that terminal states hold in place,
    unless `drogo.data.spectral_radius` is below 1."""
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    terminal_reward: Float[np.ndarray, " n"]
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
        terminal_reward: npt.ArrayLike | None = None,
        **actions: Any,
    ) -> Transitions:
        """Makes transitions from arrays with one row per transition.

        Args:
            observations: The observations that were left. Equal ones (bit for bit) are merged.
            next_observations: The observations that were reached.
            reward: The rewards, which `fit` needs to be negative. They do not include terminal
                values.
            terminated: Which transitions reached a terminal state.
            truncated: Which transitions were the last of an episode that was cut off.
            terminal_reward: Of the transitions that are terminated, the value of the terminal state
                in units of reward (`v` there is `terminal_reward / lam`). By default 0.
            **actions: What is known of the actions; see `from_table`.

        Returns:
            The transitions.

        Raises:
            DataError: The arrays do not fit together.
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
        columns = (state, next_state, reward, terminated, truncated, terminal_reward)
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
        terminal_reward: npt.ArrayLike | None = None,
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
            terminal_reward: As for `from_arrays`.
            action: The actions: whole numbers from 0 on, or one vector per transition. Without
                them, transitions are taken for those of the default policy.
            behaviour: The probability with which each action was taken; of vectors the density.
            default: The probability or density with which the default policy takes it, if that is
                not the uniform one.
            n_actions: The number of discrete actions. By default the largest action plus 1.

        Returns:
            The transitions.

        Raises:
            DataError: The arrays do not fit together.
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
            terminal_reward=arrays.numbers("terminal_reward", _or_zeros(terminal_reward, n), n),
            **arrays.actions(action, behaviour, default, n_actions, n),
            weight=frozen(np.ones(n)),
        )
        _check(data)
        return data

    @classmethod
    def from_replay_buffer(
        cls,
        buffer: replay.ReplayBuffer,
        *,
        reward: NumberOfStep = None,
        terminal_reward: NumberOfStep = None,
        behaviour: Callable[[Step], float] | None = None,
        key: str | Sequence[str] | None = None,
        terminated: npt.ArrayLike | None = None,
        terminal_observation: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
        scaled_actions: bool = True,
    ) -> Transitions:
        """Makes transitions from a replay buffer of Stable-Baselines3, the oldest step first.

        Rewards and observations are as the environment gave them, also behind a `VecNormalize`.
        Images whose channels come first, as `VecTransposeImage` makes them, get them last again.

        Args:
            buffer: A `ReplayBuffer` or a `DictReplayBuffer`, such as `model.replay_buffer`.
            reward: Replaces the rewards of the buffer: a step cost, or a function of a `Step`
                (whose `info` is empty, because a buffer does not hold it).
            terminal_reward: The value of terminal states in units of reward: a number, or a
                function of the last `Step` of an episode. By default 0. It is not part of a reward.
            behaviour: A function of a `Step` that returns the probability (of a vector: the
                density) with which its action was taken, if that is known.
            key: The part of a `Dict` observation to keep, or several that are joined, as in
                `collect`.
            terminated: Which steps reached a terminal state, in the shape of `buffer.dones`. Only
                a buffer with `handle_timeout_termination=False` needs it, as it does not tell
                terminal states from a time limit; without a limit it is `buffer.dones`.
            terminal_observation: What stands for every terminal state, if the buffer was made with
                `optimize_memory_usage=True`, which does not keep the last observation of an
                episode. (Steps that were cut off are left out there, for the same reason.)
            scaled_actions: Whether the actions of a `Box` are scaled to [-1, 1], as the algorithms
                of Stable-Baselines3 store them. They are scaled back to `buffer.action_space`.

        Returns:
            The transitions.

        Raises:
            DataError: The buffer is empty, lacks something, or nothing can be learned from it.
        """
        steps = replay.recorded(
            buffer, as_key(key), terminated, terminal_observation, scaled_actions
        )
        return cls.from_table(**steps.columns(reward, terminal_reward, behaviour))

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Iterable[Any],
        *,
        action_space: gymnasium.Space | None = None,
        reward: NumberOfStep = None,
        terminal_reward: NumberOfStep = None,
        key: str | Sequence[str] | None = None,
    ) -> Transitions:
        """Makes transitions from whole episodes.

        An episode of T steps is a dictionary, or an object with attributes:

        - `observations`: T + 1 of them, or a dictionary of such arrays.
        - `terminated`: whether the last step reached a terminal state; or T flags, of which only
          the last one may be True.
        - `truncated`: likewise, whether the episode was cut off there. By default it was, unless
          it is terminated.
        - `rewards`: T numbers, which are not needed if `reward` is given.
        - `actions`: T of them, if they are known.
        - `behaviour`: the T probabilities (of vectors: densities) with which actions were taken,
          if they are known.

        Args:
            trajectories: The episodes.
            action_space: The actions that there are, a `Discrete` or a `Box`. By default whole
                numbers from 0 to the largest that was seen; of vectors, fit is told how the default
                policy chooses them (`default_policy`).
            reward: Replaces the rewards: a step cost, or a function of a `Step`.
            terminal_reward: As for `from_replay_buffer`.
            key: As for `from_replay_buffer`.

        Returns:
            The transitions.

        Raises:
            DataError: An episode is not complete, or nothing can be learned from them.
        """
        steps = episodes.recorded(trajectories, action_space, as_key(key))
        return cls.from_table(**steps.columns(reward, terminal_reward))

    @classmethod
    def from_minari(
        cls,
        dataset: str | episodes.MinariDataset,
        *,
        reward: NumberOfStep = None,
        terminal_reward: NumberOfStep = None,
        behaviour: Callable[[Step], float] | None = None,
        key: str | Sequence[str] | None = None,
    ) -> Transitions:
        """Makes transitions from a data set of Minari, which needs the extra `minari`.

        Args:
            dataset: A `minari.MinariDataset`, or the id of one that is on this machine.
            reward: As for `from_replay_buffer`.
            terminal_reward: As for `from_replay_buffer`.
            behaviour: As for `from_replay_buffer`.
            key: As for `from_replay_buffer`.

        Returns:
            The transitions.

        Raises:
            DataError: Its spaces are of another kind, or nothing can be learned from it.
            MissingFile: There is no data set of this id on this machine.
        """
        found = episodes.minari_dataset(dataset)
        steps = episodes.recorded(episodes.episodes_of(found), found.action_space, as_key(key))
        return cls.from_table(**steps.columns(reward, terminal_reward, behaviour))

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
    def terminal_rewards(self) -> Float[np.ndarray, " terminal"]:
        """The mean terminal value of each of `terminal_states`, in units of reward."""
        at = np.searchsorted(self.terminal_states, self.next_state[self.terminated])
        total = np.bincount(at, self.terminal_reward[self.terminated])
        return total / np.bincount(at)

    @cached_property
    def pure_terminal_states(self) -> tuple[Int[np.ndarray, " pure"], Float[np.ndarray, " pure"]]:
        """The terminal states that were never left, and their terminal values.

        An observation that was also left does not determine whether an episode is over.
        """
        pure = ~np.isin(self.terminal_states, self.state)
        return self.terminal_states[pure], self.terminal_rewards[pure]

    @cached_property
    def edges(self) -> Edges:
        """The distinct transitions, and how often each of them occurs."""
        return edges_of(self)

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
        parts = {name: getattr(self, name) for name in files.ARRAYS}
        files.write(Path(path), parts, self.n_actions, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Transitions:
        """Loads what `save` wrote.

        Args:
            path: The `.npz` file.

        Returns:
            The transitions.
        """
        parts, n_actions = files.read(Path(path))
        try:
            return cls.from_table(**parts, n_actions=n_actions)
        except DataError as error:
            raise DamagedFile(f"{path} holds transitions that cannot be used: {error}") from error


def _or_zeros(values: npt.ArrayLike | None, n: int) -> npt.ArrayLike:
    return np.zeros(n) if values is None else values


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
