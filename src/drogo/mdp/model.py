"""`MDP`: the finite problem every exact answer starts from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from drogo.errors import MDPError
from drogo.mdp import checks
from drogo.mdp.neighbours import distinct_pairs

if TYPE_CHECKING:
    import gymnasium

Matrix = Any
"""Dense (an array or nested lists) or any SciPy sparse matrix."""


@dataclass(frozen=True, eq=False, repr=False)
class MDP:
    """A finite MDP whose reward is r(s), the reward of *leaving* s. Make one with `from_arrays`.

    Rows of terminal states are empty: an episode is over there. How a terminal state enters the
    default representation (absorbing, or a zero row) is a question for `drogo.exact`.
    """

    transitions: tuple[sp.csr_array, ...]
    """One (states, states) matrix per action."""
    reward: Float[np.ndarray, " states"]
    """r(s) < 0. In a terminal state: the reward received on the last step, 0 for a plain goal."""
    terminal: Bool[np.ndarray, " states"]
    start: Float[np.ndarray, " states"]
    """Where episodes begin, as a distribution."""
    default_policy: Float[np.ndarray, "states actions"]
    states: Sequence[Hashable]
    """What each index stands for: a cell, the key of an environment's state, or the index."""

    @property
    def n_states(self) -> int:
        return self.reward.shape[0]

    @property
    def n_actions(self) -> int:
        return len(self.transitions)

    def __repr__(self) -> str:
        return (
            f"MDP({self.n_states} states, {self.n_actions} action(s), "
            f"{int(self.terminal.sum())} terminal)"
        )

    @cached_property
    def P(self) -> sp.csr_array:
        """Transition matrix under the default policy; terminal rows are empty."""
        if self.n_actions == 1:
            return self.transitions[0]
        weighted = (
            sp.dia_array((self.default_policy[:, a][None], [0]), shape=matrix.shape) @ matrix
            for a, matrix in enumerate(self.transitions)
        )
        total = next(weighted)
        for matrix in weighted:
            total = total + matrix
        return _canonical(total)

    @cached_property
    def neighbours(self) -> Int[np.ndarray, "pairs 2"]:
        """Pairs of different states that some action leads between, each pair once."""
        before, after = zip(*(matrix.nonzero() for matrix in self.transitions), strict=True)
        return distinct_pairs(np.concatenate(before), np.concatenate(after))

    @classmethod
    def from_arrays(
        cls,
        P: Matrix | Sequence[Matrix],
        r: Any,
        terminal: Any,
        *,
        start: Any = None,
        default_policy: Any = None,
        states: Sequence[Hashable] | None = None,
    ) -> MDP:
        """Build and check an MDP.

        `P` is one (states, states) matrix under the default policy, or one per action (a sequence,
        or an array of shape (actions, states, states)); dense or sparse. `terminal` is a mask or a
        list of indices. `start` is an index, a distribution, or None: uniform over non-terminal
        states. Rows of `P` in terminal states are never read.
        """
        matrices = _as_matrices(P)
        n = matrices[0].shape[0]
        reward = _as_floats("r", r)
        checks.check_vector("r", reward, n)
        mask = _as_mask(terminal, n)
        if not mask.any():
            raise MDPError(
                "there is no terminal state. The vector is anchored at one: mark at least one "
                "state as terminal."
            )
        labels = range(n) if states is None else states
        if len(labels) != n:
            raise MDPError(f"states has {len(labels)} labels for {n} states.")
        checks.check_transitions(matrices, mask)
        checks.check_reward(reward, mask, labels)
        matrices = tuple(_canonical(_normalised(matrix, mask)) for matrix in matrices)
        mdp = cls(
            transitions=matrices,
            reward=_frozen(reward),
            terminal=_frozen(mask),
            start=_frozen(_as_start(start, mask)),
            default_policy=_frozen(_as_policy(default_policy, len(matrices), mask)),
            states=labels,
        )
        checks.check_reachability(mdp.P, mask, labels)
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
        """The MDP behind a Gymnasium environment.

        Read from the table `env.unwrapped.P` where there is one (FrozenLake, Taxi, CliffWalking;
        wrappers are not looked at), otherwise, or if `state` is given, found by breadth-first
        search over copies of the environment, which must be deterministic. A search begins where
        `reset(seed=seed)` does; give several seeds for several starts. `max_states` ends it: 10,000
        if observations are real numbers (which may never repeat), 100,000 otherwise.

        Only states that can be reached from a start are kept. The way back: `mdp.states[i]` is
        the environment's own state number, or, for a search, `state(env)` (the observation, as
        nested tuples, unless `state` is given).

        `reward` replaces the environment's: a step cost, or a function of a state (an entry of
        `mdp.states`). It is needed when the environment's reward is not a function of the state
        that is left. A function is also asked for terminal states; a number leaves all of them at
        0, a hole as well as a goal.
        """
        from drogo.mdp import search, tabular

        if state is None and isinstance(getattr(env.unwrapped, "P", None), Mapping):
            table = tabular.read(env)
        else:
            seeds = [seed] if isinstance(seed, int) else list(seed)
            table = search.explore(env, state=state, max_states=max_states, seeds=seeds)
        return table.to_mdp(reward)


