"""`Transitions`: a table of distinct observations, and transitions as pairs of indices into it.

A finite world takes as much memory as its states, however many transitions are sampled. In a
continuous world, the table is as long as the data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo import errors
from drogo.data import arrays, files, recorded
from drogo.data.index import merge_equal
from drogo.data.step import NumberOfStep, Step, StepNumbers
from drogo.errors import ArgumentError, ArgumentTypeError, DataError
from drogo.files import as_path
from drogo.mdp import Edges
from drogo.mdp.arrays import frozen
from drogo.mdp.model import distinct_pairs

OFTEN = 2  # States repeat if each was seen at least this often on average.
COLUMNS = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward", "action",
           "behaviour", "default", "outcome", "environment", "weight")  # fmt: skip
"""The arrays of `Transitions` that have one row for each transition."""
ACTION_COLUMNS = ("action", "behaviour", "default", "n_actions")
MOST_TURNS, MOSTLY = 1000, 0.9
"""The largest number of environments that take turns, and the share of steps that go on if so."""


@dataclass(frozen=True)
class CountedEdges(Edges):
    """Distinct transitions. A batch is given by the number of times that each occurs in it."""

    action: Int[np.ndarray, " edges"] | None
    log_default: Float[np.ndarray, " edges"] | None
    """The log of the probability with which the default policy takes the action."""
    count: Int[np.ndarray, " edges"]
    of_transition: Int[np.ndarray, " n"]  # The edge of each transition.


@dataclass(frozen=True, eq=False, repr=False)
class Transitions:
    """Transitions to learn from.

    `collect` samples them from an environment. `from_arrays`, `from_trajectories`,
    `from_replay_buffer` and `from_minari` make them from existing data. `a + b` joins the data of
    one environment, and `data[100:200]` or `data[mask]` selects some of them.
    """

    observations: Shaped[np.ndarray, "distinct ..."]
    """The distinct observations."""
    state: Int[np.ndarray, " n"]
    """The index of the observation that was left."""
    next_state: Int[np.ndarray, " n"]
    """The index of the observation that was reached."""
    reward: Float[np.ndarray, " n"]
    """The reward of the state that was left. It must be negative wherever terminal states anchor
    the solution, unless no cycle of states gains more than it loses."""
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    terminal_reward: Float[np.ndarray, " n"]
    """The value of the terminal state in units of reward where `terminated`, and 0 elsewhere."""
    action: Int[np.ndarray, " n"] | Float[np.ndarray, "n size"] | None = None
    """The action that was taken, if it is known: a number from 0 on, or a vector."""
    behaviour: Float[np.ndarray, " n"] | None = None
    """The probability (of a vector: the density) with which the action was taken, if known."""
    default: Float[np.ndarray, " n"] | None = None
    """The probability or density with which the default policy takes the action, if known."""
    outcome: Float[np.ndarray, " n"] | None = None
    """The environment's own rewards, by which the ends of episodes are judged; None if
    `terminal_reward` was given."""
    environment: Int[np.ndarray, " n"] | None = None
    """The number of the environment that took the step, if that is known."""
    n_actions: int | None = None
    """The number of actions, if they are discrete and known."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """The environment's id, and the `key` and the `reward`, as far as `collect` knows them."""
    weight: Float[np.ndarray, " n"] = field(kw_only=True)
    """The weight of each transition: 1 until `drogo.data.under` weights the actions."""

    def __len__(self) -> int:
        return self.state.size

    def __repr__(self) -> str:
        table, ended = self.observations, int(self.terminated.sum())
        kind = f"{' x '.join(map(str, table.shape[1:])) or 'scalar'} {table.dtype}"
        parts = f"{len(self):,} transitions, {len(table):,} distinct observations ({kind})"
        return f"Transitions({parts}, {ended:,} terminated)"

    def __getitem__(self, which: slice | npt.ArrayLike) -> "Transitions":
        """Selects transitions by a slice, a mask or an array of indices, and drops the observations
        that they do not use. A table in a file is kept as a whole."""
        taken = self.rows(which)
        if len(taken) == 0:
            raise DataError("the selection has no transitions.")
        if isinstance(self.observations, np.memmap):
            return taken
        used, index = np.unique([taken.state, taken.next_state], return_inverse=True)
        state, next_state = map(frozen, index.reshape(2, -1).astype(np.int32))
        table = frozen(self.observations[used])
        return replace(taken, observations=table, state=state, next_state=next_state)

    def rows(self, which: Any) -> "Transitions":
        """Returns some of the transitions, with the same table of observations."""
        if not isinstance(which, slice):
            which = arrays.real("which", which)
            if which.ndim != 1 or which.dtype.kind not in "biu":
                problem = "transitions are selected by a slice, a mask or an array of indices."
                remedy = "A single one is data[k : k + 1]."
                raise ArgumentTypeError(problem, remedy=remedy, argument="which")
            beyond = which.size and max(which.max(), -1 - which.min()) >= len(self)
            if which.size != len(self) if which.dtype == bool else beyond:
                problem = f"{which} does not fit {len(self)} transitions."
                raise ArgumentError(problem, argument="which")
        columns = {name: getattr(self, name) for name in COLUMNS}
        taken = {name: frozen(part[which]) for name, part in columns.items() if part is not None}
        return replace(self, **taken)

    def batches(self, size: int, *, seed: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Yields all transitions once, shuffled if a seed is given, in batches of at most `size`:
        observations, actions (or None), rewards, next observations and `terminated`. To read such
        batches, for example of a `DataLoader`, `concatenate` the `from_arrays` of each."""
        order = np.arange(len(self))
        if seed is not None:
            order = np.random.default_rng(errors.check_whole("seed", seed, 0)).permutation(order)
        for begin in range(0, len(self), errors.check_whole("size", size, 1)):
            one = self.rows(order[begin : begin + size])
            before, after = self.observations[one.state], self.observations[one.next_state]
            yield before, one.action, one.reward, after, one.terminated

    def __add__(self, other: "Transitions") -> "Transitions":
        return Transitions.concatenate([self, other])

    @classmethod
    def concatenate(cls, parts: "Iterable[Transitions]") -> "Transitions":
        """Joins transitions of one environment, of which all have actions or none has, and of
        which the values of ends are given in all or in none. Equal observations (bit for bit) are
        merged. A column that some parts do not have is left out."""
        wanted = "several drogo.Transitions"
        parts = list(errors.check_type("parts", parts, Iterable, wanted))
        for part in parts:
            errors.check_type("parts", part, Transitions, wanted)
        if not parts:
            raise arrays.wrong("parts", "is empty; give at least one Transitions.")
        judged = any(part.outcome is not None and part.terminated.any() for part in parts)
        if judged and any(part.outcome is None for part in parts):
            problem = "have given values of ends in some, and ends judged by rewards in others."
            raise arrays.wrong("parts", problem, "Give terminal_reward= to all, or to none.")
        columns = {name: [getattr(part, name) for part in parts] for name in COLUMNS}
        tables = [part.observations for part in parts]
        shapes = {
            (table.shape[1:], str(table.dtype), None if action is None else action.shape[1:])
            for table, action in zip(tables, columns["action"], strict=True)
        }
        if len(shapes) > 1:
            raise arrays.wrong("parts", f"have several shapes or types: {shapes}.")
        table = tables[0]
        if any(other is not table for other in tables):
            if any(isinstance(other, np.memmap) for other in tables):
                raise arrays.wrong("parts", "have observations in files, which are not merged.")
            table, index = merge_equal(np.concatenate(tables))
            rows = np.split(index.astype(np.int32), np.cumsum([*map(len, tables[:-1])]))
            for name in ("state", "next_state"):
                columns[name] = [at[part] for at, part in zip(rows, columns[name], strict=True)]
        n_actions = max(part.n_actions or 0 for part in parts) or None
        if n_actions and any(part.default is not None for part in parts):
            uniform = (np.full(len(part), 1 / n_actions) for part in parts)
            pairs = zip(uniform, columns["default"], strict=True)
            columns["default"] = [one if given is None else given for one, given in pairs]
        if any(part.environment is not None for part in parts):
            numbers = [part.environments for part in parts]
            first = np.cumsum([0, *(part.max() + 1 for part in numbers[:-1])])
            columns["environment"] = [a + b for a, b in zip(numbers, first, strict=True)]
        joined: dict[str, Any] = dict.fromkeys(COLUMNS)
        for name, column in columns.items():
            if all(part is not None for part in column):
                joined[name] = frozen(np.concatenate(column))
        return replace(parts[0], observations=frozen(table), n_actions=n_actions, **joined)

    @classmethod
    def from_arrays(
        cls,
        observations: npt.ArrayLike,
        next_observations: npt.ArrayLike,
        reward: npt.ArrayLike | float,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike | None = None,
        terminal_reward: npt.ArrayLike | float | None = None,
        **actions: Any,
    ) -> "Transitions":
        """Makes transitions from arrays with one row per transition.

        Args:
            observations: The observations that were left. Equal ones (bit for bit) are merged.
            next_observations: The observations that were reached.
            reward: The rewards, or one step cost, without the values of terminal states. `fit`
                needs them to be negative.
            terminated: Whether each transition reached a terminal state.
            truncated: Whether each transition was the last of an episode that was cut off.
            terminal_reward: The value of the terminal state in units of reward (`v` there is
                `terminal_reward / lam`): a number, or one for each transition. By default `fit`
                judges ends by the last rewards of their episodes, as `drogo.mdp.Costs` says.
            **actions: `action`, `behaviour` and further columns; see `from_table`.
        """
        if isinstance(observations, np.memmap) or isinstance(next_observations, np.memmap):
            remedy = "Use Transitions.from_table with one table and indices into it."
            raise arrays.wrong("observations", "in a file cannot be merged.", remedy)
        before = arrays.real("observations", observations)
        after = arrays.real("next_observations", next_observations)
        if before.shape != after.shape or before.dtype != after.dtype:
            kinds = (f"shape {one.shape} and type {one.dtype}" for one in (after, before))
            problem = f"have {', and observations have '.join(kinds)}: they must be the same."
            raise arrays.wrong("next_observations", problem)
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
        reward: npt.ArrayLike | float,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike | None = None,
        terminal_reward: npt.ArrayLike | float | None = None,
        **actions: Any,
    ) -> "Transitions":
        """Makes transitions from a table of observations and indices into it.

        Args:
            observations: The table, one observation per row. It may be a memory map.
            state: The rows of the observations that were left.
            next_state: The rows of the observations that were reached.
            reward: As for `from_arrays`, like all arguments up to `terminal_reward`.
            **actions: `action`: whole numbers from 0 on, or one vector per transition; without
                them, transitions count as those of the default policy. `behaviour`: the probability
                with which each action was taken; of vectors the density. `default`: the probability
                or density with which the default policy takes it, if that is not uniform.
                `n_actions`: the number of discrete actions; by default the largest action plus 1.
                `outcome`: the environment's own rewards, if `reward` replaces them. `environment`:
                the number of the environment of each step; by default as they seem to take turns,
                in order of time. `origin`: see the attribute.
        """
        table = arrays.table("observations", observations)
        left = arrays.indices("state", state, len(table))
        n = left.size
        if n == 0:
            raise DataError("there are no transitions.")
        is_terminal = arrays.flags("terminated", terminated, n)
        outcome = actions.pop("outcome", reward if terminal_reward is None else None)
        environment = actions.pop("environment", None)
        if environment is not None:
            largest = np.iinfo(np.int32).max
            environment = arrays.indices("environment", environment, largest, n, "environments")
        terminal_reward = 0.0 if terminal_reward is None else terminal_reward
        origin = actions.pop("origin", {})
        for name in actions.keys() - set(ACTION_COLUMNS):
            raise errors.unknown_argument(name, ACTION_COLUMNS)
        return cls(
            observations=table,
            state=left,
            next_state=arrays.indices("next_state", next_state, len(table), n),
            reward=arrays.numbers("reward", reward, n),
            terminated=is_terminal,
            truncated=arrays.flags("truncated", np.zeros(n) if truncated is None else truncated, n),
            terminal_reward=arrays.numbers("terminal_reward", terminal_reward, n, is_terminal),
            **arrays.actions(n, **actions),
            outcome=None if outcome is None else arrays.numbers("outcome", outcome, n),
            environment=environment,
            origin=origin,
            weight=frozen(np.ones(n)),
        )

    @classmethod
    def from_replay_buffer(
        cls,
        buffer: Any,
        *,
        terminated: npt.ArrayLike | None = None,
        terminal_observation: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
        scaled_actions: bool = True,
        reward: NumberOfStep = None,
        terminal_reward: NumberOfStep = None,
        behaviour: Callable[[Step], float] | None = None,
        key: str | Sequence[str] | None = None,
    ) -> "Transitions":
        """Makes transitions from a replay buffer of Stable-Baselines3, the oldest step first.

        Rewards and observations are those of the environment, also behind a `VecNormalize`. Images
        whose channels come first, as `VecTransposeImage` makes them, get them last again.

        Args:
            buffer: A `ReplayBuffer` or a `DictReplayBuffer`, such as `model.replay_buffer`.
            terminated: Which steps reached a terminal state, in the shape of `buffer.dones`. Only
                a buffer with `handle_timeout_termination=False` needs it; without a time limit it
                is `buffer.dones`.
            terminal_observation: Stands for every terminal state, if the buffer was made with
                `optimize_memory_usage=True`, which does not keep last observations.
            scaled_actions: Whether the actions of a `Box` are stored in [-1, 1], as by the
                algorithms of Stable-Baselines3. They are scaled back to `buffer.action_space`.
            reward: Replaces the recorded rewards: a step cost, or a function of a `Step`, whose
                `info` is empty because it was not recorded.
            terminal_reward: The value of terminal states in units of reward: a number, or a
                function of the last `Step` of an episode, of which it is not part of the reward. By
                default ends are judged by these rewards, as `drogo.mdp.Costs` says.
            behaviour: Returns the probability (of a vector: the density) with which the action of a
                `Step` was taken, if that is known.
            key: The part of a `Dict` observation to keep, or several, as in `collect`.
        """
        numbers, stand_in = StepNumbers(reward, terminal_reward, behaviour), terminal_observation
        columns = recorded.of_buffer(buffer, key, terminated, stand_in, scaled_actions)
        return cls.from_table(**recorded.complete(columns, buffer.action_space, numbers, key))

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Iterable[Any],
        *,
        action_space: gymnasium.Space | None = None,
        reward: NumberOfStep = None,
        terminal_reward: NumberOfStep = None,
        behaviour: Callable[[Step], float] | None = None,
        key: str | Sequence[str] | None = None,
    ) -> "Transitions":
        """Makes transitions from whole episodes.

        An episode of T steps is a dictionary, or an object with attributes:

        - `observations`: T + 1 of them, or a dictionary of such arrays.
        - `terminated`: whether the last step reached a terminal state; or T flags, of which only
          the last one may be True.
        - `truncated`: likewise, whether the episode was cut off there; by default the opposite.
        - `rewards`: T numbers, which are not needed if `reward` is given.
        - `actions`, if they are known, and `behaviour`, the probabilities (of vectors: densities)
          with which they were taken: T of each.

        Args:
            trajectories: The episodes.
            action_space: A `Discrete` or a `Box`. By default actions are whole numbers from 0 to
                the largest that occurs; for vectors, give `default_policy` to the problem.
            reward: As for `from_replay_buffer`, like `terminal_reward`, `behaviour` and `key`.
        """
        columns = recorded.of_episodes(trajectories, key)
        numbers = StepNumbers(reward, terminal_reward, behaviour)
        return cls.from_table(**recorded.complete(columns, action_space, numbers, key))

    @classmethod
    def from_minari(cls, dataset: str | Any, **options: Any) -> "Transitions":
        """Makes transitions from a `minari.MinariDataset`, or the id of one on this machine, which
        needs the extra `minari`. Options are those of `from_replay_buffer` from `reward` on."""
        episodes, space = recorded.of_minari(dataset)
        return cls.from_trajectories(episodes, action_space=space, **options)

    @property
    def repeats(self) -> bool:
        """Whether states occur at least `OFTEN` times on average."""
        return len(self) >= OFTEN * len(self.observations)

    @property
    def follows_default(self) -> bool:
        """Whether the data show that the default policy took the actions."""
        if self.action is None or self.behaviour is None:
            return self.action is None
        default = 1 / self.n_actions if self.default is None and self.n_actions else self.default
        return default is not None and np.allclose(self.behaviour, default)

    @cached_property
    def environments(self) -> Int[np.ndarray, " n"]:
        """The `environment`, or else the turns in which most steps begin where the last one of
        theirs ended; if there are none, each step is one of its own."""
        if self.environment is not None:
            return self.environment
        n, over = len(self), self.terminated | self.truncated
        going = np.flatnonzero(~over)[:MOST_TURNS]
        for turns in range(1, min(n, MOST_TURNS)):
            at = going[going + turns < n]
            if at.size and (self.state[at + turns] == self.next_state[at]).mean() > MOSTLY:
                return np.arange(n, dtype=np.int32) % turns
        return np.arange(n, dtype=np.int32)

    @cached_property
    def terminal_states(self) -> Int[np.ndarray, " terminal"]:
        """The indices of the observations in which episodes terminated."""
        return np.unique(self.next_state[self.terminated])

    @cached_property
    def terminal_rewards(self) -> Float[np.ndarray, " terminal"]:
        """The mean terminal value of each of `terminal_states`, in units of reward."""
        _, at = np.unique(self.next_state[self.terminated], return_inverse=True)
        return np.bincount(at, self.terminal_reward[self.terminated]) / np.bincount(at)

    @cached_property
    def pure_terminal_states(self) -> tuple[Int[np.ndarray, " pure"], Float[np.ndarray, " pure"]]:
        """The terminal states that were never left, and their terminal values."""
        pure = ~np.isin(self.terminal_states, self.state)
        return self.terminal_states[pure], self.terminal_rewards[pure]

    @cached_property
    def edges(self) -> CountedEdges:
        """The distinct transitions, and the number of times that each occurs."""
        discrete = self.action if self.n_actions is not None else None
        key = self.state.astype(np.int64) * len(self.observations) + self.next_state
        for column in (self.reward, self.terminal_reward, self.terminated, self.weight, discrete):
            if column is not None:
                values, index = np.unique(column, return_inverse=True)
                key = np.unique(key, return_inverse=True)[1] * values.size + index
        _, first, of_transition, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        names = ("state", "next_state", "reward", "terminal_reward", "terminated")
        return CountedEdges(
            n=len(self.observations),
            **{name: getattr(self, name)[first] for name in names},
            action=None if discrete is None else discrete[first],
            log_default=None if self.default is None else np.log(self.default[first]),
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

    def with_absorbing_terminals(self, delta: float) -> "Transitions":
        """Adds transitions of reward `-delta` from each terminal state to itself, as many as the
        average state has. The objectives without an anchor need them."""
        often = max(1, round(len(self) / np.unique(self.state).size))
        added = np.repeat(self.terminal_states, often)
        none, cost = np.zeros(added.size, dtype=bool), np.full(added.size, -delta)
        new = zip(COLUMNS, (added, added, cost, none, none), strict=False)
        columns = [np.r_[getattr(self, name), part] for name, part in new]
        weight = np.r_[self.weight, np.ones(added.size)]
        return replace(Transitions.from_table(self.observations, *columns), weight=weight)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Saves to an `.npz` file, which names the file of observations that are in one already."""
        columns = {name: getattr(self, name) for name in files.ARRAYS}
        settings = {"n_actions": self.n_actions, "origin": dict(self.origin)}
        files.write(as_path("path", path), columns, settings, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "Transitions":
        """Loads transitions from the `.npz` file that `save` wrote."""
        return files.read(as_path("path", path), cls.from_table)
