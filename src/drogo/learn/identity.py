"""Digests and names, by which a file or a checkpoint is known to belong to a fit."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import jax
import numpy as np

from drogo.data import Transitions
from drogo.data.table import read_rows
from drogo.learn.learner import Learner

MOST_HASHED = 20_000
"""Observations that go into the digest of a data set."""


def describe(part: Any) -> str:
    """Returns the name of an object that a user gave, for a file or a message."""
    part = part.func if isinstance(part, partial) else part
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"


def data_digest(data: Transitions) -> str:
    """Returns a digest of some transitions; of a long table of observations, of a part."""
    table = data.observations
    every = max(1, len(table) // MOST_HASHED)
    shown = table if every == 1 else read_rows(table, np.arange(0, len(table), every))
    columns = (data.state, data.next_state, data.reward, data.terminated, data.terminal_reward)
    actions = (part for part in (data.action, data.default) if part is not None)
    return digest_of(shown, *columns, data.weight, *actions)


def digest_of(*arrays: np.ndarray) -> str:
    """Returns a digest of some arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def fingerprint(learner: Learner, params: Any) -> str:
    """Returns a digest of what an optimiser of the user's own computes, its numbers included."""
    one = jax.tree.map(lambda leaf: leaf[0], params)
    with jax.numpy_dtype_promotion("standard"):
        program = jax.make_jaxpr(learner.optimiser.update)(one, learner.optimiser.init(one), one)
    return hashlib.sha256(f"{program} {program.consts}".encode()).hexdigest()[:16]
