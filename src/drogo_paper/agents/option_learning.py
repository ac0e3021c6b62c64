"""Tabular Q-learning with options as further actions (Sutton, Precup and Singh, 1999), which may be
discovered during training. All kinds of agents see the same random numbers, seed by seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32

from drogo.device import to_device
from drogo.errors import ArgumentError, check_number, check_share, check_whole
from drogo.learn.settings import seed_list
from drogo.worlds.tabular import TabularWorld
from drogo_paper.agents.options import TabularOption, solve_option, sum_along
from drogo_paper.agents.q_learning import Runs, optimal_values
from drogo_paper.agents.representations import AbstractVectors, Memory
from drogo_paper.agents.training import Training

LIMIT = 100
"""The largest number of steps of an option."""
EQUAL = 1e-4
"""Values that differ by less are equal: they are rounded to single precision."""


class Rules(NamedTuple):
    next_state: Int32[Array, "states actions"]
    reward: Float32[Array, " states"]
    enters: Float32[Array, " states"]
    """The reward of entering a terminal state, and 0 of other states."""
    terminal: Bool[Array, " states"]
    low: Bool[Array, " states"]
    first: Int32[Array, ""]
    step_size: Float32[Array, ""]
    epsilon: Float32[Array, ""]
    discount: Float32[Array, ""]
    step_limit: Int32[Array, ""]
    limit: Int32[Array, ""]

    @classmethod
    def of(cls, world: TabularWorld, training: Training, step_size: float) -> "Rules":
        terminal = world.terminal
        return cls(
            next_state=to_device(world.next_state, jnp.int32),
            reward=to_device(np.where(terminal, 0.0, world.reward), jnp.float32),
            enters=to_device(np.where(terminal, world.reward, 0.0), jnp.float32),
            terminal=to_device(terminal),
            low=to_device(~terminal & (world.reward < world.reward[~terminal].max())),
            first=jnp.int32(world.start.argmax()),
            step_size=jnp.float32(step_size),
            epsilon=jnp.float32(training.epsilon),
            discount=jnp.float32(training.discount),
            step_limit=jnp.int32(training.step_limit),
            limit=jnp.int32(LIMIT),
        )


class Offered(NamedTuple):
    may: Bool[Array, "runs states choices"]
    """The states where each choice may begin. An option ends where it may not begin."""
    does: Int32[Array, "runs states choices"]
    """The primitive action of each choice."""
    valued: Bool[Array, " runs"]
    """Whether options are chosen for their value."""


class Counters(NamedTuple):
    steps: Int32[Array, ""]
    arrival: Int32[Array, " runs"]
    """The step of the first arrival at a terminal state, or 0."""
    reward: Float32[Array, " runs"]
    inside: Int32[Array, " runs"]
    low: Int32[Array, " runs"]


class Agents(NamedTuple):
    q: Float32[Array, "runs states choices"]
    tried: Bool[Array, "runs states actions"]
    state: Int32[Array, " runs"]
    time: Int32[Array, " runs"]
    over: Bool[Array, " runs"]
    """Whether the next step makes a new choice."""
    chosen: Int32[Array, " runs"]
    began: Int32[Array, " runs"]
    """The state of the choice, its return so far, and the discount of the next reward."""
    earned: Float32[Array, " runs"]
    worth: Float32[Array, " runs"]
    length: Int32[Array, " runs"]
    counters: Counters


def first_agents(rules: Rules, offered: Offered, initial: float = 0.0) -> Agents:
    """Returns agents before their first step, whose values are all the same."""
    runs, states, choices = offered.may.shape
    none, zero = jnp.zeros(runs, jnp.int32), jnp.zeros(runs, jnp.float32)
    return Agents(
        q=jnp.full((runs, states, choices), initial, jnp.float32),
        tried=jnp.zeros((runs, *rules.next_state.shape), bool),
        state=jnp.full(runs, rules.first),
        time=none, over=jnp.ones(runs, bool), chosen=none, began=none, earned=zero,
        worth=zero, length=none, counters=Counters(jnp.int32(0), none, zero, none, none),
    )  # fmt: skip


@jax.jit
def advance(
    rules: Rules, offered: Offered, agents: Agents, numbers: Float32[Array, "steps 2 runs"]
) -> tuple[Agents, Int32[Array, "steps runs"], Int32[Array, "steps runs"]]:
    """Takes some steps, and returns the states that were left and those that were reached."""

    def one(agents: Agents, pair: Array) -> tuple[Agents, tuple[Array, Array]]:
        after = _step(rules, offered, agents, pair)
        return after[0], (agents.state, after[1])

    agents, (left, led) = jax.lax.scan(one, agents, numbers)
    return agents, left, led


def _values(rules: Rules, offered: Offered, q: Array, state: Array) -> Array:
    run = jnp.arange(len(state))
    primitive = jnp.arange(q.shape[2]) < rules.next_state.shape[1]
    counts = offered.may[run, state] & (primitive[None, :] | offered.valued[:, None])
    return jnp.where(counts, q[run, state], -jnp.inf)


def _step(
    rules: Rules, offered: Offered, agents: Agents, numbers: Float32[Array, "2 runs"]
) -> tuple[Agents, Array]:
    """Takes one step, and returns the state that it reached."""
    run, before = jnp.arange(len(agents.state)), agents.state
    actions, at_terminal = rules.next_state.shape[1], rules.terminal[before]
    explore, which = numbers
    values = _values(rules, offered, agents.q, before)
    is_best = values >= jnp.max(values, axis=1, keepdims=True) - EQUAL
    among = jnp.where((explore < rules.epsilon)[:, None], offered.may[run, before], is_best)
    counted = jnp.cumsum(among, axis=1, dtype=jnp.int32)
    rank = jnp.floor(which * counted[:, -1].astype(jnp.float32)).astype(jnp.int32)
    wanted = jnp.argmax(counted > rank[:, None], axis=1).astype(jnp.int32)
    new = agents.over
    chosen = jnp.where(new, wanted, agents.chosen)
    began = jnp.where(new, before, agents.began)
    is_option = chosen >= actions
    action = offered.does[run, before, chosen]
    after = jnp.where(at_terminal, rules.first, rules.next_state[before, action])
    arrived = rules.terminal[after]
    reward = jnp.where(at_terminal, 0.0, rules.reward[before] + rules.enters[after])
    worth_before = jnp.where(new, 1.0, agents.worth)
    earned = jnp.where(new, 0.0, agents.earned) + worth_before * reward
    worth, length = worth_before * rules.discount, jnp.where(new, 0, agents.length) + 1
    ahead = jnp.max(_values(rules, offered, agents.q, after), axis=1)
    ahead = jnp.where(arrived, 0.0, ahead)
    error = reward + rules.discount * ahead - agents.q[run, before, action]
    q = agents.q.at[run, before, action].add(jnp.where(at_terminal, 0.0, rules.step_size * error))
    ends = ~offered.may[run, after, chosen] | arrived | (length >= rules.limit)
    learns = is_option & ends & ~at_terminal
    error = earned + worth * ahead - q[run, began, chosen]
    q = q.at[run, began, chosen].add(jnp.where(learns, rules.step_size * error, 0.0))
    time = jnp.where(at_terminal, 0, agents.time + 1)
    cut = (time >= rules.step_limit) & ~arrived
    tried = agents.tried.at[run, before, action].set(True)
    tried = tried.at[run, before].max(at_terminal[:, None])  # terminal states have nothing to try
    counters, steps = agents.counters, agents.counters.steps + 1
    return Agents(
        q=q, tried=tried, state=jnp.where(cut, rules.first, after), time=jnp.where(cut, 0, time),
        over=~is_option | ends | at_terminal | cut, chosen=chosen, began=began, earned=earned,
        worth=worth, length=length,
        counters=Counters(
            steps, jnp.where(arrived & (counters.arrival == 0), steps, counters.arrival),
            counters.reward + reward,
            counters.inside + (is_option & ~at_terminal).astype(jnp.int32),
            counters.low + rules.low[before].astype(jnp.int32),
        ),
    ), after  # fmt: skip


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of agent: with options that are given, with vectors that discovered options climb, or
    with neither. Options that are not `valued` are only explored."""

    options: Sequence[TabularOption] = ()
    vectors: AbstractVectors | None = None
    valued: bool = True


@dataclass(frozen=True, eq=False)
class OptionRuns:
    runs: Runs
    """Learning curves of the greedy primitive actions; ties go to the first action."""
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
    seeds: int | Sequence[int],
    step_size: float = 0.3,
    discoveries: int = 0,
    initial: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> dict[str, OptionRuns]:
    """Trains Q-learning agents that have options beside their primitive actions. In a terminal
    state an agent spends a step on returning to the start. A discovered option is replaced at every
    evaluation up to `discoveries`, and begins with the value of the best primitive action."""
    if np.count_nonzero(world.start) != 1 or not world.terminal.any():
        problem = "agents with options need a world with one start, and terminal states."
        raise ArgumentError(problem, argument="world")
    check_whole("discoveries", discoveries, 0)
    seeds = seed_list(seeds)
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
    """Returns the return of greedy primitive actions, and whether they arrive."""
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
