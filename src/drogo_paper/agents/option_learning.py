"""Tabular Q-learning with options as further actions, which may be discovered during training.

All steps count, also those inside options. Each step updates the value of its primitive action, and
an option that ends updates its own value, with the discount of its length (Sutton, Precup and
Singh, 1999). Many runs, one for each seed of each kind of agent, take their steps together. All
kinds of agents see the same random numbers, seed by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from drogo.device import to_device
from drogo.errors import ArgumentError, check_number, check_share, check_whole
from drogo.worlds.tabular import TabularWorld
from drogo_paper.agents.option_steps import Agents, Offered, Rules, advance, first_agents
from drogo_paper.agents.options import TabularOption, solve_option, sum_along
from drogo_paper.agents.q_learning import Runs
from drogo_paper.agents.representations import AbstractVectors, Memory
from drogo_paper.agents.training import Training
from drogo_paper.agents.value_iteration import optimal_values


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of agent, by its options. Without any it is plain Q-learning.

    Args:
        options: Options that are given beforehand, each of one run.
        vectors: The representation that discovered options climb, such as `LearnedDefault`.
        valued: Whether options are chosen for their value. Otherwise they are only explored.
    """

    options: Sequence[TabularOption] = ()
    vectors: AbstractVectors | None = None
    valued: bool = True


@dataclass(frozen=True, eq=False)
class OptionRuns:
    """Evaluation results of the agents of one kind."""

    runs: Runs
    """Learning curves: returns of the greedy primitive actions, from the start. Ties go to the
    first action, where `q_learning` breaks them at random."""
    arrival: Float[np.ndarray, " seeds"]
    """The number of steps until the first terminal state, or inf."""
    reward: Float[np.ndarray, " seeds"]
    """The mean reward of all steps."""
    inside: Float[np.ndarray, " seeds"]
    """The share of steps inside options."""


