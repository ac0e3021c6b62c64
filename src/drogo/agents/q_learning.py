"""Tabular Q-learning as one pure program over *lanes*: a seed under one setting each.

All lanes take a step together: a step is a handful of small array operations, so that hundreds of
lanes cost little more than one. Random numbers belong to a seed, not to a lane: settings are
compared under the same luck, and a seed's runs are the same whatever else is in the program.

The agent: Q starts at 0; with probability epsilon a uniform action, otherwise the greedy one of
lowest index; no bootstrap from an end, but from a truncated step. Every `every` steps one greedy
episode from the start, ties broken at random, gives the learning curve: its original, undiscounted
return.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int, Integer

from drogo.agents.value_iteration import optimal_values
from drogo.errors import ArgumentError
from drogo.mdp import MDP

EVALUATIONS_A_CALL = 20
"""Evaluations between two looks at the clock: for progress and Ctrl-C."""
RETURN_TOLERANCE = 1e-5
"""Returns are added up in single precision: two this close (relatively) are equal."""


class Task(NamedTuple):
    """An MDP as arrays. Outcomes of an action are padded to the largest number there is."""

    next_state: Int[Array, "states actions outcomes"]
    outcome_below: Float[Array, "states actions outcomes"]
    """Cumulative probabilities of the outcomes."""
    reward: Float[Array, " states"]
    """Of leaving a state."""
    end_reward: Float[Array, " states"]
    """Of entering it: an end's own, 0 elsewhere."""
    terminal: Bool[Array, " states"]
    low_reward: Bool[Array, " states"]
    starts: Int[Array, " starts"]
    start_below: Float[Array, " starts"]
    step_limit: Int[Array, ""]
    discount: Float[Array, ""]
    epsilon: Float[Array, ""]
    zero: Int[Array, ""]
    """0, which the compiler does not know; see `rounded`."""


class Setting(NamedTuple):
    """What may differ between lanes."""

    reward: Float[Array, "*lanes states actions outcomes"]
    """Shaped, of every step there is: worked out beforehand, in double precision."""
    step_size: Float[Array, "*lanes"]


class Agent(NamedTuple):
    q: Float[Array, "*lanes states actions"]
    state: Int[Array, "*lanes"]
    steps: Int[Array, "*lanes"]
    """Of the episode under way."""
    visits: Int[Array, "*lanes"]
    """To low-reward states, so far."""


class Luck(NamedTuple):
    """Uniform numbers in [0, 1) for one step."""

    explore: Float[Array, "*lanes"]
    action: Float[Array, "*lanes"]
    outcome: Float[Array, "*lanes"]
    start: Float[Array, "*lanes"]


def draw_luck(seed: Integer[Array, ""], evaluation: Integer[Array, ""], steps: int) -> Luck:
    """For the `steps` steps before an evaluation (even numbers) or within it (odd)."""
    key = jax.random.fold_in(jax.random.key(seed), evaluation)
    numbers = jax.random.uniform(key, (len(Luck._fields), steps))
    return Luck(*numbers)


def pick(below: Float[Array, " n"], luck: Float[Array, ""]) -> Int[Array, ""]:
    """The index of the first cumulative probability above a number."""
    return jnp.argmax(luck < below)


def draw_outcome(task: Task, state: Array, action: Array, luck: Luck) -> Int[Array, ""]:
    """Which outcome of an action it is."""
    if task.next_state.shape[2] == 1:
        return jnp.int32(0)
    return pick(task.outcome_below[state, action], luck.outcome).astype(jnp.int32)


def rounded(product: Float[Array, ""], zero: Int[Array, ""]) -> Float[Array, ""]:
    """A product as a number of its own, rounded. Left to itself, the compiler merges it with the
    sum it goes into, or does not, depending on the number of lanes; and a tie is then no tie."""
    bits = jax.lax.bitcast_convert_type(product, jnp.int32) ^ zero
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def first_state(task: Task, luck: Luck) -> Int[Array, ""]:
    if task.starts.shape[0] == 1:
        return task.starts[0]
    return task.starts[pick(task.start_below, luck.start)]


