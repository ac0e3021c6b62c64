"""The compiled updates of a learner and its state, which are called with little overhead.

`equinox.filter_jit` takes a learner and its state apart at every call, which takes longer than some
updates. Here they are kept apart: their arrays, and the rest, which can be hashed.
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
from jaxtyping import Array, Bool, Float, Int

from drogo.use.online.learner import OnlineLearner
from drogo.use.online.moment import ONE_THREAD, Moment
from drogo.use.online.state import OnlineState
from drogo.use.online.steps import Steps

PROGRAMS_KEPT = 8
"""Compiled programs are kept for the last learners that differ in more than their arrays."""
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


def advance(parts: Parts, steps: Steps, updates: int) -> tuple[Parts, Float[Array, ""], Moment]:
    """Takes at most a chunk of steps, and makes some updates. The arrays of the state that was
    given are given up.

    Args:
        parts: A learner and its state.
        steps: The steps.
        updates: How many updates.

    Returns:
        The same with its new state, the last loss, and what the map says then.
    """
    n = len(steps.reward)
    size = next(chunk for chunk in CHUNKS if n <= chunk)
    filled = Steps(*(np.resize(column, (size, *column.shape[1:])) for column in steps))
    run = _advancing(parts.rest)
    of_state, *others = run(
        parts.of_learner, parts.of_state, filled, np.arange(size) < n, np.asarray(updates, np.int32)
    )
    return parts._replace(of_state=of_state), *others


@functools.lru_cache(maxsize=PROGRAMS_KEPT)
def _advancing(rest: Rest) -> Callable[..., Any]:
    @functools.partial(jax.jit, donate_argnums=1, compiler_options=ONE_THREAD)
    def run(
        of_learner: list[Array],
        of_state: list[Array],
        steps: Steps,
        chosen: Bool[Any, " n"],
        updates: Int[Any, ""],
    ) -> tuple[list[Array], Array, Moment]:
        learner, state = put_together(Parts(of_learner, of_state, rest))
        state = learner.observe(state, steps, chosen)

        def update(_: Array, carry: tuple[OnlineState, Array]) -> tuple[OnlineState, Array]:
            return learner.update(carry[0])

        first = (state, jnp.zeros(()))
        state, loss = jax.lax.fori_loop(0, jnp.asarray(updates), update, first)
        # A copy: the state itself is given up at the next call.
        moment = jax.tree.map(jnp.copy, learner.moment(state))
        return jax.tree.leaves(eqx.filter(state, eqx.is_array)), loss, moment

    return run
