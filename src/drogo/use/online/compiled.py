"""Compiled functions of a learner and its state, which are called with little overhead.

`equinox.filter_jit` takes a learner and its state apart at every call, which takes longer than to
evaluate a small network. Here they are kept apart: their arrays, and the rest, which can be hashed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from drogo.use.online.learner import OnlineLearner, OnlineState
from drogo.use.online.steps import Replay, Steps

CHUNKS = (8, 64)
"""Steps go to the device in chunks of one of these sizes, since each size is compiled."""


@dataclass(frozen=True)
class Rest:
    """What is not an array, with its hash, which takes long to compute.

    Args:
        structure: Where the arrays are.
        leaves: The other leaves.
        others: Where these are.
    """

    structure: Any
    leaves: tuple[Any, ...]
    others: Any

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.structure, self.leaves, self.others))

    def __hash__(self) -> int:
        return self._hash


class Parts(NamedTuple):
    """A learner and its state, taken apart."""

    of_learner: list[Array]
    of_state: list[Array]
    rest: Rest


class Facts(NamedTuple):
    """What is asked of a state again and again."""

    mean_step: Float[Array, ""]
    updates: Int[Array, ""]
    diverged_at: Int[Array, ""]


def take_apart(learner: OnlineLearner, state: OnlineState) -> Parts:
    """Returns a learner and its state as parts.

    Args:
        learner: The learner.
        state: Its state.
    """
    arrays, others = eqx.partition((learner, state), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    other_leaves, other_structure = jax.tree.flatten(others)
    first = len(jax.tree.leaves(arrays[0]))
    rest = Rest(structure, tuple(other_leaves), other_structure)
    return Parts(leaves[:first], leaves[first:], rest)


def put_together(parts: Parts) -> tuple[OnlineLearner, OnlineState]:
    """Returns the learner and the state that some parts are of.

    Args:
        parts: The parts.
    """
    rest = parts.rest
    others = jax.tree.unflatten(rest.others, rest.leaves)
    arrays = jax.tree.unflatten(rest.structure, parts.of_learner + parts.of_state)
    return eqx.combine(arrays, others)


def facts_of(state: OnlineState) -> Facts:
    """Returns what is asked of a state again and again.

    Args:
        state: The state.
    """
    training = state.training
    return Facts(state.mean_step, training.update, training.diverged_at)


def advance(parts: Parts, steps: Steps, updates: int) -> tuple[Parts, Float[Array, ""], Facts]:
    """Takes at most a chunk of steps, and makes some updates. The arrays of the state that was
    given are given up.

    Args:
        parts: A learner and its state.
        steps: The steps.
        updates: How many updates.

    Returns:
        The same with its new state, the last loss, and the facts of that state.
    """
    n = len(steps.reward)
    size = next(chunk for chunk in CHUNKS if n <= chunk)
    filled = Steps(*(np.resize(column, (size, *column.shape[1:])) for column in steps))
    run = _advancing(parts.rest)
    of_state, *others = run(
        parts.of_learner, parts.of_state, filled, np.arange(size) < n, np.asarray(updates, np.int32)
    )
    return parts._replace(of_state=of_state), *others


@functools.cache
def _advancing(rest: Rest) -> Callable[..., Any]:
    @functools.partial(jax.jit, donate_argnums=1)
    def run(
        of_learner: list[Array],
        of_state: list[Array],
        steps: Steps,
        chosen: Bool[Any, " n"],
        updates: Int[Any, ""],
    ) -> tuple[list[Array], Array, Facts]:
        learner, state = put_together(Parts(of_learner, of_state, rest))
        state = learner.observe(state, steps, chosen)

        def update(_: Array, carry: tuple[OnlineState, Array]) -> tuple[OnlineState, Array]:
            return learner.update(carry[0])

        first = (state, jnp.zeros(()))
        state, loss = jax.lax.fori_loop(0, jnp.asarray(updates), update, first)
        # A copy of these few numbers: the state itself is given up at the next call.
        facts = jax.tree.map(lambda number: number + jnp.zeros_like(number), facts_of(state))
        return jax.tree.leaves(eqx.filter(state, eqx.is_array)), loss, facts

    return run


def of_batch(
    function: Callable[..., Array], parts: Parts, observations: Shaped[np.ndarray, "n ..."]
) -> np.ndarray:
    """Calls a compiled function of a learner, its state and a batch, filled up to a power of two.

    Args:
        function: A method of `OnlineLearner`.
        parts: A learner and its state.
        observations: The batch.
    """
    n = len(observations)
    filled = np.resize(observations, (1 << (n - 1).bit_length(), *observations.shape[1:]))
    evaluated = _compiled(function, parts.rest)
    return np.asarray(evaluated(parts.of_learner, parts.of_state, filled))[:n]


@functools.cache
def _compiled(function: Callable[..., Array], rest: Rest) -> Callable[..., Array]:
    @jax.jit
    def evaluated(
        of_learner: list[Array], of_state: list[Array], observations: Shaped[Any, "n ..."]
    ) -> Array:
        learner, state = put_together(Parts(of_learner, of_state, rest))
        return function(learner, state, jnp.asarray(observations))

    return evaluated


@eqx.filter_jit
def frozen(learner: OnlineLearner, state: OnlineState) -> tuple[OnlineState, Bool[Array, ""]]:
    """Returns a copy of what a state says of observations, without the steps that it learned from,
    and whether everything was tried. Its parameters are the running mean: those of a single update
    jump about. A copy, because the arrays of the state itself are given up at its next update.

    Args:
        learner: The learner.
        state: Its state.
    """
    few = Replay.empty(1, jnp.zeros((), jnp.uint8))
    kept = eqx.tree_at(
        lambda s: (s.training.params, s.replay, s.ends), state, (state.average, few, few)
    )
    return jax.tree.map(jnp.copy, kept), learner.is_done(state)
