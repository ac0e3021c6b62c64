"""Tabular Q-learning of many runs as one compiled program: the task, steps and evaluations."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int, Integer

from drogo.device import to_device
from drogo.errors import ArgumentError, Count, Share, check_fields
from drogo.mdp import MDP


@dataclass(frozen=True, eq=False)
class Training:
    step_limit: Count
    low_reward: np.ndarray | None = None
    """A mask of the states whose visits are counted."""
    steps: Count = 100_000
    every: Count = 100
    """The number of training steps between evaluations, a divisor of all steps."""
    discount: Share = 0.99
    epsilon: Share = 0.05
    every_step: bool = False
    """Whether it is found out from when on the return is the final one, by evaluations after every
    step, which needs a deterministic world with one start."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.steps % self.every:
            problem = f"steps is {self.steps}; give a multiple of every, which is {self.every}."
            raise ArgumentError(problem, argument="steps")

    @property
    def evaluations(self) -> int:
        return self.steps // self.every


class Task(NamedTuple):
    """An MDP as arrays, in which all actions have the same number of possible outcomes."""

    next_state: Int[Array, "states actions outcomes"]
    cumulative: Float[Array, "states actions outcomes"]
    reward: Float[Array, " states"]
    """The reward of leaving a state, or of entering it if it is terminal."""
    terminal: Bool[Array, " states"]
    low_reward: Bool[Array, " states"]
    starts: Int[Array, " starts"]
    start_cumulative: Float[Array, " starts"]
    discount: Float[Array, ""]
    epsilon: Float[Array, ""]
    zero: Int[Array, ""]
    """A zero that the compiler cannot see; `rounded` needs it."""


class RandomNumbers(NamedTuple):
    """Uniform numbers in [0, 1) for one step."""

    explore: Float[Array, "*runs"]
    action: Float[Array, "*runs"]
    outcome: Float[Array, "*runs"]
    start: Float[Array, "*runs"]


def draw_random_numbers(
    seed: Integer[Array, ""], phase: Integer[Array, ""], steps: int
) -> RandomNumbers:
    """Samples the numbers of some steps. Phase 2k is training, phase 2k + 1 is evaluation k."""
    key = jax.random.fold_in(jax.random.key(seed), phase)
    return RandomNumbers(*jax.random.uniform(key, (len(RandomNumbers._fields), steps)))


def draw(cumulative: Float[Array, " choices"], number: Float[Array, ""]) -> Int[Array, ""]:
    """Returns the index that a uniform number selects from cumulative probabilities."""
    if cumulative.shape[0] == 1:
        return jnp.int32(0)
    return jnp.argmax(number < cumulative).astype(jnp.int32)


def draw_start(task: Task, random: RandomNumbers) -> Int[Array, ""]:
    return task.starts[draw(task.start_cumulative, random.start)]


def make_task(mdp: MDP, training: Training) -> Task:
    low_reward = training.low_reward
    if low_reward is None:
        low_reward = np.zeros(mdp.n_states, dtype=bool)
    if low_reward.shape != (mdp.n_states,) or low_reward.dtype != bool:
        raise ArgumentError(
            f"low_reward is an array {low_reward.shape} of {low_reward.dtype}; give a mask of "
            f"{mdp.n_states} states.",
            argument="low_reward",
        )
    starts = np.flatnonzero(mdp.start)
    start_cumulative = np.cumsum(mdp.start[starts])
    start_cumulative[-1] = 1.0  # despite rounding: random numbers are smaller
    return Task(
        next_state=to_device(mdp.outcomes.next_state, dtype=jnp.int32),
        cumulative=to_device(mdp.outcomes.cumulative, dtype=jnp.float32),
        reward=to_device(mdp.reward, dtype=jnp.float32),
        terminal=to_device(mdp.terminal),
        low_reward=to_device(low_reward),
        starts=to_device(starts, dtype=jnp.int32),
        start_cumulative=to_device(start_cumulative, dtype=jnp.float32),
        discount=jnp.float32(training.discount),
        epsilon=jnp.float32(training.epsilon),
        zero=jnp.int32(0),
    )


def shaped_rewards(
    task: Task,
    mdp: MDP,
    potential: Float[np.ndarray, "runs states"],
    weight: Float[np.ndarray, " runs"],
) -> Float32[np.ndarray, "runs states actions outcomes"]:
    """Computes `(1 - w) r + w (discount phi(s') - phi(s))` of all transitions."""
    next_state = np.asarray(task.next_state)
    reward = mdp.reward[:, None, None] + np.where(mdp.terminal, mdp.reward, 0.0)[next_state]
    shaping = float(task.discount) * potential[:, next_state] - potential[:, :, None, None]
    share = weight[:, None, None, None]
    return ((1 - share) * reward + share * shaping).astype(np.float32)


