"""The steps of Q-learning agents with options, of many lanes in one compiled program."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from drogo.device import to_device
from drogo.worlds.tabular import TabularWorld

EQUAL = 1e-4
"""Values that differ by less are equal: they are rounded to single precision."""


class Rules(NamedTuple):
    """The world, and the settings that all lanes have."""

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
    def of(
        cls,
        world: TabularWorld,
        *,
        step_size: float,
        epsilon: float,
        discount: float,
        step_limit: int,
        limit: int,
    ) -> Rules:
        """Returns the rules of a world, with some settings."""
        ends = world.terminal
        return cls(
            next_state=to_device(world.next_state, jnp.int32),
            reward=to_device(np.where(ends, 0.0, world.reward), jnp.float32),
            enters=to_device(np.where(ends, world.reward, 0.0), jnp.float32),
            terminal=to_device(ends),
            low=to_device(~ends & (world.reward < world.reward[~ends].max())),
            first=jnp.int32(world.start.argmax()),
            step_size=jnp.float32(step_size),
            epsilon=jnp.float32(epsilon),
            discount=jnp.float32(discount),
            step_limit=jnp.int32(step_limit),
            limit=jnp.int32(limit),
        )


class Offered(NamedTuple):
    """What lanes may choose: primitive actions, and then options."""

    may: Bool[Array, "lanes states choices"]
    """Where each choice may begin. An option is over where it may not begin."""
    does: Int32[Array, "lanes states choices"]
    """The primitive action of each choice."""
    valued: Bool[Array, " lanes"]
    """Whether options are chosen for their value."""


class Seen(NamedTuple):
    """What is counted."""

    steps: Int32[Array, ""]
    arrival: Int32[Array, " lanes"]
    """The step of the first arrival at a terminal state, or 0."""
    reward: Float32[Array, " lanes"]
    inside: Int32[Array, " lanes"]
    low: Int32[Array, " lanes"]


class Agents(NamedTuple):
    """Agents of all lanes."""

    q: Float32[Array, "lanes states choices"]
    tried: Bool[Array, "lanes states actions"]
    state: Int32[Array, " lanes"]
    time: Int32[Array, " lanes"]
    """Steps since the episode began."""
    over: Bool[Array, " lanes"]
    """Whether there is a new choice to be made."""
    chosen: Int32[Array, " lanes"]
    began: Int32[Array, " lanes"]
    """Where the choice was made; what was earned since, discounted; and what the next is worth."""
    earned: Float32[Array, " lanes"]
    worth: Float32[Array, " lanes"]
    length: Int32[Array, " lanes"]
    seen: Seen


def first_agents(rules: Rules, offered: Offered, initial: float = 0.0) -> Agents:
    """Returns agents before their first step, who give everything the same value."""
    lanes, states, choices = offered.may.shape
    none, zero = jnp.zeros(lanes, jnp.int32), jnp.zeros(lanes, jnp.float32)
    return Agents(
        q=jnp.full((lanes, states, choices), initial, jnp.float32),
        tried=jnp.zeros((lanes, *rules.next_state.shape), bool),
        state=jnp.full(lanes, rules.first),
        time=none, over=jnp.ones(lanes, bool), chosen=none, began=none, earned=zero,
        worth=zero, length=none, seen=Seen(jnp.int32(0), none, zero, none, none),
    )  # fmt: skip


@jax.jit
def advance(
    rules: Rules, offered: Offered, agents: Agents, numbers: Float32[Array, "steps 2 lanes"]
) -> tuple[Agents, Int32[Array, "steps lanes"], Int32[Array, "steps lanes"]]:
    """Takes some steps, and returns which states were left, and where that led."""

    def one(agents: Agents, pair: Array) -> tuple[Agents, tuple[Array, Array]]:
        after = _step(rules, offered, agents, pair)
        return after[0], (agents.state, after[1])

    agents, (left, led) = jax.lax.scan(one, agents, numbers)
    return agents, left, led


def _values(rules: Rules, offered: Offered, q: Array, state: Array) -> Array:
    """The values of what is possible in a state, minus infinity of the rest."""
    lane = jnp.arange(len(state))
    primitive = jnp.arange(q.shape[2]) < rules.next_state.shape[1]
    counts = offered.may[lane, state] & (primitive[None, :] | offered.valued[:, None])
    return jnp.where(counts, q[lane, state], -jnp.inf)


def _step(
    rules: Rules, offered: Offered, agents: Agents, numbers: Float32[Array, "2 lanes"]
) -> tuple[Agents, Array]:
    """Takes one step, and returns where it led."""
    lane, before = jnp.arange(len(agents.state)), agents.state
    actions, at_end = rules.next_state.shape[1], rules.terminal[before]
    explore, which = numbers
    values = _values(rules, offered, agents.q, before)
    is_best = values >= jnp.max(values, axis=1, keepdims=True) - EQUAL
    among = jnp.where((explore < rules.epsilon)[:, None], offered.may[lane, before], is_best)
    counted = jnp.cumsum(among, axis=1, dtype=jnp.int32)
    rank = jnp.floor(which * counted[:, -1].astype(jnp.float32)).astype(jnp.int32)
    wanted = jnp.argmax(counted > rank[:, None], axis=1).astype(jnp.int32)
    new = agents.over
    chosen = jnp.where(new, wanted, agents.chosen)
    began = jnp.where(new, before, agents.began)
    is_option = chosen >= actions
    action = offered.does[lane, before, chosen]
    after = jnp.where(at_end, rules.first, rules.next_state[before, action])
    arrived = rules.terminal[after]
    reward = jnp.where(at_end, 0.0, rules.reward[before] + rules.enters[after])
    worth_before = jnp.where(new, 1.0, agents.worth)
    earned = jnp.where(new, 0.0, agents.earned) + worth_before * reward
    worth, length = worth_before * rules.discount, jnp.where(new, 0, agents.length) + 1
    ahead = jnp.max(_values(rules, offered, agents.q, after), axis=1)
    ahead = jnp.where(arrived, 0.0, ahead)
    error = reward + rules.discount * ahead - agents.q[lane, before, action]
    q = agents.q.at[lane, before, action].add(jnp.where(at_end, 0.0, rules.step_size * error))
    ends = ~offered.may[lane, after, chosen] | arrived | (length >= rules.limit)
    learns = is_option & ends & ~at_end
    error = earned + worth * ahead - q[lane, began, chosen]
    q = q.at[lane, began, chosen].add(jnp.where(learns, rules.step_size * error, 0.0))
    time = jnp.where(at_end, 0, agents.time + 1)
    cut = (time >= rules.step_limit) & ~arrived
    tried = agents.tried.at[lane, before, action].set(True)
    tried = tried.at[lane, before].max(at_end[:, None])  # nothing is left to try in an end
    seen, steps = agents.seen, agents.seen.steps + 1
    return Agents(
        q=q, tried=tried, state=jnp.where(cut, rules.first, after), time=jnp.where(cut, 0, time),
        over=~is_option | ends | at_end | cut, chosen=chosen, began=began, earned=earned,
        worth=worth, length=length,
        seen=Seen(
            steps, jnp.where(arrived & (seen.arrival == 0), steps, seen.arrival),
            seen.reward + reward, seen.inside + (is_option & ~at_end).astype(jnp.int32),
            seen.low + rules.low[before].astype(jnp.int32),
        ),
    ), after  # fmt: skip
