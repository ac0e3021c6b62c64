"""The vectors that options climb: `Learned...` by temporal differences along the latest steps, as
published, and `Exact...` of the empirical MDP. Rows without updates keep their initial values."""

import abc
from dataclasses import dataclass, field
from typing import final

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from drogo import exact
from drogo.errors import ArgumentError, Count, NotConverged, Share, check_fields
from drogo.exact.definitions import successor_eigenvector
from drogo.mdp import MDP
from drogo.online.table import Seen, solve_seen
from drogo.worlds.tabular import TabularWorld

ACCURATE = 1e-3
"""A vector whose eigenvalue is uncertain by more, relatively, is inaccurate, as is one with entries
beyond the range of double precision."""
FAR = -745.0
"""The log of the smallest positive number, for entries beyond the range of double precision."""
MAX_SQUARINGS = 50  # 2**50 power iterations: enough for eigenvalues that differ in the last digits.
MAX_ELIMINATIONS = 4  # Each refines the eigenvalue.
SPREAD = 1e-9
"""The relative distance of the bounds of the eigenvalue at which `log_perron` stops."""


@dataclass(frozen=True)
class Memory:
    """The steps of some runs in a world without terminal states."""

    world: TabularWorld
    tried: Bool[np.ndarray, "runs states actions"]
    state: Int[np.ndarray, "runs steps"]
    """The states of the latest steps, in order."""
    next_state: Int[np.ndarray, "runs steps"]


@dataclass
class AbstractVectors(abc.ABC):
    """Gives each run a vector over states, which its next option climbs."""

    inaccurate: int = field(default=0, init=False)
    """The number of vectors that were not accurate, which are used nevertheless."""

    @abc.abstractmethod
    def update(self, memory: Memory) -> Float[np.ndarray, "runs states"]:
        """Returns the vectors after further steps."""


@dataclass
class _Learned(AbstractVectors):
    """A table of each run, which is updated in some passes over the latest steps."""

    step_size: Share
    passes: Count

    def __post_init__(self) -> None:
        check_fields(self)
        self.table: Float[np.ndarray, "runs states states"] = np.zeros((0, 0, 0))

    def _learn(self, memory: Memory, gain: np.ndarray, carry: np.ndarray, *, back: bool) -> None:
        """Moves rows towards `gain 1_s + carry table[s']`, with `back` first in reverse order."""
        run = np.arange(len(memory.state))
        steps = list(zip(memory.state.T, memory.next_state.T, strict=True))
        for number in range(self.passes):
            for state, after in reversed(steps) if back and number == 0 else steps:
                target = carry[state][:, None] * self.table[run, after]
                target[run, state] += gain[state]
                row = self.table[run, state]
                self.table[run, state] = row + self.step_size * (target - row)

    def _symmetric(self) -> Float[np.ndarray, "runs states states"]:
        return (self.table + self.table.transpose(0, 2, 1)) / 2


@final
@dataclass
class LearnedSuccessor(_Learned):
    """Minus the top eigenvector of a successor representation that is learned from 0."""

    discount: float = 0.99

    def update(self, memory: Memory) -> Float[np.ndarray, "runs states"]:
        runs, states, _ = memory.tried.shape
        if not self.table.size:
            self.table = np.zeros((runs, states, states))
        ones = np.ones(states)
        self._learn(memory, ones, self.discount * ones, back=False)
        top = [states - 1] * 2
        vectors = [scipy.linalg.eigh(s, subset_by_index=top)[1][:, 0] for s in self._symmetric()]
        return -np.abs(np.stack(vectors))