def learn_with_options(
    world: TabularWorld,
    kinds: Mapping[str, Kind],
    training: Training,
    *,
    seeds: Sequence[int],
    step_size: float = 0.3,
    discoveries: int = 0,
    initial: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> dict[str, OptionRuns]:
    """Trains Q-learning agents that have options beside their primitive actions.

    With probability epsilon the agent chooses at random among primitive actions and options that
    may begin, and otherwise greedily, with ties broken at random. In a terminal state it spends a
    step on returning to the start. An agent that discovers options has one, which is replaced at
    every evaluation; for its representation, a terminal state is a plain cell that leads to the
    start. The initial value of a new option is that of the best primitive action.

    Args:
        world: The world, with one first state.
        kinds: The kinds of agents, by name.
        training: The settings that all runs share. Steps inside options count, and the discount is
            also that of the options' own problems. States of low reward follow from the world.
        seeds: The seeds. Each kind has a run for each.
        step_size: The step size.
        discoveries: The number of discovered options. The last one stays.
        initial: The initial values. Where rewards are negative, 0 is optimistic.
        progress: Called with the number of evaluations that are done.
    """
    if np.count_nonzero(world.start) != 1 or not world.terminal.any():
        raise ArgumentError(
            "agents with options need a world with one start, and terminal states.",
            argument="world",
        )
    check_whole("discoveries", discoveries, 0)
    rules = Rules.of(world, training, check_share("step_size", step_size))
    groups = {name: slice(k * len(seeds), (k + 1) * len(seeds)) for k, name in enumerate(kinds)}
    offered = _first_offers(world, kinds, groups, len(seeds))
    agents = first_agents(rules, offered, check_number("initial", initial))
    rngs = [np.random.default_rng([seed, 2]) for seed in seeds]
    plain, best_return = _plain(world), optimal_values(world.mdp)[int(rules.first)]
    evaluated = []
    for number in range(training.evaluations):
        numbers = np.stack([rng.random((2, training.every), np.float32) for rng in rngs], axis=2)
        numbers = np.tile(numbers.transpose(1, 0, 2), (1, 1, len(kinds)))
        agents, left, led = advance(rules, offered, agents, to_device(numbers))
        evaluated.append(_greedy_episodes(world, np.asarray(agents.q), training.step_limit))
        if number < discoveries:
            memory = Memory(plain, np.array(agents.tried), np.asarray(left).T, np.asarray(led).T)
            for name, kind in kinds.items():
                if kind.vectors is not None:
                    option = _discover(memory, groups[name], kind.vectors, training.discount)
                    offered, agents = _offer(world, offered, agents, groups[name], option)
        if progress is not None:
            progress(number + 1)
    curves = [np.stack(part, axis=1) for part in zip(*evaluated, strict=True)]
    return {
        name: _runs(agents, curves, best_return, training.every, groups[name]) for name in kinds
    }


def _first_offers(
    world: TabularWorld, kinds: Mapping[str, Kind], groups: Mapping[str, slice], seeds: int
) -> Offered:
    """Returns the choices of each run: primitive actions, and then its options."""
    states, actions = world.next_state.shape
    slots = max(len(kind.options) + (kind.vectors is not None) for kind in kinds.values())
    does = np.tile(np.arange(actions + slots, dtype=np.int32), (len(kinds) * seeds, states, 1))
    may = np.zeros(does.shape, dtype=bool)
    may[..., :actions] = True
    does[..., actions:] = 0
    valued = np.zeros(len(kinds) * seeds, dtype=bool)
    for name, kind in kinds.items():
        rows = groups[name]
        valued[rows] = kind.valued
        # The last slot belongs to the discovered option.
        for k, option in enumerate(kind.options):
            does[rows, :, actions + k] = option.action
            may[rows, :, actions + k] = ~option.ends & ~world.terminal
    return Offered(to_device(may), to_device(does), to_device(valued))


def _discover(
    memory: Memory, rows: slice, vectors: AbstractVectors, discount: float
) -> TabularOption:
    """Returns the options of some runs that climb their vectors."""
    tried, world = memory.tried[rows], memory.world
    of_rows = Memory(world, tried, memory.state[rows], memory.next_state[rows])
    return solve_option(world.next_state, vectors.update(of_rows), discount=discount, tried=tried)


def _offer(
    world: TabularWorld, offered: Offered, agents: Agents, rows: slice, option: TabularOption
) -> tuple[Offered, Agents]:
    """Puts a new option into the last slot of some runs, whose present option there ends."""
    actions = world.next_state.shape[1]
    last = offered.may.shape[2] - 1
    over = agents.over.at[rows].set(agents.over[rows] | (agents.chosen[rows] == last))
    best = agents.q[rows, :, :actions].max(axis=2)
    may = offered.may.at[rows, :, last].set(~option.ends & ~world.terminal)
    does = offered.does.at[rows, :, last].set(option.action.astype(np.int32))
    agents = agents._replace(over=over, q=agents.q.at[rows, :, last].set(best))
    return offered._replace(may=may, does=does), agents


def _greedy_episodes(
    world: TabularWorld, q: np.ndarray, steps: int
) -> tuple[Float[np.ndarray, " runs"], Bool[np.ndarray, " runs"]]:
    """Returns the return of the greedy primitive actions within some steps from the start, and
    whether they reach a terminal state."""
    states, actions = world.next_state.shape
    after = world.next_state[np.arange(states), q[..., :actions].argmax(axis=2)]
    entered = np.where(world.terminal, world.reward, 0.0)[after]
    gain = np.where(world.terminal, 0.0, world.reward + entered)
    run, total = np.arange(len(q)), np.zeros(len(q))
    state = np.full(len(q), int(world.start.argmax()))
    while steps:  # in powers of two
        doublings = steps.bit_length() - 1
        along, reached = sum_along(after, gain, 1.0, doublings)
        total += along[run, state]
        state = reached[run, state]
        steps -= 2**doublings
    return total, world.terminal[state]


def _runs(
    agents: Agents, curves: list[np.ndarray], best: float, every: int, rows: slice
) -> OptionRuns:
    """Returns the evaluation results of some runs."""
    returns, arrived = (part[rows] for part in curves)
    counters = agents.counters
    runs = Runs(
        returns, arrived, np.full(returns.shape, best), every, np.asarray(counters.low[rows]),
        np.asarray(agents.q[rows]),
    )  # fmt: skip
    arrival = np.asarray(counters.arrival[rows], dtype=np.float64)
    arrival = np.where(arrival > 0, arrival, np.inf)
    steps = every * returns.shape[1]
    reward = np.asarray(counters.reward[rows], dtype=np.float64) / steps
    return OptionRuns(runs, arrival, reward, np.asarray(counters.inside[rows]) / steps)


def _plain(world: TabularWorld) -> TabularWorld:
    """Returns the world with plain cells for terminal states, which lead to themselves."""
    plain = float(world.reward[~world.terminal].max())
    reward = np.where(world.terminal, plain, world.reward)
    return TabularWorld(
        world.next_state, reward, np.zeros_like(world.terminal), world.start, world.states
    )
