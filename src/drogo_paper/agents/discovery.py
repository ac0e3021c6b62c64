"""Option discovery: walk, learn a representation, make an option that climbs it, and walk again.
This is the cycle of Machado, Barreto and Precup (2023), which Tse, Chandrasekar and Machado (2025)
follow with the successor (CEO) and the default representation (RACE)."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from drogo.errors import ArgumentError, Count, Share, check_fields
from drogo.learn.settings import seed_list
from drogo.worlds.tabular import TabularWorld
from drogo_paper.agents.options import TabularOption, solve_option
from drogo_paper.agents.representations import AbstractVectors, Memory


@dataclass(frozen=True)
class Cycle:
    """The settings of option discovery."""

    iterations: Count
    steps: Count = 100
    """The number of steps of each walk."""
    p_option: Share = 0.1
    """The probability of starting an option in a step in which none is followed."""
    keep: Count = 1
    """The number of latest options that are kept."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Discovery:
    """The result of `discover`."""

    visited: Float[np.ndarray, "runs times"]
    """The share of visited states, after each step and each reset."""
    reward: Float[np.ndarray, "runs iterations"]
    """The mean reward of the steps of each iteration."""
    options: Sequence[TabularOption]
    """The options of the last iterations, the latest at the end."""
    inaccurate: int


@dataclass(frozen=True, eq=False)
class Iteration:
    """The result of one iteration. A random walk has no vectors and no options."""

    number: int
    memory: Memory
    """The steps so far. Its arrays change later: keep copies of them."""
    vectors: Float[np.ndarray, "runs states"] | None
    option: TabularOption | None


@dataclass
class _Walks:
    """Walks of all runs with random actions and options. Arrays change in place."""

    world: TabularWorld
    p_option: float
    rngs: Sequence[np.random.Generator]
    tried: Bool[np.ndarray, "runs states actions"]
    seen: Bool[np.ndarray, "runs states"]

    def walk(self, steps: int, options: Sequence[TabularOption]) -> tuple[np.ndarray, np.ndarray]:
        """Walks from the start, and returns states and visited shares, one more than steps."""
        runs, states, actions = self.tried.shape
        run, none = np.arange(runs), len(options)
        numbers = np.stack([rng.random((3, steps)) for rng in self.rngs], axis=2)
        does = np.zeros((none + 1, runs, states), dtype=np.int64)
        may = np.zeros((none, runs, states), dtype=bool)
        for k, option in enumerate(options):
            does[k], may[k] = option.action, ~option.ends
        state = np.full(runs, int(self.world.start.argmax()))
        followed = np.full(runs, none)
        self.seen[run, state] = True
        path, shares = [state], [self.seen.mean(axis=1)]
        for begins, which, random in numbers.transpose(1, 0, 2):
            able = may[:, run, state]
            wants = (followed == none) & (begins < self.p_option) & able.any(axis=0)
            counted = able.cumsum(axis=0)
            if wants.any():
                chosen = (counted > np.floor(which * counted[-1])).argmax(axis=0)
                followed = np.where(wants, chosen, followed)
            primitive = np.floor(random * actions).astype(np.int64)
            action = np.where(followed < none, does[followed, run, state], primitive)
            self.tried[run, state, action] = True
            state = self.world.next_state[state, action]
            self.seen[run, state] = True
            path.append(state)
            shares.append(self.seen.mean(axis=1))
            if none:
                over = (followed < none) & ~may[np.minimum(followed, none - 1), run, state]
                followed = np.where(over, none, followed)
        return np.stack(path, axis=1), np.stack(shares, axis=1)


def discover(
    world: TabularWorld,
    vectors: AbstractVectors | None,
    cycle: Cycle,
    *,
    seeds: int | Sequence[int],
    discount: float = 0.99,
    may_end: bool = True,
    watch: Callable[[Iteration], None] | None = None,
) -> Discovery:
    """Discovers options, one in each iteration: a walk from the start with random actions and
    options, after which the next option climbs the updated vectors among the tried actions. Without
    vectors it is a random walk; `may_end=False` is as published."""
    if world.terminal.any() or np.count_nonzero(world.start) != 1:
        raise ArgumentError(
            "discovery needs a world without terminal states, and with one start.", argument="world"
        )
    seeds = seed_list(seeds)
    runs, shape = len(seeds), world.next_state.shape
    rngs = [np.random.default_rng([seed, 1]) for seed in seeds]
    tried, seen = np.zeros((runs, *shape), dtype=bool), np.zeros((runs, shape[0]), dtype=bool)
    walks = _Walks(world, cycle.p_option, rngs, tried, seen)
    options: deque[TabularOption] = deque(maxlen=cycle.keep)
    shares, rewards = [], []
    for number in range(cycle.iterations):
        path, share = walks.walk(cycle.steps, list(options))
        shares.append(share)
        rewards.append(world.reward[path[:, :-1]].mean(axis=1))
        memory, e, option = Memory(world, tried, path[:, :-1], path[:, 1:]), None, None
        if vectors is not None:
            e, problem = vectors.update(memory), {"discount": discount, "may_end": may_end}
            option = solve_option(world.next_state, e, tried=tried, **problem)
            options.append(option)
        if watch is not None:
            watch(Iteration(number + 1, memory, e, option))
    visited, reward = np.concatenate(shares, axis=1), np.stack(rewards, axis=1)
    inaccurate = 0 if vectors is None else vectors.inaccurate
    return Discovery(visited, reward, list(options), inaccurate)