@final
@dataclass
class LearnedDefault(_Learned):
    """The log of the top eigenvector of a default representation that is learned from the identity,
    divided by its norm. States whose row has no updates have the value 0, the largest."""

    lam: float = 1.3

    def update(self, memory: Memory) -> Float[np.ndarray, "runs states"]:
        runs, states, _ = memory.tried.shape
        if not self.table.size:
            self.table = np.tile(np.eye(states), (runs, 1, 1))
        factor = np.exp(memory.world.reward / self.lam)
        self._learn(memory, factor, factor, back=True)
        e = np.zeros((runs, states))
        for run, symmetric in enumerate(self._symmetric()):
            updated = symmetric.sum(axis=1) != 1
            log_e, spread = log_perron(symmetric[np.ix_(updated, updated)])
            self.inaccurate += not (spread <= ACCURATE and np.isfinite(log_e).all())
            e[run, updated] = np.maximum(log_e, FAR)
        return e / np.linalg.norm(e, axis=1, keepdims=True)


@dataclass
class _Exact(AbstractVectors):
    """A vector of the empirical MDP, solved for each run whose MDP has changed."""

    def __post_init__(self) -> None:
        self._tried = np.zeros((0, 0, 0), dtype=bool)
        self._vectors = np.zeros((0, 0))

    @abc.abstractmethod
    def _solve(self, world: TabularWorld, tried: np.ndarray) -> Float[np.ndarray, " states"]: ...

    def update(self, memory: Memory) -> Float[np.ndarray, "runs states"]:
        if not self._tried.size:
            self._tried = np.zeros_like(memory.tried)
            self._vectors = np.zeros(memory.tried.shape[:2])
        for run in np.flatnonzero((self._tried != memory.tried).any(axis=(1, 2))):
            self._vectors[run] = self._solve(memory.world, memory.tried[run])
        self._tried = memory.tried.copy()
        return self._vectors.copy()


@final
@dataclass
class ExactSuccessor(_Exact):
    """Minus the top eigenvector of the successor representation of the empirical MDP."""

    discount: float = 0.99

    def _solve(self, world: TabularWorld, tried: np.ndarray) -> Float[np.ndarray, " states"]:
        e = np.zeros(world.n_states)
        mdp, visited = empirical_mdp(world, tried)
        try:
            e[visited] = -successor_eigenvector(mdp, self.discount)
        except NotConverged:
            self.inaccurate += 1
        return e


@final
@dataclass
class ExactDefault(_Exact):
    """The map of the empirical MDP in which untried actions are terminal; without `optimistic`, the
    log of the top eigenvector of its default representation."""

    lam: float = 1.3
    optimistic: bool = True

    def _solve(self, world: TabularWorld, tried: np.ndarray) -> Float[np.ndarray, " states"]:
        states, actions = tried.shape
        if self.optimistic:
            state, action = np.nonzero(tried)
            none = np.zeros(state.size)
            seen = Seen(state, action, world.next_state[state, action], world.reward[state],
                        none > 0, none, np.ones(state.size, dtype=np.int64))  # fmt: skip
            return solve_seen(seen, np.full((states, actions), 1 / actions), self.lam, 0.0)
        e = np.zeros(states)
        mdp, visited = empirical_mdp(world, tried)
        solution = exact.solve(mdp, self.lam, "representation", terminal="zero-row")
        self.inaccurate += solution.status != "converged"
        e[visited] = solution.log_e
        return e


def make_vectors(
    kind: str, *, step_size: float, passes: int, lam: float, discount: float
) -> AbstractVectors:
    """Returns a representation by its name on the command line."""
    makers = {
        "race": lambda: LearnedDefault(step_size, passes, lam),
        "ceo": lambda: LearnedSuccessor(step_size, passes, discount),
        "untried": lambda: ExactDefault(lam),
        "race-exact": lambda: ExactDefault(lam, optimistic=False),
        "ceo-exact": lambda: ExactSuccessor(discount),
    }
    return makers[kind]()


def random_walk(world: TabularWorld) -> Float[np.ndarray, "states states"]:
    """Returns the probabilities of uniformly random moves."""
    P = np.zeros((world.n_states, world.n_states))
    state, actions = np.arange(world.n_states)[:, None], world.next_state.shape[1]
    np.add.at(P, (state, world.next_state), 1 / actions)
    return P


