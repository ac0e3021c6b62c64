"""The steps of Q-learning agents with options: many runs in one compiled program."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from drogo.device import to_device
from drogo.worlds.tabular import TabularWorld
from drogo_paper.agents.training import Training

LIMIT = 100
"""The largest number of steps of an option."""
EQUAL = 1e-4
"""Values that differ by less are equal: they are rounded to single precision."""


class Rules(NamedTuple):
    """The world, and the settings that all runs have."""

    next_state: Int32[Array, "states actions"]
    reward: Float32[Array, " states"]
    """The reward of leaving a state."""
    enters: Float32[Array, " states"]
    """The reward of entering a terminal state, and 0 of other states."""
    terminal: Bool[Array, " states"]
    low: Bool[Array, " states"]
    """States of low reward, whose visits are counted."""
    first: Int32[Array, ""]
    step_size: Float32[Array, ""]
    epsilon: Float32[Array, ""]
    discount: Float32[Array, ""]
    step_limit: Int32[Array, ""]
    limit: Int32[Array, ""]

    @classmethod
    def of(cls, world: TabularWorld, training: Training, step_size: float) -> Rules:
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
    """The choices of all runs: primitive actions, and then options."""

    may: Bool[Array, "runs states choices"]
    """The states where each choice may begin. An option ends where it may not begin."""
    does: Int32[Array, "runs states choices"]
    """The primitive action of each choice."""
    valued: Bool[Array, " runs"]
    """Whether options are chosen for their value."""


class Counters(NamedTuple):
    """Statistics of all runs."""

    steps: Int32[Array, ""]
    arrival: Int32[Array, " runs"]
    """The step of the first arrival at a terminal state, or 0."""
    reward: Float32[Array, " runs"]
    inside: Int32[Array, " runs"]
    low: Int32[Array, " runs"]


class Agents(NamedTuple):
    """Agents of all runs."""

    q: Float32[Array, "runs states choices"]
    tried: Bool[Array, "runs states actions"]
    state: Int32[Array, " runs"]
    time: Int32[Array, " runs"]
    """Steps since the episode began."""
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
    """Returns the values of possible choices in a state, and minus infinity for the others."""
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
