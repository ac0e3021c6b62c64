"""Q-learning of many lanes as one compiled program: a step, an evaluation, and rounds of both."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer

from drogo.agents.task import RandomNumbers, Task, draw_outcome, draw_random_numbers, draw_start


class Agent(NamedTuple):
    """The state of one lane."""

    q: Float[Array, "*lanes states actions"]
    state: Int[Array, "*lanes"]
    steps: Int[Array, "*lanes"]
    """Steps of the present episode."""
    visits: Int[Array, "*lanes"]
    """Visits to low-reward states so far."""


class Setting(NamedTuple):
    """What differs between lanes: the shaped reward of every transition, and the step size."""

    reward: Float[Array, "*lanes states actions outcomes"]
    step_size: Float[Array, "*lanes"]


class Lanes(NamedTuple):
    """Agents that are trained together. Several of them may share a seed."""

    agents: Agent
    settings: Setting
    seeds: Integer[Array, " seeds"]
    seed_of_lane: Int[Array, " lanes"]


def rounded(product: Float[Array, ""], zero: Int[Array, ""]) -> Float[Array, ""]:
    """Keep the compiler from merging a product with the sum that it goes into.

    Whether it merges them, and so rounds once or twice, depends on the number of lanes; and two
    values that are equal with one rounding may differ with two.
    """
    bits = jax.lax.bitcast_convert_type(product, jnp.int32) ^ zero
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def q_step(task: Task, agent: Agent, setting: Setting, random: RandomNumbers) -> Agent:
    """Trains one lane for one step."""
    actions = agent.q.shape[1]
    values = agent.q[agent.state]
    uniform = jnp.minimum((random.action * actions).astype(jnp.int32), actions - 1)
    action = jnp.where(random.explore < task.epsilon, uniform, jnp.argmax(values))
    outcome = draw_outcome(task, agent.state, action, random)
    next_state = task.next_state[agent.state, action, outcome]
    terminal = task.terminal[next_state]
    best = jnp.where(terminal, 0.0, agent.q[next_state].max())
    target = setting.reward[agent.state, action, outcome] + rounded(task.discount * best, task.zero)
    kept = rounded((1 - setting.step_size) * values[action], task.zero)
    steps = agent.steps + 1
    over = terminal | (steps >= task.step_limit)
    return Agent(
        q=agent.q.at[agent.state, action].set(
            kept + rounded(setting.step_size * target, task.zero)
        ),
        state=jnp.where(over, draw_start(task, random), next_state),
        steps=jnp.where(over, 0, steps),
        visits=agent.visits + task.low_reward[next_state].astype(jnp.int32),
    )


def greedy_step(
    task: Task,
    q: Float[Array, "states actions"],
    state: Int[Array, ""],
    earned: Float[Array, ""],
    over: Bool[Array, ""],
    random: RandomNumbers,
) -> tuple[Array, Array, Array]:
    """Takes one step of an evaluation: the greedy action, at random among equal ones."""
    values = q[state]
    best = values == values.max()
    ties = best.sum()
    rank = jnp.minimum((random.action * ties.astype(jnp.float32)).astype(jnp.int32), ties - 1)
    action = jnp.argmax(best & (jnp.cumsum(best) - 1 == rank))
    next_state = task.next_state[state, action, draw_outcome(task, state, action, random)]
    reward = task.reward[state] + task.terminal_reward[next_state]
    earned = earned + jnp.where(over, 0.0, reward)
    return jnp.where(over, state, next_state), earned, over | task.terminal[next_state]


def evaluate(
    task: Task, q: Float[Array, "lanes states actions"], random: RandomNumbers, seed_of_lane: Array
) -> tuple[Float[Array, " lanes"], Int[Array, " lanes"]]:
    """Returns the return and the first state of one greedy episode of each lane.

    `random` has a row for each seed and a column for each step.
    """

    def numbers(step: int | Array) -> RandomNumbers:
        return RandomNumbers(*(part[seed_of_lane, step] for part in random))

    def goes_on(carry: tuple) -> Array:
        step, _, _, over = carry
        return (step < task.step_limit) & ~over.all()

    def body(carry: tuple) -> tuple:
        step, state, earned, over = carry
        moved = jax.vmap(partial(greedy_step, task))(q, state, earned, over, numbers(step))
        return step + 1, *moved

    starts = jax.vmap(partial(draw_start, task))(numbers(0))
    lanes = q.shape[0]
    carry = (jnp.int32(0), starts, jnp.zeros(lanes), jnp.zeros(lanes, dtype=bool))
    return jax.lax.while_loop(goes_on, body, carry)[2], starts


@partial(jax.jit, static_argnames=("every", "longest"))
def advance(
    task: Task,
    lanes: Lanes,
    evaluations: Integer[Array, " evaluations"],
    every: int,
    longest: int,
) -> tuple[Agent, Float[Array, "evaluations lanes"], Int[Array, "evaluations lanes"]]:
    """Trains for `every` steps before each of some evaluations, which are numbered from 0.

    `longest` is the step limit, as a number that the compiler knows. Returns the trained agents,
    and the return and the first state of each evaluation.
    """

    def draw(phase: Array, steps: int) -> RandomNumbers:
        return jax.vmap(partial(draw_random_numbers, steps=steps), (0, None))(lanes.seeds, phase)

    def step(agents: Agent, random: RandomNumbers) -> tuple[Agent, None]:
        of_lanes = RandomNumbers(*(part[lanes.seed_of_lane] for part in random))
        return jax.vmap(partial(q_step, task))(agents, lanes.settings, of_lanes), None

    def train_and_evaluate(agents: Agent, evaluation: Array) -> tuple[Agent, tuple[Array, Array]]:
        by_step = RandomNumbers(*(part.T for part in draw(2 * evaluation, every)))
        agents, _ = jax.lax.scan(step, agents, by_step)
        random = draw(2 * evaluation + 1, longest)
        return agents, evaluate(task, agents.q, random, lanes.seed_of_lane)

    agents, (returns, starts) = jax.lax.scan(train_and_evaluate, lanes.agents, evaluations)
    return agents, returns, starts
