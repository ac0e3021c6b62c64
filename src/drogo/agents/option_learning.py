"""Tabular Q-learning with options as further actions, which may be discovered on the way.

All steps count, those inside options too. A step changes the value of the primitive action that was
taken, inside options too, and an option that is over changes its own value, discounted by how long
it took (Sutton, Precup and Singh, 1999). Many *lanes*, one for each seed of each kind of agent,
take their steps together. Kinds of agents see the same random numbers, seed by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from drogo.agents.option_steps import Agents, Offered, Rules, advance, first_agents
from drogo.agents.q_learning import Runs
from drogo.agents.representations import AbstractVectors, Memory
from drogo.agents.value_iteration import optimal_values
from drogo.device import to_device
from drogo.errors import ArgumentError, check_number, check_share, check_whole
from drogo.use.options.policies import sum_along
from drogo.use.options.tabular import TabularOption, solve_option
from drogo.worlds.tabular import TabularWorld


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of agent: which options it has. Without any it is plain Q-learning.

    Args:
        options: Options that are there from the beginning, of one lane each.
        vectors: What gives the vectors that discovered options climb, such as `LearnedDefault`.
        valued: Whether options are chosen for their value. Without, they are only tried at random,
            and nothing follows from their values.
    """

    options: Sequence[TabularOption] = ()
    vectors: AbstractVectors | None = None
    valued: bool = True


@dataclass(frozen=True, eq=False)
class OptionRuns:
    """What became of the agents of one kind.

    Args:
        runs: Learning curves: returns of the best primitive actions, from the start. Of equal
            ones the first is taken, where `q_learning` takes one at random.
        arrival: How many steps it took to arrive at a terminal state for the first time, or inf.
        reward: The mean reward of all steps.
        inside: The share of steps that were taken inside options.
    """

    runs: Runs
    arrival: Float[np.ndarray, " seeds"]
    reward: Float[np.ndarray, " seeds"]
    inside: Float[np.ndarray, " seeds"]