def q_step(task: Task, agent: Agent, setting: Setting, luck: Luck) -> Agent:
    """One step of one lane's training."""
    actions = agent.q.shape[1]
    here = agent.q[agent.state]
    uniform = jnp.minimum((luck.action * actions).astype(jnp.int32), actions - 1)
    action = jnp.where(luck.explore < task.epsilon, uniform, jnp.argmax(here))
    outcome = draw_outcome(task, agent.state, action, luck)
    after = task.next_state[agent.state, action, outcome]
    end = task.terminal[after]
    future = rounded(task.discount * jnp.where(end, 0.0, agent.q[after].max()), task.zero)
    target = setting.reward[agent.state, action, outcome] + future
    kept = rounded((1 - setting.step_size) * here[action], task.zero)
    new = kept + rounded(setting.step_size * target, task.zero)
    steps = agent.steps + 1
    over = end | (steps >= task.step_limit)
    return Agent(
        q=agent.q.at[agent.state, action].set(new),
        state=jnp.where(over, first_state(task, luck), after),
        steps=jnp.where(over, 0, steps),
        visits=agent.visits + task.low_reward[after].astype(jnp.int32),
    )


def greedy_step(
    task: Task, q: Array, state: Array, earned: Array, over: Array, luck: Luck
) -> tuple[Array, Array, Array]:
    """One step of one lane's evaluation: a tie is broken at random."""
    here = q[state]
    best = here == here.max()
    ties = best.sum()
    rank = jnp.minimum((luck.action * ties.astype(jnp.float32)).astype(jnp.int32), ties - 1)
    action = jnp.argmax(best & (jnp.cumsum(best) - 1 == rank))
    after = task.next_state[state, action, draw_outcome(task, state, action, luck)]
    reward = task.reward[state] + task.end_reward[after]
    earned = earned + jnp.where(over, 0.0, reward)
    return jnp.where(over, state, after), earned, over | task.terminal[after]


def evaluate(
    task: Task, q: Float[Array, "lanes states actions"], luck: Luck, seed_of_lane: Array
) -> tuple[Float[Array, " lanes"], Int[Array, " lanes"]]:
    """The return of one greedy episode in each lane, and where it began. `luck` is of the seeds."""

    def going(carry: tuple) -> Array:
        step, _, _, over = carry
        return (step < task.step_limit) & ~over.all()

    def body(carry: tuple) -> tuple:
        step, state, earned, over = carry
        now = Luck(*(part[seed_of_lane, step] for part in luck))
        moved = jax.vmap(partial(greedy_step, task))(q, state, earned, over, now)
        return step + 1, *moved

    first = Luck(*(part[seed_of_lane, 0] for part in luck))
    begin = jax.vmap(partial(first_state, task))(first)
    lanes = q.shape[0]
    carry = (jnp.int32(0), begin, jnp.zeros(lanes), jnp.zeros(lanes, dtype=bool))
    return jax.lax.while_loop(going, body, carry)[2], begin


@partial(jax.jit, static_argnames=("every", "longest"))
def advance(
    task: Task,
    agents: Agent,
    settings: Setting,
    seeds: Integer[Array, " seeds"],
    seed_of_lane: Int[Array, " lanes"],
    evaluations: Integer[Array, " evaluations"],
    every: int,
    longest: int,
) -> tuple[Agent, Float[Array, "evaluations lanes"], Int[Array, "evaluations lanes"]]:
    """Some rounds of `every` steps and an evaluation: agents, returns, starts of evaluations.

    `longest` is the step limit, as a number the compiler may know.
    """

    def round_(agents: Agent, evaluation: Array) -> tuple[Agent, tuple[Array, Array]]:
        draw = jax.vmap(partial(draw_luck, steps=every), in_axes=(0, None))
        luck = draw(seeds, 2 * evaluation)

        def step(agents: Agent, now: Luck) -> tuple[Agent, None]:
            mine = Luck(*(part[seed_of_lane] for part in now))
            return jax.vmap(partial(q_step, task))(agents, settings, mine), None

        agents, _ = jax.lax.scan(step, agents, Luck(*(part.T for part in luck)))
        draw = jax.vmap(partial(draw_luck, steps=longest), in_axes=(0, None))
        luck = draw(seeds, 2 * evaluation + 1)
        return agents, evaluate(task, agents.q, luck, seed_of_lane)

    agents, (returns, starts) = jax.lax.scan(round_, agents, evaluations)
    return agents, returns, starts


