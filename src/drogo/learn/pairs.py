"""Networks from a state s and a goal g to v(s, g). Layers that see one observation alone are
evaluated once for each row of a table, and not for each pair."""

from __future__ import annotations

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from drogo.learn.networks import AbstractNetwork, Outputs, dense, dense_layers, fourier

JOINT = 2
"""The number of layers of an MLP that see both observations."""


class Pairs(NamedTuple):
    """Pairs of a state and a goal, of which the features are rows of two tables."""

    states: Float[Array, "m size"]
    goals: Float[Array, "k size"]
    state: Int[Array, " n"] | None = None
    """The row of each pair's state, or None for all rows in order."""
    goal: Int[Array, " n"] | None = None
    """The row of each pair's goal, or None for all rows in order."""

    def of_states(self, table: Shaped[Array, "m width"]) -> Shaped[Array, "n width"]:
        """Returns the rows of a table over `states` for each pair."""
        return table if self.state is None else table[self.state]


class AbstractPairNetwork(AbstractNetwork):
    """A network of a state and a goal."""

    frequencies: eqx.AbstractVar[int]

    def features(self, inputs: Float[Array, "n ..."]) -> Float[Array, "n size"]:
        return fourier(inputs, self.frequencies)

    @abc.abstractmethod
    def values(self, features: Pairs) -> Float[Array, "n ..."]: ...


class PairDense(AbstractPairNetwork):
    """Layers of rectified units on each observation alone, and then on the sum of both."""

    of_state: tuple[eqx.nn.Linear, ...]
    of_goal: tuple[eqx.nn.Linear, ...]
    layers: tuple[eqx.nn.Linear, ...]
    frequencies: int = eqx.field(static=True)
    negative: bool = eqx.field(static=True)
    """Whether outputs are below 0 by construction, because the loss pushes up harder than down
    where values are not known."""

    def __init__(
        self,
        size: int,
        frequencies: int,
        key: PRNGKeyArray,
        width: int = 256,
        depth: int = 2,
        outputs: Outputs = "scalar",
        *,
        negative: bool = False,
    ):
        self.frequencies, self.negative = frequencies, negative
        sizes = [size * (1 + 2 * frequencies), *[width] * depth]
        first, second, third = jax.random.split(key, 3)
        self.of_state = dense_layers(sizes, width, jax.random.split(first, depth + 1))
        self.of_goal = dense_layers(sizes, width, jax.random.split(second, depth + 1))
        self.layers = dense_layers([width] * JOINT, outputs, jax.random.split(third, JOINT))

    def values(self, features: Pairs) -> Float[Array, "n ..."]:
        state = features.of_states(dense(self.of_state, features.states))
        goal = dense(self.of_goal, features.goals)
        goal = goal if features.goal is None else goal[features.goal]
        out = dense(self.layers, jax.nn.relu(state + goal))
        return -jax.nn.softplus(out) if self.negative else out


class QuasimetricNetwork(AbstractPairNetwork):
    """Minus an interval quasimetric embedding (Wang and Isola, 2022) of both observations.

    An encoder takes an observation to `components` lists of numbers. The distance in a component is
    the length of the union of the intervals [x, max(x, y)] over the numbers x of the state and y of
    the goal, and that of the two is a mixture of the largest and the mean of these lengths. So
    v(g, g) = 0, v <= 0 and v(s, g) >= v(s, h) + v(h, g) hold for all parameters and observations.
    """

    layers: tuple[eqx.nn.Linear, ...]
    mixing: Float[Array, ""]
    """The logit of the share of the largest length."""
    components: int = eqx.field(static=True)
    frequencies: int = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        frequencies: int,
        key: PRNGKeyArray,
        width: int = 256,
        depth: int = 2,
        components: int = 32,
        length: int = 8,
    ):
        self.frequencies, self.components = frequencies, components
        sizes = [size * (1 + 2 * frequencies), *[width] * depth]
        keys = jax.random.split(key, depth + 1)
        self.layers = dense_layers(sizes, components * length, keys)
        self.mixing = jnp.zeros(())

    def values(self, features: Pairs) -> Float[Array, " n"]:
        left, right = (dense(self.layers, part) for part in (features.states, features.goals))
        shape = (-1, self.components, left.shape[1] // self.components)
        # Intervals are taken in the order of their left ends, which is that of the state alone.
        order = jnp.argsort(jax.lax.stop_gradient(left).reshape(shape), axis=-1)
        first = jnp.arange(self.components)[None, :, None] * shape[-1]
        places = (first + order).reshape(left.shape)
        x = features.of_states(jnp.take_along_axis(left, places, axis=1)).reshape(shape)
        goal = jnp.arange(len(right)) if features.goal is None else features.goal
        y = right[goal[:, None], features.of_states(places)].reshape(shape)
        lengths = union_length(x, y)
        share = jax.nn.sigmoid(self.mixing)
        return -(share * lengths.max(axis=1) + (1 - share) * lengths.mean(axis=1))


def union_length(
    left: Float[Array, "*batch length"], right: Float[Array, "*batch length"]
) -> Float[Array, "*batch"]:
    """Computes the length of the union of the intervals [x, max(x, y)] over the last axis. In the
    order of their left ends, each interval adds what is beyond all right ends before it."""
    right = jnp.maximum(left, right)
    reach = jax.lax.cummax(right, axis=right.ndim - 1)
    before = jnp.concatenate([left[..., :1], reach[..., :-1]], axis=-1)
    return jax.nn.relu(right - jnp.maximum(left, before)).sum(axis=-1)
