"""Tables learned by temporal differences from random walks, in many independent runs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from drogo.engines.job import Report
from drogo.worlds.grid import GridWorld

BLOCK = 1000
"""Steps whose random numbers are sampled together."""

Table = Float[np.ndarray, "runs states actions features"]
PerRun = Int[np.ndarray, " runs"]


class Step(NamedTuple):
    """One step of every run."""

    state: PerRun
    action: PerRun
    next_state: PerRun
    next_action: PerRun
    number: Float[np.ndarray, " runs"]
    """A uniform random number in [0, 1)."""


Bootstrap = Callable[[Table, Step], PerRun]
"""Returns the actions whose entries in the next states are bootstrapped from."""


def taken(table: Table, step: Step) -> PerRun:
    """Bootstraps from the action that is taken next."""
    return step.next_action


def greedy(table: Table, step: Step) -> PerRun:
    """Bootstraps from the first of the best actions, as Q-learning does with one feature."""
    return table[np.arange(len(table)), step.next_state, :, 0].argmax(axis=1)


def sampled(policy: Float[np.ndarray, "runs states actions"]) -> Bootstrap:
    """Bootstraps from an action of a policy."""
    cumulative = policy.cumsum(axis=2)[:, :, :-1]
    run = np.arange(len(policy))
    return lambda table, step: (step.number[:, None] >= cumulative[run, step.next_state]).sum(1)


def walks(world: GridWorld, rngs: Sequence[np.random.Generator], steps: int) -> Iterator[Step]:
    """Takes uniformly random actions. Episodes begin anywhere, and end in goals or at the limit."""
    runs, actions = len(rngs), world.next_state.shape[1]
    free = np.flatnonzero(~world.terminal)
    state = np.array([rng.choice(free) for rng in rngs])
    action = np.array([rng.integers(actions) for rng in rngs])
    length = np.zeros(runs, dtype=np.int64)
    for done in range(0, steps, BLOCK):
        size = min(BLOCK, steps - done)
        of_runs = [
            (rng.integers(actions, size=size), rng.choice(free, size=size), rng.random(size))
            for rng in rngs
        ]
        blocks = (np.stack(part, axis=1) for part in zip(*of_runs, strict=True))
        for next_action, start, number in zip(*blocks, strict=True):
            next_state = world.next_state[state, action]
            yield Step(state, action, next_state, next_action, number)
            length += 1
            over = world.terminal[next_state] | (length >= world.step_limit)
            state, action = np.where(over, start, next_state), next_action
            length[over] = 0


class Features(NamedTuple):
    """Features of pairs of a state and an action: `cumulant(s) + factor(s) features(s', a')`."""

    cumulant: Float[np.ndarray, "states features"]
    factor: Float[np.ndarray, " states"]
    """A discount, or exp(r/lam)."""


def learn(
    world: GridWorld,
    table: Table,
    rngs: Sequence[np.random.Generator],
    features: Features,
    bootstrap: Bootstrap,
    *,
    step_size: float,
    steps: int,
    report: Report = lambda fraction: None,
) -> Table:
    """Learns features from random walks. Entries of terminal states do not change."""
    table, run = table.copy(), np.arange(len(table))
    for k, step in enumerate(walks(world, rngs, steps)):
        following = table[run, step.next_state, bootstrap(table, step)]
        target = features.cumulant[step.state] + features.factor[step.state, None] * following
        before = table[run, step.state, step.action]
        table[run, step.state, step.action] = before + step_size * (target - before)
        if k % BLOCK == 0:
            report(k / steps)
    return table


def fixed_point(
    world: GridWorld,
    table: Table,
    features: Features,
    policy: Float[np.ndarray, "runs states actions"],
) -> Table:
    """Computes the fixed point of `learn`, if it bootstraps from a policy."""
    cumulant, factor = features
    run, state = np.arange(len(table))[:, None, None], np.arange(world.n_states)[:, None]
    matrix = np.zeros((len(table), world.n_states, world.n_states))
    share = np.where(world.terminal, 0.0, factor)[:, None] * policy
    np.add.at(matrix, (run, state, world.next_state), share)
    constant = np.where(world.terminal[:, None], table[:, :, 0], cumulant)
    values = np.linalg.solve(np.eye(world.n_states) - matrix, constant)
    entries = cumulant[:, None] + factor[:, None, None] * values[:, world.next_state]
    return np.where(world.terminal[:, None, None], table, entries)
