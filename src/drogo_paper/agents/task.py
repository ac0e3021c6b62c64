"""An MDP as arrays, and the random numbers that decide its transitions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int, Integer

from drogo.device import to_device
from drogo.errors import ArgumentError, check_share
from drogo.mdp import MDP


class Task(NamedTuple):
    """An MDP as arrays, in which all actions have the same number of possible outcomes."""

    next_state: Int[Array, "states actions outcomes"]
    cumulative: Float[Array, "states actions outcomes"]
    """The cumulative probabilities of the outcomes."""
    reward: Float[Array, " states"]
    """The reward of leaving a state, or of entering it if it is terminal."""
    terminal: Bool[Array, " states"]
    low_reward: Bool[Array, " states"]
    starts: Int[Array, " starts"]
    start_cumulative: Float[Array, " starts"]
    discount: Float[Array, ""]
    epsilon: Float[Array, ""]
    zero: Int[Array, ""]
    """A zero that the compiler cannot see; `training.rounded` needs it."""


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
    """Samples the first state of an episode."""
    return task.starts[draw(task.start_cumulative, random.start)]


def make_task(mdp: MDP, low_reward: np.ndarray | None, discount: float, epsilon: float) -> Task:
    """Returns an MDP as arrays."""
    if low_reward is not None:
        is_array = isinstance(low_reward, np.ndarray)
        shape, kind = (low_reward.shape, low_reward.dtype) if is_array else ((), type(low_reward))
        if (shape, kind) != ((mdp.n_states,), bool):
            raise ArgumentError(
                f"low_reward is an array {shape} of {kind}; it must be a mask, with True or False "
                f"for each of {mdp.n_states} states.",
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
        low_reward=jnp.zeros(mdp.n_states, bool) if low_reward is None else to_device(low_reward),
        starts=to_device(starts, dtype=jnp.int32),
        start_cumulative=to_device(start_cumulative, dtype=jnp.float32),
        discount=jnp.float32(check_share("discount", discount)),
        epsilon=jnp.float32(check_share("epsilon", epsilon)),
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
