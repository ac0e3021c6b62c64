"""Q-learning of many lanes as one compiled program: a step, an evaluation, and rounds of both."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer

from drogo.agents.task import RandomNumbers, Task, draw, draw_random_numbers, draw_start


class Agent(NamedTuple):
    """The state of one lane."""

    q: Float[Array, "*lanes states actions"]
    state: Int[Array, "*lanes"]
    steps: Int[Array, "*lanes"]
    """Steps of the present episode."""
    visits: Int[Array, "*lanes"]
    """Visits to low-reward states so far."""


class Taken(NamedTuple):
    """One step of a lane: the state that was left, the action, and which of its outcomes it had."""

    state: Int[Array, "*lanes"]
    action: Int[Array, "*lanes"]
    outcome: Int[Array, "*lanes"]


class Lanes(NamedTuple):
    """Agents that are trained together. Several of them may share a seed."""

    agents: Agent
    reward: Float[Array, "lanes states actions outcomes"]
    """The shaped reward of every transition."""
    step_size: Float[Array, " lanes"]
    seeds: Integer[Array, " seeds"]
    seed_of_lane: Int[Array, " lanes"]


def rounded(product: Float[Array, ""], zero: Int[Array, ""]) -> Float[Array, ""]:
    """Keep the compiler from merging a product with the sum that it goes into.

    Whether it merges them, and so rounds once or twice, depends on the number of lanes; and two
    values that are equal with one rounding may differ with two.
    """
    bits = jax.lax.bitcast_convert_type(product, jnp.int32) ^ zero
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def q_step(
    task: Task,
    step_limit: int,
    agent: Agent,
    reward: Array,
    step_size: Array,
    random: RandomNumbers,
) -> tuple[Agent, Taken]:
    """Trains one lane for one step."""
    actions = agent.q.shape[1]
    values = agent.q[agent.state]
    uniform = jnp.minimum((random.action * actions).astype(jnp.int32), actions - 1)
    action = jnp.where(random.explore < task.epsilon, uniform, jnp.argmax(values))
    outcome = draw(task.cumulative[agent.state, action], random.outcome)
    next_state = task.next_state[agent.state, action, outcome]
    terminal = task.terminal[next_state]
    best = jnp.where(terminal, 0.0, agent.q[next_state].max())
    target = reward[agent.state, action, outcome] + rounded(task.discount * best, task.zero)
    kept = rounded((1 - step_size) * values[action], task.zero)
    learned = rounded(step_size * target, task.zero)
    steps = agent.steps + 1
    over = terminal | (steps >= step_limit)
    trained = Agent(
        q=agent.q.at[agent.state, action].set(kept + learned),
        state=jnp.where(over, draw_start(task, random), next_state),
        steps=jnp.where(over, 0, steps),
        visits=agent.visits + task.low_reward[next_state].astype(jnp.int32),
    )
    return trained, Taken(agent.state, action, outcome)


def train_lanes(
    task: Task, step_limit: int, lanes: Lanes, by_step: RandomNumbers
) -> tuple[Agent, Taken]:
    """Trains all lanes for some steps.

    Args:
        task: The task.
        step_limit: The number of steps after which an episode is truncated.
        lanes: The lanes before the first step.
        by_step: Random numbers, with a row for each step and a column for each seed.

    Returns:
        The agents after the last step, and all steps that they took.
    """
    train = jax.vmap(partial(q_step, task, step_limit))

    def step(agents: Agent, random: RandomNumbers) -> tuple[Agent, Taken]:
        of_lanes = RandomNumbers(*(part[lanes.seed_of_lane] for part in random))
        return train(agents, lanes.reward, lanes.step_size, of_lanes)

    return jax.lax.scan(step, lanes.agents, by_step)


def numbers_of_seeds(lanes: Lanes, phase: Array, steps: int) -> RandomNumbers:
    """Draws for some steps of every seed: a row for each seed, a column for each step."""
    return jax.vmap(partial(draw_random_numbers, steps=steps), (0, None))(lanes.seeds, phase)


def greedy_action(
    q: Float[Array, "states actions"], state: Int[Array, ""], number: Float[Array, ""]
) -> Int[Array, ""]:
    """Chooses the best action in a state, with a uniform number among equal ones."""
    best = q[state] == q[state].max()
    ties = best.sum()
    rank = jnp.minimum((number * ties.astype(jnp.float32)).astype(jnp.int32), ties - 1)
    return jnp.argmax(best & (jnp.cumsum(best) - 1 == rank))


def evaluate(
    task: Task, q: Float[Array, "lanes states actions"], random: RandomNumbers, seed_of_lane: Array
) -> tuple[Float[Array, " lanes"], Bool[Array, " lanes"], Int[Array, " lanes"]]:
    """Returns of one greedy episode of each lane its return, whether it ended in a terminal state,
    and its first state.

    `random` has a row for each seed and a column for each step that the episode may take.
    """

    def numbers(step: int | Array) -> RandomNumbers:
        return RandomNumbers(*(part[seed_of_lane, step] for part in random))

    def goes_on(carry: tuple) -> Array:
        step, _, _, over = carry
        return (step < random.action.shape[1]) & ~over.all()

    def body(carry: tuple) -> tuple:
        step, state, earned, over = carry
        now = numbers(step)
        action = jax.vmap(greedy_action)(q, state, now.action)
        outcome = jax.vmap(draw)(task.cumulative[state, action], now.outcome)
        next_state = task.next_state[state, action, outcome]
        terminal = task.terminal[next_state]
        reward = task.reward[state] + jnp.where(terminal, task.reward[next_state], 0.0)
        earned = earned + jnp.where(over, 0.0, reward)
        return step + 1, jnp.where(over, state, next_state), earned, over | terminal

    starts = jax.vmap(partial(draw_start, task))(numbers(0))
    lanes = q.shape[0]
    carry = (jnp.int32(0), starts, jnp.zeros(lanes), jnp.zeros(lanes, dtype=bool))
    _, _, earned, arrived = jax.lax.while_loop(goes_on, body, carry)
    return earned, arrived, starts


@partial(jax.jit, static_argnames=("every", "step_limit"))
def advance(
    task: Task,
    lanes: Lanes,
    evaluations: Integer[Array, " evaluations"],
    every: int,
    step_limit: int,
) -> tuple[Lanes, tuple[Array, Array, Array]]:
    """Trains for `every` steps before each of some evaluations, which are numbered from 0.

    Returns the trained lanes, and what `evaluate` returns, with a row for each evaluation.
    """

    def train_and_evaluate(agents: Agent, evaluation: Array) -> tuple[Agent, tuple]:
        of_training = numbers_of_seeds(lanes, 2 * evaluation, every)
        by_step = RandomNumbers(*(part.T for part in of_training))
        agents, _ = train_lanes(task, step_limit, lanes._replace(agents=agents), by_step)
        random = numbers_of_seeds(lanes, 2 * evaluation + 1, step_limit)
        return agents, evaluate(task, agents.q, random, lanes.seed_of_lane)

    agents, evaluated = jax.lax.scan(train_and_evaluate, lanes.agents, evaluations)
    return lanes._replace(agents=agents), evaluated