def _canonical(matrix: Any) -> sp.csr_array:
    """CSR without explicit zeros or duplicates, read-only like the rest of an MDP."""
    matrix = sp.csr_array(matrix).astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def _normalised(matrix: sp.csr_array, terminal: np.ndarray) -> sp.csr_array:
    """Rows that sum to 1 to the last digit (single precision does not), none in an end."""
    sums = np.asarray(matrix.sum(axis=1)).ravel().astype(np.float64)
    factor = np.where(terminal | (sums <= 0), 0.0, 1 / np.where(sums > 0, sums, 1.0))
    factor[np.abs(sums - 1) < 1e-12] = 1.0  # nothing to mend: leave the last bits alone
    factor[terminal] = 0.0
    return sp.csr_array(sp.dia_array((factor[None], [0]), shape=matrix.shape) @ matrix)


def _as_floats(name: str, values: Any) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MDPError(f"{name} is not an array of numbers: {error}") from None


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _as_matrices(P: Any) -> tuple[sp.csr_array, ...]:
    stack: Sequence[Any]
    if sp.issparse(P):
        stack = [P]
    elif isinstance(P, Sequence):
        stack = [matrix if sp.issparse(matrix) else _as_floats("P", matrix) for matrix in P]
        if stack and not sp.issparse(stack[0]) and stack[0].ndim == 1:
            stack = [_as_floats("P", P)]
    else:
        array = _as_floats("P", P)
        stack = list(array) if array.ndim == 3 else [array]
    if not stack:
        raise MDPError("P is empty: expected one (states, states) matrix, or one per action.")
    shape = stack[0].shape
    for action, matrix in enumerate(stack):
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape != shape:
            raise MDPError(
                f"P[{action}] has shape {matrix.shape}; expected square matrices of one size, "
                f"here {(shape[0], shape[0]) if shape else '(states, states)'}."
            )
    return tuple(sp.csr_array(matrix) for matrix in stack)


def _as_mask(terminal: Any, n: int) -> np.ndarray:
    array = np.asarray(terminal)
    if array.dtype == bool:
        checks.check_vector("terminal", array, n)
        return array.copy()
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise MDPError(
            f"terminal must be a boolean mask or a list of state indices, not {array.dtype}."
        )
    indices = array.astype(np.int64).ravel()
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise MDPError(f"terminal names state {indices.max()}, but states run from 0 to {n - 1}.")
    if np.unique(indices).size < indices.size:
        raise MDPError(
            "terminal names a state twice. If it is a mask of 0 and 1, give booleans instead."
        )
    mask = np.zeros(n, dtype=bool)
    mask[indices] = True
    return mask


def _as_start(start: Any, terminal: np.ndarray) -> np.ndarray:
    if start is None:
        start = ~terminal if not terminal.all() else terminal
        return start / start.sum()
    array = np.asarray(start)
    if array.ndim == 0 and np.issubdtype(array.dtype, np.integer):
        if not 0 <= array < terminal.size:
            raise MDPError(f"start = {array}, but states run from 0 to {terminal.size - 1}.")
        return np.eye(1, terminal.size, int(array))[0]
    distribution = _as_floats("start", start)
    checks.check_vector("start", distribution, terminal.size)
    checks.check_start(distribution)
    return distribution


def _as_policy(policy: Any, actions: int, terminal: np.ndarray) -> np.ndarray:
    shape = (terminal.size, actions)
    if policy is None:
        return np.full(shape, 1 / actions)
    array = _as_floats("default_policy", policy)
    if array.shape != shape:
        raise MDPError(
            f"default_policy has shape {array.shape}; expected (states, actions) {shape}."
        )
    checks.check_policy(array, terminal)
    return array