def learn_with_options(
    world: TabularWorld,
    kinds: Mapping[str, Kind],
    *,
    seeds: Sequence[int],
    steps: int,
    step_limit: int,
    discoveries: int = 0,
    initial: float = 0.0,
    step_size: float = 0.3,
    epsilon: float = 0.05,
    discount: float = 0.99,
    limit: int = 100,
    every: int = 100,
    progress: Callable[[int], None] | None = None,
) -> dict[str, OptionRuns]:
    """Trains Q-learning agents that have options beside their primitive actions.

    The agent takes a random choice with probability epsilon, among primitive actions and options
    that may begin, and otherwise the best, at random if there are several. In a terminal state it
    spends a step on going back to the start. An agent that discovers options has one, which is made
    anew after every `every` steps from its own steps; for its vectors, a terminal state is a plain
    cell that leads to the start. A new option is believed to be as good as the best primitive
    action.

    Args:
        world: The world, with one first state.
        kinds: The kinds of agents, by name.
        seeds: The seeds. Each kind has a lane for each.
        steps: How many steps there are, those inside options counted.
        step_limit: After how many steps an episode is cut.
        discoveries: How many options are discovered. The last one stays.
        initial: The first value of everything. Where rewards are negative, 0 is hopeful: what was
            not tried looks best.
        step_size: The step size.
        epsilon: How likely a random choice is.
        discount: The discount of the agents, and of the options' own problems.
        limit: How many steps an option may take.
        every: How many steps there are between evaluations, and between discoveries.
        progress: Called with the number of evaluations that are done.

    Returns:
        What became of the agents, by kind.
    """
    if np.count_nonzero(world.start) != 1 or not world.terminal.any():
        raise ArgumentError("agents with options need a world with one start, and terminal states.")
    for name, count in (("steps", steps), ("every", every), ("step_limit", step_limit),
                        ("limit", limit), ("discoveries", discoveries)):  # fmt: skip
        check_whole(name, count, 0 if name == "discoveries" else 1)
    rules = Rules.of(
        world, step_size=check_share("step_size", step_size),
        epsilon=check_share("epsilon", epsilon), discount=check_share("discount", discount),
        step_limit=step_limit, limit=limit,
    )  # fmt: skip
    groups = {name: slice(k * len(seeds), (k + 1) * len(seeds)) for k, name in enumerate(kinds)}
    offered = _first_offers(world, kinds, groups, len(seeds))
    agents = first_agents(rules, offered, check_number("initial", initial))
    rngs = [np.random.default_rng([seed, 2]) for seed in seeds]
    plain, best_return = _plain(world), optimal_values(world.mdp)[int(rules.first)]
    evaluated = []
    for number in range(steps // every):
        numbers = np.stack([rng.random((2, every), np.float32) for rng in rngs], axis=2)
        numbers = np.tile(numbers.transpose(1, 0, 2), (1, 1, len(kinds)))
        agents, left, led = advance(rules, offered, agents, to_device(numbers))
        evaluated.append(_greedy_episodes(world, np.asarray(agents.q), step_limit))
        if number < discoveries:
            tried, path = np.array(agents.tried), (np.asarray(left).T, np.asarray(led).T)
            for name, kind in kinds.items():
                if kind.vectors is not None:
                    lanes = groups[name]
                    memory = Memory(plain, tried[lanes], *(part[lanes] for part in path))
                    found = solve_option(
                        plain.next_state, kind.vectors.update(memory), discount=discount,
                        tried=tried[lanes],
                    )  # fmt: skip
                    offered, agents = _offer(world, offered, agents, lanes, found)
        if progress is not None:
            progress(number + 1)
    curves = [np.stack(part, axis=1) for part in zip(*evaluated, strict=True)]
    return {name: _runs(agents, curves, best_return, every, groups[name]) for name in kinds}


def _first_offers(
    world: TabularWorld, kinds: Mapping[str, Kind], groups: Mapping[str, slice], seeds: int
) -> Offered:
    """Returns what each lane may choose: primitive actions, and then its options."""
    states, actions = world.next_state.shape
    slots = max(len(kind.options) + (kind.vectors is not None) for kind in kinds.values())
    does = np.tile(np.arange(actions + slots, dtype=np.int32), (len(kinds) * seeds, states, 1))
    may = np.zeros(does.shape, dtype=bool)
    may[..., :actions] = True
    does[..., actions:] = 0
    valued = np.zeros(len(kinds) * seeds, dtype=bool)
    for name, kind in kinds.items():
        lanes = groups[name]
        valued[lanes] = kind.valued
        # The last slot is that of what is discovered.
        for k, option in enumerate(kind.options):
            does[lanes, :, actions + k] = option.action
            may[lanes, :, actions + k] = ~option.ends & ~world.terminal
    return Offered(to_device(may), to_device(does), to_device(valued))


def _offer(
    world: TabularWorld, offered: Offered, agents: Agents, lanes: slice, option: TabularOption
) -> tuple[Offered, Agents]:
    """Puts a new option into the last slot of some lanes. What is followed there is over."""
    actions = world.next_state.shape[1]
    last = offered.may.shape[2] - 1
    over = agents.over.at[lanes].set(agents.over[lanes] | (agents.chosen[lanes] == last))
    best = agents.q[lanes, :, :actions].max(axis=2)
    may = offered.may.at[lanes, :, last].set(~option.ends & ~world.terminal)
    does = offered.does.at[lanes, :, last].set(option.action.astype(np.int32))
    agents = agents._replace(over=over, q=agents.q.at[lanes, :, last].set(best))
    return offered._replace(may=may, does=does), agents


def _greedy_episodes(
    world: TabularWorld, q: np.ndarray, steps: int
) -> tuple[Float[np.ndarray, " lanes"], Bool[np.ndarray, " lanes"]]:
    """The return of the best primitive actions, from the start, in at most so many steps, and
    whether they end in a terminal state."""
    states, actions = world.next_state.shape
    after = world.next_state[np.arange(states), q[..., :actions].argmax(axis=2)]
    entered = np.where(world.terminal, world.reward, 0.0)[after]
    gain = np.where(world.terminal, 0.0, world.reward + entered)
    lane, total = np.arange(len(q)), np.zeros(len(q))
    state = np.full(len(q), int(world.start.argmax()))
    while steps:  # the powers of two that it is the sum of
        doublings = steps.bit_length() - 1
        along, reached = sum_along(after, gain, 1.0, doublings)
        total += along[lane, state]
        state = reached[lane, state]
        steps -= 2**doublings
    return total, world.terminal[state]


def _runs(
    agents: Agents, curves: list[np.ndarray], best: float, every: int, lanes: slice
) -> OptionRuns:
    """Returns what became of some lanes."""
    returns, arrived = (part[lanes] for part in curves)
    seen = agents.seen
    runs = Runs(
        returns, arrived, np.full(returns.shape, best), every, np.asarray(seen.low[lanes]),
        np.asarray(agents.q[lanes]),
    )  # fmt: skip
    arrival = np.asarray(seen.arrival[lanes], dtype=np.float64)
    arrival = np.where(arrival > 0, arrival, np.inf)
    steps = every * returns.shape[1]
    reward = np.asarray(seen.reward[lanes], dtype=np.float64) / steps
    return OptionRuns(runs, arrival, reward, np.asarray(seen.inside[lanes]) / steps)


def _plain(world: TabularWorld) -> TabularWorld:
    """Returns the world with plain cells for terminal states, which lead to themselves."""
    plain = float(world.reward[~world.terminal].max())
    reward = np.where(world.terminal, plain, world.reward)
    return TabularWorld(
        world.next_state, reward, np.zeros_like(world.terminal), world.start, world.states
    )
