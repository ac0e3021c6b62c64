"""`MDP`: a finite Markov decision process, the problem that every exact solution starts from."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int, Shaped

from drogo.errors import MDPError
from drogo.mdp import arrays

if TYPE_CHECKING:
    import gymnasium


class Outcomes(NamedTuple):
    """Every outcome of every action in every state, padded to the largest number of outcomes.

    In a terminal state, every action leads back to that state.
    """

    next_state: Int[np.ndarray, "states actions outcomes"]
    cumulative: Float[np.ndarray, "states actions outcomes"]
    """Cumulative probabilities: 1 from an action's last outcome on, so padding is never drawn."""


@dataclass(frozen=True, eq=False, repr=False)
class MDP:
    """A finite MDP whose reward r(s) is received on leaving s. Make one with `from_arrays`.

    Transition rows of terminal states are empty, because episodes end there. `drogo.exact` decides
    how terminal states enter the default representation (absorbing, or with a zero row).
    """

    transitions: tuple[sp.csr_array, ...]
    """One (states, states) matrix of probabilities per action."""
    reward: Float[np.ndarray, " states"]
    """r(s). In a terminal state: its `terminal_reward`, received on the last step."""
    terminal: Bool[np.ndarray, " states"]
    """Which states end an episode."""
    start: Float[np.ndarray, " states"]
    """The distribution of the first state of an episode."""
    default_policy: Float[np.ndarray, "states actions"]
    """The probability of each action under the default policy."""
    states: Sequence[Hashable]
    """What each index stands for: a cell, the key of an environment's state, or the index."""

    @property
    def n_states(self) -> int:
        """The number of states, terminal ones included."""
        return self.reward.shape[0]

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return len(self.transitions)

    def __repr__(self) -> str:
        return (
            f"MDP({self.n_states} states, {self.n_actions} action(s), "
            f"{int(self.terminal.sum())} terminal)"
        )

    @cached_property
    def P(self) -> sp.csr_array:
        """The transition matrix under the default policy. Rows of terminal states are empty."""
        if self.n_actions == 1:
            return self.transitions[0]
        policy = zip(self.transitions, self.default_policy.T, strict=True)
        return arrays.canonical(sum(matrix.multiply(share[:, None]) for matrix, share in policy))

    @cached_property
    def outcomes(self) -> Outcomes:
        """Next states and their cumulative probabilities as padded arrays, to draw samples from."""
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
        """Returns the index of the state of each observation, to put a vector into their order.

        Data hold the observations in the order in which they were met, and perhaps not those of all
        states. `exact.log_column(mdp, lam)[mdp.index_of(data.observations)]` is the truth for them.

        Args:
            observations: One observation per row, such as `data.observations`.
            key: What `states` calls an observation. By default, as `from_gymnasium` does: a number
                as it is, and an array as nested tuples.

        Returns:
            One index into `states` for each observation.

        Raises:
            MDPError: An observation is none of the states.
        """
        from drogo.mdp.environment import as_key

        index = {state: k for k, state in enumerate(self.states)}
        names = [as_key(observation) if key is None else key(observation)
                 for observation in observations]  # fmt: skip
        for row, name in enumerate(names):
            if name not in index:
                raise MDPError(
                    f"observation {row} is {reprlib.repr(name)}, which is none of the "
                    f"{self.n_states} states (the first is {reprlib.repr(self.states[0])}).",
                    remedy="Give key=, a function from an observation to the entry of mdp.states.",
                )
        return np.array([index[name] for name in names], dtype=np.int64)

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
        """Makes an MDP from arrays, and checks them.

        If every reward is negative, its default representation is defined. Otherwise that depends
        on lam, and `drogo.exact` checks it.

        Args:
            P: One (states, states) matrix under the default policy, or one matrix per action (a
                sequence, or an array of shape (actions, states, states)). Matrices may be dense or
                sparse. Rows of terminal states are not read.
            r: The reward of leaving each state. In a terminal state: its terminal value.
            terminal: The terminal states, as a boolean mask or a list of indices. By default none:
                the task never ends, and `exact.perron` solves it.
            start: Where episodes begin: a state's index, or a distribution over states. By default
                uniform over the non-terminal states.
            default_policy: The probability of each action in each state, of shape (states,
                actions). By default uniform.
            states: What each index stands for, for `mdp.states` and for error messages.

        Returns:
            The MDP. Its arrays are read-only copies.

        Raises:
            MDPError: An argument is malformed, or a state cannot reach a terminal state though
                there is one.
        """
        matrices = arrays.as_matrices(P)
        n = matrices[0].shape[0]
        mask = np.zeros(n, dtype=bool) if terminal is None else arrays.as_mask(terminal, n)
        labels = range(n) if states is None else states
        if len(labels) != n:
            raise MDPError(f"states has {len(labels)} labels for {n} states.")
        mdp = cls(
            transitions=tuple(arrays.as_probabilities(matrices, mask)),
            reward=arrays.frozen(arrays.as_reward(r, mask, labels)),
            terminal=arrays.frozen(mask),
            start=arrays.frozen(arrays.as_start(start, mask)),
            default_policy=arrays.frozen(arrays.as_policy(default_policy, len(matrices), mask)),
            states=labels,
        )
        arrays.check_reachability(mdp.P, mask, labels)
        return mdp

    @classmethod
    def from_gymnasium(
        cls,
        env: gymnasium.Env,
        *,
        reward: float | Callable[[Any], float] | None = None,
        state: Callable[[gymnasium.Env], Hashable] | None = None,
        max_states: int | None = None,
        seed: int | Sequence[int] = 0,
    ) -> MDP:
        """Finds the MDP behind a Gymnasium environment.

        It is read from the table `env.unwrapped.P` if there is one (FrozenLake, Taxi, CliffWalking;
        wrappers are ignored) and `state` is not given. Otherwise it is found by breadth-first
        search over copies of the environment, which must be deterministic.

        Args:
            env: The environment.
            reward: Replaces the environment's reward: a step cost, or a function of a state (an
                entry of `mdp.states`). It is needed where the environment's reward is not a
                function of the state that is left. A function is also called for terminal states,
                where it gives the terminal value; a number leaves all terminal values at 0.
            state: A function from the environment to a hashable key of its state. By default the
                observation is the key.
            max_states: The search fails beyond this number of states: by default 10,000 if
                observations are real numbers (which may never repeat), otherwise 100,000.
            seed: The search begins in `reset(seed=seed)`. Several seeds give several first states.

        Returns:
            The MDP over the states that can be reached. `mdp.states[i]` is the environment's own
            state number, or the key that the search used (observations as nested tuples).

        Raises:
            MDPError: The environment has no such MDP, or the search could not find it.
        """
        from drogo.mdp import environment

        if state is None and isinstance(getattr(env.unwrapped, "P", None), Mapping):
            return environment.to_mdp(environment.read(env), reward)
        seeds = [seed] if isinstance(seed, int) else list(seed)
        table = environment.explore(env, state=state, max_states=max_states, seeds=seeds)
        return environment.to_mdp(table, reward)


@runtime_checkable
class HasMDP(Protocol):
    """An environment that knows its MDP, so that transitions can be drawn without stepping it."""

    mdp: MDP
    """The MDP, with the default policy that data are collected with."""
    step_limit: int
    """The number of steps after which an episode is truncated."""

    def all_observations(self) -> np.ndarray:
        """Returns one observation per state of `mdp`, in the same order."""
        ...


def distinct_pairs(
    first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"]
) -> Int[np.ndarray, "pairs 2"]:
    """Returns the unordered pairs of two different states, each pair once."""
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)
    return np.unique(pairs[first != second], axis=0).astype(np.int64)
