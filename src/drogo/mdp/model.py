"""`MDP`, a finite Markov decision process, and `Edges`: the inputs of the exact solvers."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Sequence, Sized
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int, Shaped

from drogo.errors import ArgumentError, MDPError, check_type, check_whole
from drogo.mdp import arrays
from drogo.mdp.costs import Costs
from drogo.mdp.environment import as_key, tabulate


@dataclass(frozen=True)
class Edges:
    """The possible transitions between n states under the default policy."""

    n: int
    state: Int[np.ndarray, " edges"]
    next_state: Int[np.ndarray, " edges"]
    weight: Float[np.ndarray, " edges"]
    """The probability or frequency, in any unit that is the same for the edges from one state."""
    reward: Float[np.ndarray, " edges"]
    terminated: Bool[np.ndarray, " edges"]
    terminal_reward: Float[np.ndarray, " edges"]
    """The value of the next state in units of reward where `terminated`, and 0 elsewhere."""

    def __post_init__(self) -> None:
        for name, valid, expected in (
            ("state", (self.state >= 0) & (self.state < self.n), f"between 0 and {self.n - 1}"),
            ("next_state", (self.next_state >= 0) & (self.next_state < self.n), "a state"),
            ("weight", self.weight > 0, "positive"),
            ("reward", np.isfinite(self.reward), "finite"),
        ):
            if not valid.all():
                raise ArgumentError(f"{name} needs a number per edge, {expected}.", argument=name)

    @cached_property
    def share(self) -> Float[np.ndarray, " edges"]:
        """The probability of each edge among those that leave the same state."""
        return self.weight / np.bincount(self.state, self.weight, self.n)[self.state]

    @cached_property
    def usable(self) -> Bool[np.ndarray, " edges"]:
        """The edges whose next state is terminal, or left by an edge that is usable."""
        usable = np.ones(self.state.size, dtype=bool)
        while True:
            left = np.bincount(self.state[usable], minlength=self.n) > 0
            still = usable & (self.terminated | left[self.next_state])
            if still.sum() == usable.sum():
                return usable
            usable = still

    def __add__(self, other: Edges) -> Edges:
        names = [column.name for column in fields(Edges)[1:]]
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return Edges(self.n, *map(np.concatenate, pairs))

    @cached_property
    def known(self) -> Edges:
        """The usable edges alone: solutions leave the others out."""
        columns = (getattr(self, column.name) for column in fields(Edges)[1:])
        return Edges(self.n, *(part[self.usable] for part in columns))


class Outcomes(NamedTuple):
    """Every outcome of every action in every state, padded. Terminal states lead to themselves."""

    next_state: Int[np.ndarray, "states actions outcomes"]
    cumulative: Float[np.ndarray, "states actions outcomes"]
    """Cumulative probabilities: 1 from the last outcome on, so that padding is never sampled."""


@dataclass(frozen=True, eq=False, repr=False)
class MDP:
    """A finite MDP whose reward r(s) is received on leaving s. Make one with `from_arrays`. The
    transition rows of terminal states are empty, because episodes end there."""

    transitions: tuple[sp.csr_array, ...]
    """One (states, states) matrix of probabilities per action."""
    reward: Float[np.ndarray, " states"]
    """r(s). In a terminal state: its `terminal_reward`, received on the last step."""
    terminal: Bool[np.ndarray, " states"]
    start: Float[np.ndarray, " states"]
    """The distribution of the first state of an episode."""
    default_policy: Float[np.ndarray, "states actions"]
    """The probability of each action under the default policy."""
    states: Sequence[Hashable]
    """The label of each state: a cell, the key of an environment's state, or the index."""
    notes: tuple[str, ...] = ()
    """Sentences about what the rewards of an environment were taken for."""
    sure: bool = True
    """Whether these rewards say which terminal states are good."""

    @property
    def n_states(self) -> int:
        """The number of states, including terminal states."""
        return self.reward.shape[0]

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return len(self.transitions)

    def __repr__(self) -> str:
        terminals = int(self.terminal.sum())
        return f"MDP({self.n_states} states, {self.n_actions} action(s), {terminals} terminal)"

    @cached_property
    def P(self) -> sp.csr_array:
        """The transition matrix under the default policy. Rows of terminal states are empty."""
        if self.n_actions == 1:
            return self.transitions[0]
        policy = zip(self.transitions, self.default_policy.T, strict=True)
        return arrays.canonical(sum(matrix.multiply(share[:, None]) for matrix, share in policy))

    @cached_property
    def edges(self) -> Edges:
        """The transitions under the default policy, one by one."""
        P = self.P.tocoo()
        over = self.terminal[P.col]
        values = np.where(over, self.reward[P.col], 0.0)
        return Edges(self.n_states, P.row, P.col, P.data, self.reward[P.row], over, values)

    @cached_property
    def stuck(self) -> Bool[np.ndarray, " states"]:
        """The states that never lead to a terminal state under the default policy, none if there
        is no terminal state. A column is minus infinity there."""
        row, column = self.P.nonzero()
        ends = np.flatnonzero(self.terminal)
        return ~arrays.leads_to(row, column, self.n_states, ends) & self.terminal.any()

    @property
    def stuck_text(self) -> str:
        """A sentence that reports the `stuck` states, or an empty text if there are none."""
        count = int(self.stuck.sum())
        text = f"{count} of {self.n_states} states never lead to a terminal state: their values "
        return f"{text}are minus infinity (mdp.stuck has them)." if count else ""

    @cached_property
    def outcomes(self) -> Outcomes:
        """Next states and their cumulative probabilities as padded arrays, for sampling."""
        n = self.n_states
        count = np.stack([np.diff(matrix.indptr) for matrix in self.transitions], axis=1)
        most = max(1, int(count.max()))
        next_state = np.tile(np.arange(n)[:, None, None], (1, self.n_actions, most))
        probability = np.zeros(next_state.shape)
        for action, matrix in enumerate(self.transitions):
            state = np.repeat(np.arange(n), count[:, action])
            outcome = np.arange(matrix.nnz) - matrix.indptr[state]
            next_state[state, action, outcome] = matrix.indices
            probability[state, action, outcome] = matrix.data
        cumulative = probability.cumsum(axis=2)
        cumulative[np.arange(most) >= count[:, :, None] - 1] = 1.0
        return Outcomes(arrays.frozen(next_state), arrays.frozen(cumulative))

    @cached_property
    def neighbours(self) -> Int[np.ndarray, "pairs 2"]:
        """Pairs of different states that some action leads between, each pair once."""
        before, after = zip(*(matrix.nonzero() for matrix in self.transitions), strict=True)
        return distinct_pairs(np.concatenate(before), np.concatenate(after))

    def index_of(
        self,
        observations: Shaped[np.ndarray, "n ..."],
        key: Callable[[np.ndarray], Hashable] | None = None,
    ) -> Int[np.ndarray, " n"]:
        """Returns the index of the state of each observation, to put a vector into their order:
        `exact.log_column(mdp, lam)[mdp.index_of(data.observations)]`.

        Args:
            observations: One observation per row, such as `data.observations`.
            key: A function from an observation to its label in `states`. By default the label of
                `from_gymnasium`: a number as it is, and an array as nested tuples.
        """
        check_type("observations", observations, Sized, "one observation per row")
        index = {state: k for k, state in enumerate(self.states)}
        labels = [(as_key if key is None else key)(observation) for observation in observations]
        for row, label in enumerate(labels):
            if label not in index:
                problem = f"observation {row} is {reprlib.repr(label)}, which is none of the "
                problem += f"{self.n_states} states (the first is {reprlib.repr(self.states[0])})."
                remedy = "Give key=, a function from an observation to the entry of mdp.states."
                raise MDPError(problem, remedy=remedy, argument="observations")
        return np.array([index[label] for label in labels], dtype=np.int64)

    @classmethod
    def from_arrays(
        cls,
        P: arrays.Matrix | Sequence[arrays.Matrix],
        r: npt.ArrayLike,
        terminal: npt.ArrayLike | None = None,
        *,
        start: int | npt.ArrayLike | None = None,
        default_policy: npt.ArrayLike | None = None,
        states: Sequence[Hashable] | None = None,
    ) -> MDP:
        """Makes an MDP from arrays, which are checked and copied.

        Args:
            P: One (states, states) matrix under the default policy, or a sequence of one matrix per
                action; dense or sparse. Rows of terminal states are not read.
            r: The reward of leaving each state, and the terminal reward of terminal states. If some
                are not negative, the solvers check whether the default representation is defined.
            terminal: The terminal states, as a boolean mask or a list of indices. By default none:
                the task is continuing, and `exact.perron` solves it.
            start: The first state of an episode, as an index or as a distribution over states. By
                default uniform over the non-terminal states.
            default_policy: The probability of each action in each state, of shape (states,
                actions). By default uniform.
            states: The label of each state, for `mdp.states` and for error messages.
        """
        matrices = arrays.as_matrices(P)
        n = matrices[0].shape[0]
        mask = np.zeros(n, dtype=bool) if terminal is None else arrays.as_mask(terminal, n)
        labels = range(n) if states is None else states
        check_type("states", labels, Sized, "a label for each state")
        if len(labels) != n:
            raise MDPError(f"states has {len(labels)} labels for {n} states.", argument="states")
        mdp = cls(
            transitions=tuple(arrays.as_probabilities(matrices, mask)),
            reward=arrays.frozen(arrays.as_reward(r, mask, labels)),
            terminal=arrays.frozen(mask),
            start=arrays.frozen(arrays.as_start(start, mask)),
            default_policy=arrays.frozen(arrays.as_policy(default_policy, len(matrices), mask)),
            states=labels,
        )
        if (mdp.stuck | mdp.terminal).all() and not mdp.terminal.all():
            raise MDPError("no state leads to a terminal state: add a way in P.", argument="P")
        return mdp

    @classmethod
    def from_gymnasium(
        cls,
        env: gymnasium.Env,
        *,
        reward: float | Callable[[Any], float] | Costs | None = None,
        state: Callable[[gymnasium.Env], Hashable] | None = None,
        max_states: int | None = None,
        seed: int | Sequence[int] = 0,
    ) -> MDP:
        """Finds the MDP behind a Gymnasium environment.

        It is read from the table `env.unwrapped.P` if there is one and `state` is not given.
        Otherwise it is found by search over copies of the environment, which must be deterministic.

        Args:
            reward: Replaces the rewards: a step cost; a `drogo.mdp.Costs`, which says what steps
                and ends are worth; or a function of a state (an entry of `mdp.states`), which is also
                called for terminal states. By default, and with a step cost, the last rewards of
                episodes say what their ends are worth, as `drogo.fit` judges them.
            state: A function from the environment to a hashable key of its state. By default the
                observation is the key.
            max_states: The search fails beyond this number of states: by default 10,000 if
                observations are real numbers (which may never repeat), otherwise 100,000.
            seed: The search begins in `reset(seed=seed)`. Several seeds give several first states.

        Returns:
            The MDP over the states that can be reached. `mdp.states` are the state numbers of the
            table, or the keys of the search (observations as nested tuples).
        """
        if max_states is not None:
            check_whole("max_states", max_states, 1)
        given: Any = [seed] if isinstance(seed, bytes) or not np.iterable(seed) else seed
        if not (seeds := [check_whole("seed", one, 0) for one in given]):
            raise ArgumentError("seed is empty; give at least one seed.", argument="seed")
        arguments, judged = tabulate(env, reward, state, max_states, seeds)
        return replace(cls.from_arrays(**arguments), notes=judged.notes, sure=judged.sure)


@runtime_checkable
class HasMDP(Protocol):
    """An environment that knows its MDP, so that transitions can be sampled without stepping it."""

    mdp: MDP
    """The MDP, with the default policy that data are collected with."""
    step_limit: int
    """The number of steps after which an episode is truncated."""

    def all_observations(self) -> np.ndarray:
        """Returns one observation per state of `mdp`, in the same order."""
        ...


def distinct_pairs(first: arrays.Nodes, second: arrays.Nodes) -> Int[np.ndarray, "pairs 2"]:
    """Returns the unordered pairs of two different states, each pair once."""
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)
    return np.unique(pairs[first != second], axis=0).astype(np.int64)
