"""The vectors that options climb, learned or computed from what some agents have seen.

`Learned...` are tables that temporal differences change along the latest steps, as published. What
was never updated is as it was at first, so their vectors are largest in places that are hardly
known. `Exact...` are solutions of the problem that was seen, without step sizes and passes.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.linalg import eigh

from drogo import exact
from drogo.errors import NotConverged, check_share, check_whole
from drogo.exact.dense import log_perron
from drogo.mdp import MDP
from drogo.use.online.empirical import Seen, solve_seen
from drogo.worlds.tabular import TabularWorld

ACCURATE = 1e-3
"""A vector whose eigenvalue is uncertain by more, relatively, counts as inaccurate. So does one
that has entries beyond the range of double precision."""
FAR = -745.0
"""The log of the smallest positive number, for entries beyond the range of double precision."""


@dataclass(frozen=True)
class Memory:
    """What some lanes have seen.

    Args:
        world: The world, without terminal states.
        tried: Which actions each lane has tried in each state.
        state: The states of the latest steps, in order.
        next_state: Where these steps led.
    """

    world: TabularWorld
    tried: Bool[np.ndarray, "lanes states actions"]
    state: Int[np.ndarray, "lanes steps"]
    next_state: Int[np.ndarray, "lanes steps"]


@dataclass
class AbstractVectors(abc.ABC):
    """Gives each lane a vector over states, which its next option climbs."""

    inaccurate: int = field(default=0, init=False)
    """How many vectors were not accurate so far. They were used all the same."""

    @abc.abstractmethod
    def update(self, memory: Memory) -> Float[np.ndarray, "lanes states"]:
        """Returns the vectors after further steps.

        Args:
            memory: What was seen so far.
        """


@dataclass
class _Learned(AbstractVectors):
    """A table of each lane, which passes over the latest steps change.

    Args:
        step_size: The step size.
        passes: How many passes over the latest steps there are.
    """

    step_size: float
    passes: int

    def __post_init__(self) -> None:
        check_share("step_size", self.step_size)
        check_whole("passes", self.passes, 1)
        self.table: Float[np.ndarray, "lanes states states"] = np.zeros((0, 0, 0))

    def _learn(self, memory: Memory, gain: np.ndarray, carry: np.ndarray, *, back: bool) -> None:
        """Moves rows towards `gain 1_s + carry table[s']`; with `back`, the first pass from the
        last step to the first."""
        lane = np.arange(len(memory.state))
        steps = list(zip(memory.state.T, memory.next_state.T, strict=True))
        for number in range(self.passes):
            for state, after in reversed(steps) if back and number == 0 else steps:
                target = carry[state][:, None] * self.table[lane, after]
                target[lane, state] += gain[state]
                row = self.table[lane, state]
                self.table[lane, state] = row + self.step_size * (target - row)

    def _symmetric(self) -> Float[np.ndarray, "lanes states states"]:
        return (self.table + self.table.transpose(0, 2, 1)) / 2


@final
@dataclass
class LearnedSuccessor(_Learned):
    """Minus the top eigenvector of a successor representation that is learned from 0.

    Args:
        step_size: The step size.
        passes: How many passes over the latest steps there are.
        discount: The discount of the representation.
    """

    discount: float = 0.99

    def update(self, memory: Memory) -> Float[np.ndarray, "lanes states"]:
        lanes, states, _ = memory.tried.shape
        if not self.table.size:
            self.table = np.zeros((lanes, states, states))
        ones = np.ones(states)
        self._learn(memory, ones, self.discount * ones, back=False)
        top = [states - 1] * 2
        vectors = [eigh(s, subset_by_index=top)[1][:, 0] for s in self._symmetric()]
        return -np.abs(np.stack(vectors))


@final
@dataclass
class LearnedDefault(_Learned):
    """The log of the top eigenvector of a default representation that is learned from the identity.

    States whose row was never updated have the value 0, the largest. As published, the vector is
    divided by its norm, and the first pass goes back in time.

    Args:
        step_size: The step size.
        passes: How many passes over the latest steps there are.
        lam: The temperature lambda.
    """

    lam: float = 1.3

    def update(self, memory: Memory) -> Float[np.ndarray, "lanes states"]:
        lanes, states, _ = memory.tried.shape
        if not self.table.size:
            self.table = np.tile(np.eye(states), (lanes, 1, 1))
        factor = np.exp(memory.world.reward / self.lam)
        self._learn(memory, factor, factor, back=True)
        e = np.zeros((lanes, states))
        for lane, symmetric in enumerate(self._symmetric()):
            updated = symmetric.sum(axis=1) != 1
            log_e, spread = log_perron(symmetric[np.ix_(updated, updated)])
            self.inaccurate += not (spread <= ACCURATE and np.isfinite(log_e).all())
            e[lane, updated] = np.maximum(log_e, FAR)
        return e / np.linalg.norm(e, axis=1, keepdims=True)


@dataclass
class _Exact(AbstractVectors):
    """A vector of the problem that was seen, solved for each lane whose problem has changed."""

    def __post_init__(self) -> None:
        self._known = np.zeros((0, 0, 0), dtype=bool)
        self._vectors = np.zeros((0, 0))

    @abc.abstractmethod
    def _solve(self, world: TabularWorld, tried: np.ndarray) -> Float[np.ndarray, " states"]:
        """Returns the vector of one lane."""

    def update(self, memory: Memory) -> Float[np.ndarray, "lanes states"]:
        if not self._known.size:
            self._known = np.zeros_like(memory.tried)
            self._vectors = np.zeros(memory.tried.shape[:2])
        for lane in np.flatnonzero((self._known != memory.tried).any(axis=(1, 2))):
            self._vectors[lane] = self._solve(memory.world, memory.tried[lane])
        self._known = memory.tried.copy()
        return self._vectors.copy()


@final
@dataclass
class ExactSuccessor(_Exact):
    """Minus the top eigenvector of the successor representation of what was seen.

    Args:
        discount: The discount of the representation.
    """

    discount: float = 0.99

    def _solve(self, world: TabularWorld, tried: np.ndarray) -> Float[np.ndarray, " states"]:
        e = np.zeros(world.n_states)
        mdp, known = seen_mdp(world, tried)
        try:
            e[known] = -exact.successor_eigenvector(mdp, self.discount)
        except NotConverged:
            self.inaccurate += 1
        return e


@final
@dataclass
class ExactDefault(_Exact):
    """The map of what was seen, from the default representation.

    With optimism, an action that was never tried is taken to end the episode, and the vector is
    that of `drogo.use.OnlineTable`: it leads to the nearest action that was not tried, around what
    is costly. Without, it is the log of the top eigenvector of the default representation.

    Args:
        lam: The temperature lambda.
        optimistic: Whether actions that were not tried count.
    """

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
        mdp, known = seen_mdp(world, tried)
        solution = exact.solve(mdp, self.lam, "representation", terminal="zero-row")
        self.inaccurate += solution.status != "converged"
        e[known] = solution.log_e
        return e


def seen_mdp(world: TabularWorld, tried: np.ndarray) -> tuple[MDP, Int[np.ndarray, " known"]]:
    """Returns the MDP of what one lane has seen, and which states it has.

    The default policy chooses among the actions that were tried. A state that was never left has a
    zero row. The MDP is not made by `from_arrays`, which would demand a terminal state: only
    eigenvectors are asked for, and rewards are negative, so that they are defined without one.
    """
    state, action = np.nonzero(tried)
    known = np.union1d(state, world.next_state[state, action])
    place = np.full(world.n_states, -1)
    place[known] = np.arange(known.size)
    share = 1 / tried.sum(axis=1)[state]
    entries = (share, (place[state], place[world.next_state[state, action]]))
    P = sp.csr_array(entries, shape=(known.size, known.size))
    P.sum_duplicates()
    n = known.size
    return MDP(
        transitions=(P,),
        reward=world.reward[known],
        terminal=np.logical_not(tried[known].any(axis=1)),
        start=np.full(n, 1 / n),
        default_policy=np.ones((n, 1)),
        states=range(n),
    ), known
