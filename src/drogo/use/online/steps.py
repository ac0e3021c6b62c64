"""Steps of one or several environments, and a bounded store of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped


class Steps(NamedTuple):
    """Some steps, one in each row, as arrays of NumPy or of JAX."""

    observation: Shaped[Any, "n ..."]
    """What was left."""
    action: Int[Any, " n"]
    reward: Float[Any, " n"]
    """The reward of the step, without the value of a terminal state."""
    next_observation: Shaped[Any, "n ..."]
    """What was reached: of the last step of an episode, its own last observation."""
    terminated: Bool[Any, " n"]
    """Whether that is a terminal state. A time limit does not make it one."""
    terminal_reward: Float[Any, " n"]
    """The value of the terminal state in units of reward; elsewhere 0."""


class Replay(eqx.Module):
    """The last steps, as many as there is room for. All functions are pure."""

    steps: Steps
    added: Int[Array, ""]
    """How many steps were ever added."""

    @classmethod
    def empty(cls, capacity: int, observation: Shaped[Any, ...]) -> Replay:
        """Returns room for some steps.

        Args:
            capacity: How many.
            observation: An observation, or anything of its shape and type.
        """
        observations = jnp.zeros((capacity, *observation.shape), observation.dtype)
        none = jnp.zeros(capacity)
        actions, ended = jnp.zeros(capacity, jnp.int32), jnp.zeros(capacity, bool)
        steps = Steps(observations, actions, none, observations.copy(), ended, none.copy())
        return cls(steps, jnp.zeros((), jnp.int32))

    @property
    def capacity(self) -> int:
        return self.steps.reward.shape[0]

    @property
    def size(self) -> Int[Array, ""]:
        """How many steps there are."""
        return jnp.minimum(self.added, self.capacity)

    def add(self, steps: Steps, chosen: Bool[Array, " n"]) -> Replay:
        """Returns the store with more steps, in place of the oldest ones if there is no room.

        Args:
            steps: At most as many as there is room for.
            chosen: Which of them to add.
        """
        place = self.places(chosen)
        kept = jax.tree.map(
            lambda old, new: old.at[place].set(jnp.asarray(new, old.dtype), mode="drop"),
            self.steps,
            steps,
        )
        return Replay(kept, self.added + chosen.sum(dtype=jnp.int32))

    def places(self, chosen: Bool[Array, " n"]) -> Int[Array, " n"]:
        """Returns where `add` puts steps: beyond the end, where nothing is written, those that are
        not chosen.

        Args:
            chosen: Which steps would be added.
        """
        place = (self.added + jnp.cumsum(chosen) - 1) % self.capacity
        return jnp.where(chosen, place, self.capacity)

    def draw(self, key: Array, n: int) -> Steps:
        """Returns steps that are drawn with replacement. There must be at least one."""
        return self.take(jax.random.randint(key, (n,), 0, jnp.maximum(self.size, 1)))

    def take(self, rows: Int[Array, " n"]) -> Steps:
        """Returns some of the steps by their places."""
        return jax.tree.map(lambda part: part[rows], self.steps)
