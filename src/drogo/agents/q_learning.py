"""Tabular Q-learning of many *lanes* in one program. A lane is one seed with one setting.

All lanes take their steps together, as a few operations on small arrays, so that hundreds of lanes
cost little more than one. Random numbers belong to a seed and not to a lane: all settings see the
same ones, and the result of a lane does not depend on the others.

Q starts at 0. The agent takes a uniformly random action with probability epsilon, and otherwise the
first of the greedy actions. It bootstraps from truncated steps, but not from terminal states. Every
`every` steps, one greedy episode with random choices among equal actions gives a point of the
learning curve: its original, undiscounted return.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.agents.task import Task, draw_random_numbers, draw_start, make_task, shaped_rewards
from drogo.agents.training import Agent, Lanes, advance
from drogo.agents.value_iteration import optimal_values
from drogo.data.arrays import column, plain
from drogo.device import to_device
from drogo.errors import ArgumentError, check_whole
from drogo.files import check_memory
from drogo.mdp import MDP

MOST_EVALUATIONS_A_CALL = 20
"""Evaluations between two calls of `progress`, and two chances to interrupt."""
RETURN_TOLERANCE = 1e-5
"""Returns are added up in single precision; with a smaller relative difference they are equal."""
BYTES_OF_STEP = 16
"""Four random numbers in single precision."""
BEFORE_TRAINING = 2**31
"""The phase whose random numbers choose the very first states."""

Progress = Callable[[int], None]
"""Called with the number of evaluations that are done."""


@dataclass(frozen=True, eq=False)
class Runs:
    """The result of `q_learning`.

    Args:
        returns: The original, undiscounted return of each evaluation.
        arrived: Whether its episode ended in a terminal state, and was not cut by the step limit.
        best_return: The largest expected return from the first state of each evaluation.
        every: The number of training steps between evaluations.
        low_reward_visits: Visits to low-reward states during training.
        q: The action values after training.
    """

    returns: Float[np.ndarray, "*lanes evaluations"]
    arrived: Bool[np.ndarray, "*lanes evaluations"]
    best_return: Float[np.ndarray, "*lanes evaluations"]
    every: int
    low_reward_visits: Int[np.ndarray, "*lanes"]
    q: Float[np.ndarray, "*shape states actions"]

    @cached_property
    def steps_to_optimal(self) -> Float[np.ndarray, "*lanes"]:
        """Training steps until this and all later evaluations are optimal, or inf.

        An episode that was cut is not, however much it earned: it did not pay for the rest of its
        way.
        """
        tolerance = RETURN_TOLERANCE * np.maximum(1, np.abs(self.best_return))
        optimal = self.arrived & (self.returns >= self.best_return - tolerance)
        stays = np.logical_and.accumulate(optimal[..., ::-1], axis=-1)[..., ::-1]
        return np.where(stays.any(axis=-1), (stays.argmax(axis=-1) + 1.0) * self.every, np.inf)


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
    """Trains all lanes with the reward `(1 - weight) r + weight (discount phi(s') - phi(s))`.

    Args:
        mdp: The MDP.
        potential: The potential phi of each lane. It counts in terminal states too, as in the
            paper; set it to 0 there if it should not.
        weight: The weight of the shaping reward in each lane; 0 is no shaping.
        step_size: The step size of each lane.
        seed: The seed of each lane.
        step_limit: The number of steps after which an episode is truncated.
        low_reward: The states whose visits are counted.
        steps: The number of training steps.
        every: The number of training steps between evaluations.
        discount: The discount of the agents.
        epsilon: The probability of a random action.
        progress: Called now and then with the number of evaluations that are done.
        threads: How many threads share the lanes, by default one for each core. The result does
            not depend on it.

    Returns:
        Learning curves, visits and action values of all lanes.
    """
    one_per_lane = {"weight": weight, "step_size": step_size, "seed": seed}
    weight, step_size, seed = (column(*given) for given in one_per_lane.items())
    potential = plain("potential", potential)
    check_lanes(mdp, potential, weight, step_size, seed)
    check_counts(steps, every, step_limit, seed)
    task = make_task(mdp, low_reward, discount, epsilon)
    lanes, rounds = len(weight), steps // every
    workers = min(threads or os.cpu_count() or 1, lanes)
    groups = []
    # Equal parts, since each size is compiled: some lanes may be in two groups.
    for k in np.resize(np.arange(lanes), (workers, -(-lanes // workers))):
        rewards = shaped_rewards(task, mdp, potential[k], weight[k])
        groups.append(first_lanes(task, rewards, step_size[k], seed[k]))
    at_once = max(k for k in range(1, MOST_EVALUATIONS_A_CALL + 1) if rounds % k == 0)

    def work(done: int, group: Lanes) -> tuple[Lanes, tuple[jax.Array, ...]]:
        evaluations = jnp.arange(done, done + at_once, dtype=jnp.uint32)
        return jax.block_until_ready(advance(task, group, evaluations, every, step_limit))

    curves = []
    with ThreadPoolExecutor(workers) as pool:
        for done in range(0, rounds, at_once):
            groups, evaluated = zip(*pool.map(partial(work, done), groups), strict=True)
            parts = zip(*evaluated, strict=True)
            curves.append([np.concatenate(part, axis=1)[:, :lanes] for part in parts])
            if progress is not None:
                progress(done + at_once)
    returns, arrived, starts = (np.concatenate(part).T for part in zip(*curves, strict=True))
    return Runs(
        returns=returns.astype(np.float64),
        arrived=arrived,
        best_return=optimal_values(mdp)[starts],
        every=every,
        low_reward_visits=np.concatenate([group.agents.visits for group in groups])[:lanes],
        q=np.concatenate([group.agents.q for group in groups])[:lanes],
    )


def first_lanes(task: Task, rewards: np.ndarray, step_size: np.ndarray, seed: np.ndarray) -> Lanes:
    """Returns lanes before their first step."""
    seeds, seed_of_lane = np.unique(seed, return_inverse=True)
    seeds, seed_of_lane = to_device(seeds, jnp.uint32), to_device(seed_of_lane, jnp.int32)

    def start(seed: jax.Array) -> jax.Array:
        random = draw_random_numbers(seed, jnp.uint32(BEFORE_TRAINING), steps=1)
        return draw_start(task, jax.tree.map(lambda part: part[0], random))

    zeros = jnp.zeros(len(seed), dtype=jnp.int32)
    state = jax.vmap(start)(seeds)[seed_of_lane]
    agents = Agent(jnp.zeros(rewards.shape[:3]), state, steps=zeros, visits=zeros)
    sizes = to_device(step_size, dtype=jnp.float32)
    return Lanes(agents, to_device(rewards), sizes, seeds, seed_of_lane)


def check_counts(steps: int, every: int, step_limit: int, seed: np.ndarray) -> None:
    """Raises an error unless these numbers of steps are possible."""
    for name, count in (("steps", steps), ("every", every), ("step_limit", step_limit)):
        check_whole(name, count, 1)
    if steps % every:
        raise ArgumentError(f"steps is {steps}; it must be a multiple of every, which is {every}.")
    numbers = BYTES_OF_STEP * int(step_limit) * len(np.unique(seed))
    check_memory(f"the random numbers of an episode of {step_limit} steps", numbers)


def check_lanes(
    mdp: MDP, potential: np.ndarray, weight: np.ndarray, step_size: np.ndarray, seed: np.ndarray
) -> None:
    """Raises an error unless there are a potential, a weight, a step size and a seed per lane."""
    lanes = len(weight)
    shapes = {weight.shape, step_size.shape, seed.shape}
    if potential.shape != (lanes, mdp.n_states) or shapes != {(lanes,)} or not lanes:
        raise ArgumentError(
            f"potential {potential.shape}, weight {weight.shape}, step_size {step_size.shape} and "
            f"seed {seed.shape} must have a row for each lane, and potential {mdp.n_states} states."
        )
    if not np.isfinite(potential).all():
        raise ArgumentError("potential is not finite everywhere.")
    is_seed = (seed >= 0) & (seed < 2**32) & (seed.dtype.kind in "iu")
    within = {
        "weight": (weight, (weight >= 0) & (weight <= 1), "numbers from 0 to 1"),
        "step_size": (step_size, (step_size > 0) & (step_size <= 1), "numbers above 0 and up to 1"),
        "seed": (seed, is_seed, "whole numbers from 0 to 2**32 - 1"),
    }
    for name, (values, is_fine, expected) in within.items():
        if not is_fine.all():  # a NaN is nowhere within
            lane = int(is_fine.argmin())
            raise ArgumentError(f"{name} is {values[lane]} in lane {lane}; give {expected}.")
