"""Tabular Q-learning of many runs in one program: a run is one seed with one setting. Random
numbers belong to a seed: all settings see the same ones, and no run depends on the others."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from drogo.data.arrays import column, plain
from drogo.device import to_device
from drogo.errors import ArgumentError, NumericalError, check_share
from drogo.files import check_memory
from drogo.mdp import MDP
from drogo_paper.agents.every_step import Walk, last_different
from drogo_paper.agents.training import (
    Agent,
    Batch,
    Task,
    Training,
    advance,
    draw_random_numbers,
    draw_start,
    make_task,
    shaped_rewards,
)

MOST_EVALUATIONS_A_CALL = 20
"""Evaluations between two calls of `progress`, which can interrupt the training."""
RETURN_TOLERANCE = 1e-5
"""Returns are added up in single precision; with a smaller relative difference they are equal."""
BYTES_OF_STEP = 16
"""Four random numbers in single precision."""
BEFORE_TRAINING = 2**31
"""The phase whose random numbers choose the very first states."""
MOST_SWEEPS = 1_000_000
TOLERANCE = 1e-12
EQUAL = 1e-9
"""Actions whose values differ relatively by less are equally good."""

Progress = Callable[[int], None]
"""Called with the number of evaluations that are done."""


@dataclass(frozen=True, eq=False)
class Runs:
    """The result of `q_learning`."""

    returns: Float[np.ndarray, "*runs evaluations"]
    arrived: Bool[np.ndarray, "*runs evaluations"]
    """Whether each episode reached a terminal state before the step limit."""
    best_return: Float[np.ndarray, "*runs evaluations"]
    """The largest expected return from its first state."""
    every: int
    low_reward_visits: Int[np.ndarray, "*runs"]
    q: Float[np.ndarray, "*shape states actions"]
    _: KW_ONLY
    until_final: Float[np.ndarray, "*runs"] | None = None
    """The last step whose return differs from the final one, plus 1, if every step is evaluated."""

    @cached_property
    def steps_to_optimal(self) -> Float[np.ndarray, "*runs"]:
        """Training steps until this and all later evaluations are optimal, or inf. A truncated
        episode is not optimal, whatever its return. If every step is evaluated: `until_final`, or
        inf if the last evaluation is not optimal."""
        tolerance = RETURN_TOLERANCE * np.maximum(1, np.abs(self.best_return))
        optimal = self.arrived & (self.returns >= self.best_return - tolerance)
        if self.until_final is not None:
            return np.where(optimal[..., -1], self.until_final, np.inf)
        stays = np.logical_and.accumulate(optimal[..., ::-1], axis=-1)[..., ::-1]
        return np.where(stays.any(axis=-1), (stays.argmax(axis=-1) + 1.0) * self.every, np.inf)


def q_learning(
    mdp: MDP,
    training: Training,
    *,
    potential: Float[np.ndarray, "runs states"],
    weight: Float[np.ndarray, " runs"],
    step_size: Float[np.ndarray, " runs"],
    seed: Int[np.ndarray, " runs"],
    progress: Progress | None = None,
    threads: int | None = None,
) -> Runs:
    """Trains all runs with the reward `(1 - weight) r + weight (discount phi(s') - phi(s))`. As in
    the paper, the potential counts in terminal states too. No result depends on the threads."""
    one_per_run = {"weight": weight, "step_size": step_size, "seed": seed}
    weight, step_size, seed = (column(*item) for item in one_per_run.items())
    potential = plain("potential", potential)
    check_runs(mdp, training, potential, weight, step_size, seed)
    task, runs = make_task(mdp, training), len(weight)
    workers = min(threads or os.cpu_count() or 1, runs)
    groups = []
    # Equal parts, since each size is compiled: some runs may be in two groups.
    for k in np.resize(np.arange(runs), (workers, -(-runs // workers))):
        rewards = shaped_rewards(task, mdp, potential[k], weight[k])
        groups.append(first_batch(task, rewards, step_size[k], seed[k]))
    groups, curves = _train(task, groups, training, progress)
    returns, arrived, starts, *log = (part[:runs] for part in curves)
    final = None
    if training.every_step:
        walk, rngs = Walk.of(mdp, training.step_limit), map(np.random.default_rng, range(runs))
        final = np.array(list(map(partial(last_different, walk), *log, rngs)), dtype=np.float64)
    return Runs(
        until_final=final,
        returns=returns.astype(np.float64),
        arrived=arrived,
        best_return=optimal_values(mdp)[starts],
        every=training.every,
        low_reward_visits=np.concatenate([group.agents.visits for group in groups])[:runs],
        q=np.concatenate([group.agents.q for group in groups])[:runs],
    )


def _train(
    task: Task, groups: Sequence[Batch], training: Training, progress: Progress | None
) -> tuple[Sequence[Batch], list[np.ndarray]]:
    """Trains groups of runs, a thread each, and returns them with the results of `evaluate`."""
    rounds = training.evaluations
    at_once = max(k for k in range(1, MOST_EVALUATIONS_A_CALL + 1) if rounds % k == 0)

    def work(done: int, group: Batch) -> tuple[Batch, tuple[jax.Array, ...]]:
        evaluations = jnp.arange(done, done + at_once, dtype=jnp.uint32)
        sizes = (training.every, training.step_limit)
        results = advance(task, group, evaluations, *sizes, logged=training.every_step)
        return jax.block_until_ready(results)

    curves = []
    with ThreadPoolExecutor(len(groups)) as pool:
        for done in range(0, rounds, at_once):
            groups, evaluated = zip(*pool.map(partial(work, done), groups), strict=True)
            parts = zip(*evaluated, strict=True)
            curves.append([np.concatenate(part, axis=-1) for part in parts])
            if progress is not None:
                progress(done + at_once)
    whole = [np.concatenate(part) for part in zip(*curves, strict=True)]
    return groups, [np.moveaxis(part, -1, 0).reshape(part.shape[-1], -1) for part in whole]


def first_batch(task: Task, rewards: np.ndarray, step_size: np.ndarray, seed: np.ndarray) -> Batch:
    seeds, seed_of_run = np.unique(seed, return_inverse=True)
    seeds, seed_of_run = to_device(seeds, jnp.uint32), to_device(seed_of_run, jnp.int32)

    def start(seed: jax.Array) -> jax.Array:
        random = draw_random_numbers(seed, jnp.uint32(BEFORE_TRAINING), steps=1)
        return draw_start(task, jax.tree.map(lambda part: part[0], random))

    zeros = jnp.zeros(len(seed), dtype=jnp.int32)
    state = jax.vmap(start)(seeds)[seed_of_run]
    agents = Agent(jnp.zeros(rewards.shape[:3]), state, steps=zeros, visits=zeros)
    sizes = to_device(step_size, dtype=jnp.float32)
    return Batch(agents, to_device(rewards), sizes, seeds, seed_of_run)


def check_runs(
    mdp: MDP,
    training: Training,
    potential: np.ndarray,
    weight: np.ndarray,
    step_size: np.ndarray,
    seed: np.ndarray,
) -> None:
    """Raises an error unless there are a potential, a weight, a step size and a seed per run."""
    runs = len(weight)
    shapes = {weight.shape, step_size.shape, seed.shape}
    if potential.shape != (runs, mdp.n_states) or shapes != {(runs,)} or not runs:
        raise ArgumentError(
            f"potential {potential.shape}, weight {weight.shape}, step_size {step_size.shape} and "
            f"seed {seed.shape} must have a row for each run, and potential {mdp.n_states} states.",
            argument="potential",
        )
    numbers = BYTES_OF_STEP * training.step_limit * len(np.unique(seed))
    check_memory(f"the random numbers of {training.step_limit} steps", numbers)
    if not np.isfinite(potential).all():
        raise ArgumentError("potential is not finite everywhere.", argument="potential")
    is_seed = (seed >= 0) & (seed < 2**32) & (seed.dtype.kind in "iu")
    within = {
        "weight": (weight, (weight >= 0) & (weight <= 1), "numbers from 0 to 1"),
        "step_size": (step_size, (step_size > 0) & (step_size <= 1), "numbers above 0 and up to 1"),
        "seed": (seed, is_seed, "whole numbers from 0 to 2**32 - 1"),
    }
    for name, (values, is_fine, expected) in within.items():
        if not is_fine.all():  # a NaN is nowhere within
            run = int(is_fine.argmin())
            raise ArgumentError(
                f"{name} is {values[run]} in run {run}; give {expected}.", argument=name
            )


def action_values(
    mdp: MDP, values: Float[np.ndarray, " states"], discount: float
) -> Float[np.ndarray, "states actions"]:
    """Computes one Bellman backup. Terminal rewards are paid on entering, undiscounted."""
    worth = np.where(mdp.terminal, mdp.reward, discount * values)
    return np.stack([mdp.reward + matrix @ worth for matrix in mdp.transitions], axis=1)


def optimal_values(mdp: MDP, discount: float = 1.0) -> Float[np.ndarray, " states"]:
    """Computes the largest expected return from each state, which is 0 in terminal states."""
    discount = check_share("discount", discount)
    values, change = np.zeros(mdp.n_states), np.inf
    for _ in range(MOST_SWEEPS):
        better = np.where(mdp.terminal, 0.0, action_values(mdp, values, discount).max(axis=1))
        change = np.abs(better - values).max()
        values = better
        if change <= TOLERANCE * np.abs(values).max():
            return values
    raise NumericalError(
        f"a value still changes by {change:.2g} after {MOST_SWEEPS} sweeps. Can every state reach "
        "a terminal state?",
        argument="mdp",
    )


def fewest_steps(mdp: MDP) -> Float[np.ndarray, " states"]:
    """Returns the fewest steps of an optimal policy from each state to a terminal state."""
    values = action_values(mdp, optimal_values(mdp), 1.0)
    best = values.max(axis=1, keepdims=True)
    is_best = (values >= best - EQUAL * np.maximum(1, np.abs(best))) & ~mdp.terminal[:, None]
    state, action = np.nonzero(is_best)
    after = mdp.outcomes.next_state[state, action]
    backwards = (after.ravel(), np.repeat(state, after.shape[1]))
    graph = sparse.csr_array((np.ones(after.size), backwards), shape=(mdp.n_states, mdp.n_states))
    terminal = np.flatnonzero(mdp.terminal)
    return sparse.csgraph.dijkstra(graph, indices=terminal, unweighted=True, min_only=True)