@dataclass(frozen=True, eq=False)
class Runs:
    """What every lane did."""

    returns: Float[np.ndarray, "lanes evaluations"]
    """Original, undiscounted return of each evaluation."""
    best: Float[np.ndarray, "lanes evaluations"]
    """The largest there is, from where the evaluation began."""
    every: int
    """Steps between evaluations."""
    low_reward_visits: Int[np.ndarray, " lanes"]
    q: Float[np.ndarray, "lanes states actions"]

    @cached_property
    def optimal(self) -> Bool[np.ndarray, "lanes evaluations"]:
        return self.returns >= self.best - RETURN_TOLERANCE * np.maximum(1, np.abs(self.best))

    @cached_property
    def steps_to_optimal(self) -> Float[np.ndarray, " lanes"]:
        """Training steps at the first evaluation from which all are optimal; inf if the last is
        not."""
        from_here = np.logical_and.accumulate(self.optimal[:, ::-1], axis=1)[:, ::-1]
        first = from_here.argmax(axis=1)
        return np.where(from_here.any(axis=1), (first + 1.0) * self.every, np.inf)


Progress = Callable[[int], None]
"""Called with how many evaluations have been done."""


def q_learning(
    mdp: MDP,
    *,
    potential: Float[np.ndarray, "lanes states"],
    weight: Float[np.ndarray, " lanes"],
    step_size: Float[np.ndarray, " lanes"],
    seed: Int[np.ndarray, " lanes"],
    step_limit: int,
    low_reward: Bool[np.ndarray, " states"] | None = None,
    steps: int = 100_000,
    every: int = 100,
    discount: float = 0.99,
    epsilon: float = 0.05,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Runs:
    """Train all lanes: the shaped reward is `(1 - weight) r + weight (discount phi(s') - phi(s))`.

    `potential` is used as it is, in ends too (the paper's recipe): set its entries there to 0 for
    the other. Weight 0 is no shaping. Lanes are divided among `threads`, as many as there are
    cores unless given; their results do not depend on it.
    """
    _check(mdp, potential, weight, step_size, seed, steps, every, discount, epsilon, step_limit)
    task = make_task(mdp, low_reward, step_limit, discount, epsilon)
    rounds = np.arange(steps // every)
    workers = min(threads or os.cpu_count() or 1, len(weight))
    parts = [
        _Part.make(task, mdp, lanes, potential, weight, step_size, seed)
        for lanes in np.array_split(np.arange(len(weight)), workers)
    ]
    with ThreadPoolExecutor(workers) as pool:
        for k in range(0, len(rounds), EVALUATIONS_A_CALL):
            chunk = rounds[k : k + EVALUATIONS_A_CALL]
            jobs = [pool.submit(part.advance, chunk, every, step_limit) for part in parts]
            for job in jobs:
                job.result()
            if progress is not None:
                progress(int(chunk[-1]) + 1)
    best = optimal_values(mdp)
    starts = np.concatenate([np.concatenate(part.starts) for part in parts], axis=1).T
    return Runs(
        returns=np.concatenate([np.concatenate(part.returns) for part in parts], axis=1).T,
        best=best[starts],
        every=every,
        low_reward_visits=np.concatenate([np.asarray(part.agents.visits) for part in parts]),
        q=np.concatenate([np.asarray(part.agents.q) for part in parts]),
    )


@dataclass
class _Part:
    """Some of the lanes, on one thread."""

    task: Task
    agents: Agent
    settings: Setting
    seeds: Integer[Array, " seeds"]
    seed_of_lane: Int[Array, " lanes"]
    returns: list[np.ndarray]
    starts: list[np.ndarray]

    @classmethod
    def make(
        cls,
        task: Task,
        mdp: MDP,
        lanes: np.ndarray,
        potential: np.ndarray,
        weight: np.ndarray,
        step_size: np.ndarray,
        seed: np.ndarray,
    ) -> _Part:
        seeds, seed_of_lane = np.unique(seed[lanes], return_inverse=True)
        n, zeros = len(lanes), jnp.zeros(len(lanes), dtype=jnp.int32)
        # The first start of each seed: luck of a round before the first.
        luck = jax.vmap(partial(draw_luck, steps=1), in_axes=(0, None))(
            jnp.asarray(seeds, dtype=jnp.uint32), jnp.uint32(2**31)
        )
        begin = jax.vmap(partial(first_state, task))(Luck(*(part[:, 0] for part in luck)))
        agents = Agent(
            q=jnp.zeros((n, mdp.n_states, mdp.n_actions)),
            state=begin[jnp.asarray(seed_of_lane)].astype(jnp.int32),
            steps=zeros,
            visits=zeros,
        )
        settings = Setting(
            jnp.asarray(shaped_rewards(task, mdp, potential[lanes], weight[lanes])),
            jnp.asarray(step_size[lanes], dtype=jnp.float32),
        )
        return cls(
            task,
            agents,
            settings,
            jnp.asarray(seeds, dtype=jnp.uint32),
            jnp.asarray(seed_of_lane, dtype=jnp.int32),
            [],
            [],
        )

    def advance(self, evaluations: np.ndarray, every: int, longest: int) -> None:
        self.agents, returns, starts = advance(
            self.task,
            self.agents,
            self.settings,
            self.seeds,
            self.seed_of_lane,
            jnp.asarray(evaluations, dtype=jnp.uint32),
            every,
            longest,
        )
        self.returns.append(np.asarray(returns, dtype=np.float64))
        self.starts.append(np.asarray(starts))


def shaped_rewards(
    task: Task, mdp: MDP, potential: Float[np.ndarray, "lanes states"], weight: np.ndarray
) -> Float32[np.ndarray, "lanes states actions outcomes"]:
    """`(1 - w) r + w (discount phi(s') - phi(s))` for every step of every lane."""
    after = np.asarray(task.next_state)
    reward = mdp.reward[:, None, None] + np.where(mdp.terminal, mdp.reward, 0.0)[after]
    shaping = float(task.discount) * potential[:, after] - potential[:, :, None, None]
    share = weight[:, None, None, None]
    return ((1 - share) * reward + share * shaping).astype(np.float32)


def make_task(
    mdp: MDP,
    low_reward: np.ndarray | None,
    step_limit: int,
    discount: float,
    epsilon: float,
) -> Task:
    starts = np.flatnonzero(mdp.start)
    start_below = np.cumsum(mdp.start[starts])
    start_below[-1] = 2.0
    low = np.zeros(mdp.n_states, dtype=bool) if low_reward is None else low_reward
    return Task(
        next_state=jnp.asarray(mdp.outcomes.next_state, dtype=jnp.int32),
        outcome_below=jnp.asarray(mdp.outcomes.cumulative, dtype=jnp.float32),
        reward=jnp.asarray(mdp.reward, dtype=jnp.float32),
        end_reward=jnp.asarray(np.where(mdp.terminal, mdp.reward, 0.0), dtype=jnp.float32),
        terminal=jnp.asarray(mdp.terminal),
        low_reward=jnp.asarray(low),
        starts=jnp.asarray(starts, dtype=jnp.int32),
        start_below=jnp.asarray(start_below, dtype=jnp.float32),
        step_limit=jnp.asarray(step_limit, dtype=jnp.int32),
        discount=jnp.asarray(discount, dtype=jnp.float32),
        epsilon=jnp.asarray(epsilon, dtype=jnp.float32),
        zero=jnp.int32(0),
    )


def _check(
    mdp: MDP,
    potential: np.ndarray,
    weight: np.ndarray,
    step_size: np.ndarray,
    seed: np.ndarray,
    steps: int,
    every: int,
    discount: float,
    epsilon: float,
    step_limit: int,
) -> None:
    if potential.shape != (len(weight), mdp.n_states) or not (
        len(weight) == len(step_size) == len(seed) > 0
    ):
        raise ArgumentError(
            f"potential {potential.shape}, weight {weight.shape}, step_size {step_size.shape} and "
            f"seed {seed.shape} must have one row per lane; a potential has {mdp.n_states} states."
        )
    if not np.isfinite(potential).all():
        raise ArgumentError("a potential is not finite everywhere.")
    if not ((weight >= 0) & (weight <= 1)).all():
        raise ArgumentError(f"a weight is {weight[(weight < 0) | (weight > 1)][0]}; give 0 to 1.")
    if not ((step_size > 0) & (step_size <= 1)).all():
        raise ArgumentError("a step size is not in (0, 1].")
    if seed.min() < 0:
        raise ArgumentError("seeds are numbers from 0 on.")
    if steps < every or every < 1 or steps % every:
        raise ArgumentError(f"steps ({steps}) must be a multiple of every ({every}).")
    if not (0 <= discount <= 1 and 0 <= epsilon <= 1):
        raise ArgumentError(f"discount ({discount}) and epsilon ({epsilon}) must lie in [0, 1].")
    if step_limit < 1:
        raise ArgumentError(f"step_limit is {step_limit}; it must be at least 1.")
