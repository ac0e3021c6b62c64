"""Option discovery: walk, learn a representation, make an option that climbs it, and walk again.

This is the cycle of covering eigenoptions (Machado, Barreto and Precup, 2023), which Tse,
Chandrasekar and Machado (2025) follow with the successor (CEO) and the default representation
(RACE). Many *lanes*, of one seed each, take their steps together; the random numbers of a lane come
from its own generator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from drogo.agents.representations import AbstractVectors, Memory
from drogo.errors import ArgumentError, check_share, check_whole
from drogo.use.options.tabular import TabularOption, solve_option
from drogo.worlds.tabular import TabularWorld


@dataclass(frozen=True, eq=False)
class Discovery:
    """What was seen while options were discovered.

    Args:
        visited: The share of states that were visited, after each step and each reset.
        reward: The mean reward of the steps of each iteration.
        options: The options of the last iterations, the latest at the end.
        inaccurate: How many vectors were not accurate.
    """

    visited: Float[np.ndarray, "lanes moments"]
    reward: Float[np.ndarray, "lanes iterations"]
    options: Sequence[TabularOption]
    inaccurate: int


@dataclass(frozen=True, eq=False)
class Moment:
    """What one iteration of discovery has seen and made.

    Args:
        number: How many iterations are done.
        memory: What was seen so far. Its arrays change later: keep copies of them.
        vectors: What the options climb, or None in a random walk.
        option: The option of each lane, or None in a random walk.
    """

    number: int
    memory: Memory
    vectors: Float[np.ndarray, "lanes states"] | None
    option: TabularOption | None


@dataclass
class _Walks:
    """Walks of all lanes, in which options are followed now and then. Arrays change in place."""

    world: TabularWorld
    p_option: float
    rngs: Sequence[np.random.Generator]
    tried: Bool[np.ndarray, "lanes states actions"]
    seen: Bool[np.ndarray, "lanes states"]

    def walk(self, steps: int, options: Sequence[TabularOption]) -> tuple[np.ndarray, np.ndarray]:
        """Walks from the start, and returns states and shares visited, one more than steps."""
        lanes, states, actions = self.tried.shape
        lane, none = np.arange(lanes), len(options)
        numbers = np.stack([rng.random((3, steps)) for rng in self.rngs], axis=2)
        does = np.zeros((none + 1, lanes, states), dtype=np.int64)
        may = np.zeros((none, lanes, states), dtype=bool)
        for k, option in enumerate(options):
            does[k], may[k] = option.action, ~option.ends
        state = np.full(lanes, int(self.world.start.argmax()))
        followed = np.full(lanes, none)
        self.seen[lane, state] = True
        path, shares = [state], [self.seen.mean(axis=1)]
        for begins, which, random in numbers.transpose(1, 0, 2):
            able = may[:, lane, state]
            wants = (followed == none) & (begins < self.p_option) & able.any(axis=0)
            counted = able.cumsum(axis=0)
            if wants.any():
                chosen = (counted > np.floor(which * counted[-1])).argmax(axis=0)
                followed = np.where(wants, chosen, followed)
            primitive = np.floor(random * actions).astype(np.int64)
            action = np.where(followed < none, does[followed, lane, state], primitive)
            self.tried[lane, state, action] = True
            state = self.world.next_state[state, action]
            self.seen[lane, state] = True
            path.append(state)
            shares.append(self.seen.mean(axis=1))
            if none:
                over = (followed < none) & ~may[np.minimum(followed, none - 1), lane, state]
                followed = np.where(over, none, followed)
        return np.stack(path, axis=1), np.stack(shares, axis=1)


def discover(
    world: TabularWorld,
    vectors: AbstractVectors | None,
    *,
    seeds: Sequence[int],
    iterations: int,
    steps: int = 100,
    p_option: float = 0.1,
    keep: int = 1,
    discount: float = 0.99,
    may_end: bool = True,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[Moment], None] | None = None,
) -> Discovery:
    """Discovers options, one in each iteration.

    An iteration walks from the start: random actions, and with probability `p_option` an option
    that may begin there, until it ends. Then the vectors are brought up to date, and the option
    that climbs each is solved exactly in the part of the world that was tried.

    Args:
        world: The world, without terminal states, and with one first state.
        vectors: What gives the vectors, such as `LearnedDefault`; None is a random walk.
        seeds: The seed of each lane.
        iterations: How many iterations there are.
        steps: How many steps each walk has.
        p_option: How likely an option is begun in each step in which none is followed.
        keep: How many options are kept. The oldest is forgotten first.
        discount: The discount of the options' own problems.
        may_end: As in `solve_option`; False is as published.
        progress: Called with the number of iterations that are done.
        watch: Called with what each iteration has seen and made.

    Returns:
        What was seen.
    """
    if world.terminal.any() or np.count_nonzero(world.start) != 1:
        raise ArgumentError("discovery needs a world without terminal states, and with one start.")
    check_whole("iterations", iterations, 1)
    check_whole("steps", steps, 1)
    lanes, shape = len(seeds), world.next_state.shape
    rngs = [np.random.default_rng([seed, 1]) for seed in seeds]
    tried, seen = np.zeros((lanes, *shape), dtype=bool), np.zeros((lanes, shape[0]), dtype=bool)
    walks = _Walks(world, check_share("p_option", p_option), rngs, tried, seen)
    options: deque[TabularOption] = deque(maxlen=check_whole("keep", keep, 1))
    shares, rewards = [], []
    for number in range(iterations):
        path, share = walks.walk(steps, list(options))
        shares.append(share)
        rewards.append(world.reward[path[:, :-1]].mean(axis=1))
        memory, e, option = Memory(world, tried, path[:, :-1], path[:, 1:]), None, None
        if vectors is not None:
            e = vectors.update(memory)
            option = solve_option(
                world.next_state, e, discount=discount, tried=tried, may_end=may_end
            )
            options.append(option)
        if watch is not None:
            watch(Moment(number + 1, memory, e, option))
        if progress is not None:
            progress(number + 1)
    inaccurate = 0 if vectors is None else vectors.inaccurate
    return Discovery(
        np.concatenate(shares, axis=1), np.stack(rewards, axis=1), list(options), inaccurate
    )