def empirical_mdp(
    world: TabularWorld, tried: np.ndarray
) -> tuple[MDP, Int[np.ndarray, " visited"]]:
    """Returns the empirical MDP of one run, and the states that it has. One that was never left has
    a zero row. `from_arrays` would need a terminal state; rewards are negative, so its eigenvectors
    are defined without one."""
    state, action = np.nonzero(tried)
    visited = np.union1d(state, world.next_state[state, action])
    n = visited.size
    place = np.full(world.n_states, -1)
    place[visited] = np.arange(n)
    share = 1 / tried.sum(axis=1)[state]
    entries = (share, (place[state], place[world.next_state[state, action]]))
    P = sp.csr_array(entries, shape=(n, n))
    P.sum_duplicates()
    return MDP(
        transitions=(P,),
        reward=world.reward[visited],
        terminal=np.logical_not(tried[visited].any(axis=1)),
        start=np.full(n, 1 / n),
        default_policy=np.ones((n, 1)),
        states=range(n),
    ), visited


def log_perron(matrix: Float[np.ndarray, "n n"]) -> tuple[Float[np.ndarray, " n"], float]:
    """Computes the log of the positive eigenvector of a non-negative matrix, of unit norm, and the
    relative distance of the Collatz-Wielandt bounds of its eigenvalue.

    Entries beyond double precision are minus infinity, and so are all but one part if the states
    fall into parts. Both elimination and repeated squaring (2, 4, 8, ... power iterations) only add
    positive terms, so that small entries are as accurate as large ones, unlike those of `eigh`.
    """
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ArgumentError("matrix needs non-negative, finite entries.", argument="matrix")
    if (result := _by_elimination(matrix)) is not None:
        return result
    power = matrix / max(matrix.max(initial=0.0), np.finfo(float).tiny)
    x, spread = np.ones(len(matrix)), np.inf
    for _ in range(MAX_SQUARINGS):
        column = power[:, int(power.diagonal().argmax())]
        after, positive = matrix @ column, column > 0
        growth = after[positive] / column[positive]
        now = float(growth.max() / growth.min() - 1) if positive.any() else np.inf
        if now < spread:
            x, spread = column, now
        if spread <= SPREAD:
            break
        power = power @ power
        power /= max(power.max(), np.finfo(float).tiny)
    with np.errstate(divide="ignore"):
        return np.log(x) - np.log(np.linalg.norm(x)), spread


def _by_elimination(matrix: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Returns the result of `log_perron` of a symmetric matrix, or None if it is not accurate. With
    the largest entry k fixed to 1, the others solve `(eigenvalue - rest) x = column k`, where the
    matrix is a positive definite M-matrix."""
    if len(matrix) < 2 or not np.array_equal(matrix, matrix.T):
        return None
    top = [len(matrix) - 1] * 2
    try:
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=top, check_finite=False)
        k, eigenvalue = int(np.abs(vectors[:, 0]).argmax()), float(values[0])
        rest = np.delete(np.arange(len(matrix)), k)
        x = np.ones(len(matrix))
        for _ in range(MAX_ELIMINATIONS):
            left = np.diag(np.full(len(rest), eigenvalue)) - matrix[np.ix_(rest, rest)]
            factor = scipy.linalg.cho_factor(left, overwrite_a=True, check_finite=False)
            x[rest] = scipy.linalg.cho_solve(factor, matrix[rest, k], check_finite=False)
            if not (x > 0).all():  # An entry is not connected, or beyond double precision.
                return None
            growth = (matrix @ x) / x
            spread = float(growth.max() / growth.min() - 1)
            if spread <= SPREAD:
                return np.log(x) - np.log(np.linalg.norm(x)), spread
            eigenvalue = float(growth[k])
    except (np.linalg.LinAlgError, FloatingPointError):
        pass
    return None