class Agent(NamedTuple):
    q: Float[Array, "*runs states actions"]
    state: Int[Array, "*runs"]
    steps: Int[Array, "*runs"]
    """Steps of the present episode."""
    visits: Int[Array, "*runs"]
    """Visits to low-reward states."""


class Taken(NamedTuple):
    """One step of a run: the state that was left, the action, and the number of its outcome."""

    state: Int[Array, "*runs"]
    action: Int[Array, "*runs"]
    outcome: Int[Array, "*runs"]


class Batch(NamedTuple):
    """Agents that are trained together. Several of them may share a seed."""

    agents: Agent
    reward: Float[Array, "runs states actions outcomes"]
    """The shaped reward of every transition."""
    step_size: Float[Array, " runs"]
    seeds: Integer[Array, " seeds"]
    seed_of_run: Int[Array, " runs"]


def rounded(product: Float[Array, ""], zero: Int[Array, ""]) -> Float[Array, ""]:
    """Keeps the compiler from merging a product with the sum that it goes into, which depends on
    the number of runs and may change which actions are equal."""
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


def train_batch(
    task: Task,
    step_limit: int,
    batch: Batch,
    by_step: RandomNumbers,
    record: Callable[[Agent, Taken], Any] = lambda agents, taken: taken,
) -> tuple[Agent, Any]:
    """Trains all runs for some steps, whose random numbers have a column for each seed. Returns the
    agents, and the `record` of each step and the agents after it."""
    train = jax.vmap(partial(q_step, task, step_limit))

    def step(agents: Agent, random: RandomNumbers) -> tuple[Agent, Any]:
        of_runs = RandomNumbers(*(part[batch.seed_of_run] for part in random))
        agents, taken = train(agents, batch.reward, batch.step_size, of_runs)
        return agents, record(agents, taken)

    return jax.lax.scan(step, batch.agents, by_step)


def numbers_of_seeds(batch: Batch, phase: Array, steps: int) -> RandomNumbers:
    return jax.vmap(partial(draw_random_numbers, steps=steps), (0, None))(batch.seeds, phase)


def greedy_action(
    q: Float[Array, "states actions"], state: Int[Array, ""], number: Float[Array, ""]
) -> Int[Array, ""]:
    """Returns the best action in a state; a uniform number breaks ties."""
    best = q[state] == q[state].max()
    ties = best.sum()
    rank = jnp.minimum((number * ties.astype(jnp.float32)).astype(jnp.int32), ties - 1)
    return jnp.argmax(best & (jnp.cumsum(best) - 1 == rank))


def evaluate(
    task: Task, q: Float[Array, "runs states actions"], random: RandomNumbers, seed_of_run: Array
) -> tuple[Float[Array, " runs"], Bool[Array, " runs"], Int[Array, " runs"]]:
    """Evaluates one greedy episode of each run, and returns its return, whether it reached a
    terminal state, and its first state. Random numbers have a row for each seed."""

    def numbers(step: int | Array) -> RandomNumbers:
        return RandomNumbers(*(part[seed_of_run, step] for part in random))

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
    runs = q.shape[0]
    carry = (jnp.int32(0), starts, jnp.zeros(runs), jnp.zeros(runs, dtype=bool))
    _, _, earned, arrived = jax.lax.while_loop(goes_on, body, carry)
    return earned, arrived, starts


def nothing(agents: Agent, taken: Taken) -> tuple[()]:
    return ()


def best_actions(agents: Agent, taken: Taken) -> tuple[Array, Array]:
    """Returns the states that a step left, and their best actions as the bits of a number."""
    values = agents.q[jnp.arange(agents.q.shape[0]), taken.state]
    best = values == values.max(axis=1, keepdims=True)
    bits = jnp.where(best, 1 << jnp.arange(best.shape[1]), 0).sum(axis=1)
    return taken.state.astype(jnp.uint16), bits.astype(jnp.uint8)


@partial(jax.jit, static_argnames=("every", "step_limit", "logged"))
def advance(
    task: Task,
    batch: Batch,
    evaluations: Integer[Array, " evaluations"],
    every: int,
    step_limit: int,
    *,
    logged: bool = False,
) -> tuple[Batch, tuple[Array, ...]]:
    """Trains for `every` steps before each of some evaluations, and evaluates. If `logged`, also
    returns the state that each step left, and its best actions after the step."""

    def train_and_evaluate(agents: Agent, evaluation: Array) -> tuple[Agent, tuple]:
        of_training = numbers_of_seeds(batch, 2 * evaluation, every)
        by_step = RandomNumbers(*(part.T for part in of_training))
        now, record = batch._replace(agents=agents), best_actions if logged else nothing
        agents, log = train_batch(task, step_limit, now, by_step, record)
        random = numbers_of_seeds(batch, 2 * evaluation + 1, step_limit)
        return agents, (*evaluate(task, agents.q, random, batch.seed_of_run), *log)

    agents, evaluated = jax.lax.scan(train_and_evaluate, batch.agents, evaluations)
    return batch._replace(agents=agents), evaluated
