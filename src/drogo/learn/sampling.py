"""Which transitions each update sees.

Batches are drawn on the host, where that is cheap, as a few arrays for each update (`Draw`), and
put together on the device (`TableData`, `RowData`). A draw depends only on a seed and the number of
the update, so an interrupted run continues with the very same batches, and the batches of a seed do
not depend on which other seeds are trained beside it.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int, Shaped

from drogo.config import Config
from drogo.data import Transitions
from drogo.data.table import read_rows
from drogo.data.transitions import Edges
from drogo.learn.learner import Batch, Learner
from drogo.learn.networks import Features
from drogo.learn.plan import BYTES_PER_CHUNK, Plan

LONGEST_CHUNK = 100
"""Updates of one compiled call. In between come checkpoints, logging and Ctrl-C."""
FIRST, SECOND = range(2)
"""The streams of random numbers of a batch and of the independent second batch."""


class Draw(NamedTuple):
    """What was drawn for each update and seed; on the device, for one update and seed."""

    weight: Float[Array, "*draws n"]
    second_weight: Float[Array, "*draws n"] | None = None
    rows: Int[Array, "*draws n"] | None = None
    second_rows: Int[Array, "*draws n"] | None = None
    observations: Shaped[Array, "*draws n ..."] | None = None
    """The observations of these rows, if the table is too large for the device."""
    next_observations: Shaped[Array, "*draws n ..."] | None = None


class Rows(eqx.Module):
    """Transitions on the device."""

    state: Int[Array, " rows"]
    next_state: Int[Array, " rows"]
    reward: Float[Array, " rows"]
    terminated: Bool[Array, " rows"]
    terminal_value: Float[Array, " rows"]


class TableData(eqx.Module):
    """The distinct transitions of a small world, and the features of all its observations."""

    features: Features
    rows: Rows
    share: Float[Array, " rows"]
    """How often each of them occurs in the data, as a share of all."""

    def batch(self, learner: Learner, draw: Draw | None) -> Batch:
        """Returns the batch of a draw; None stands for all transitions at once."""
        r = self.rows
        weight, second = (self.share, None) if draw is None else (draw.weight, draw.second_weight)
        return Batch(
            self.features, None, r.state, r.next_state, r.reward, r.terminated, r.terminal_value,
            weight, second_weight=second, complete=draw is None,
        )  # fmt: skip


class RowData(eqx.Module):
    """All transitions of a larger world, from which batches are gathered."""

    features: Features | None
    """Features of the table of observations, if they were made beforehand."""
    observations: Shaped[Array, "distinct ..."]
    """The table itself, if there are no features; empty if batches bring their observations."""
    rows: Rows

    def batch(self, learner: Learner, draw: Draw | None) -> Batch:
        """Returns the batch of a draw."""
        assert draw is not None
        assert draw.rows is not None
        r, rows = self.rows, draw.rows
        state, next_state = r.state[rows], r.next_state[rows]
        if draw.observations is not None and draw.next_observations is not None:
            both = (learner.features(draw.observations), learner.features(draw.next_observations))
        else:
            both = (self._features(learner, state), self._features(learner, next_state))
        second = None
        if draw.second_rows is not None:
            second = self._features(learner, r.state[draw.second_rows])
        return Batch(
            *both, None, None, r.reward[rows], r.terminated[rows], r.terminal_value[rows],
            draw.weight, second_features=second,
        )  # fmt: skip

    def _features(self, learner: Learner, states: Int[Array, " n"]) -> Features:
        if self.features is None:
            return learner.features(self.observations[states])
        return learner.skeleton.take(self.features, states)


class AbstractSampler(abc.ABC):
    """Draws batches on the host."""

    longest: int = LONGEST_CHUNK
    """The most updates that are drawn at once."""

    @abc.abstractmethod
    def draw(self, update: int, count: int) -> Draw | None:
        """Returns the draws of `count` updates from `update` on: arrays of shape (updates, seeds,
        ...), filled up to `longest` updates; None for all transitions at once."""


class Everything(AbstractSampler):
    """Every update uses all transitions."""

    def draw(self, update: int, count: int) -> None:
        return None


@dataclass(frozen=True)
class Shares(AbstractSampler):
    """Shuffled mini-batches, as how often each distinct transition occurs in them."""

    data: Transitions
    seeds: list[int]
    batch_size: int
    second: bool

    def draw(self, update: int, count: int) -> Draw:
        weights = [self._weights(update, count, FIRST)]
        if self.second:
            weights.append(self._weights(update, count, SECOND))
        return Draw(*map(jnp.asarray, weights))

    def _weights(
        self, update: int, count: int, stream: int
    ) -> Float32[np.ndarray, "longest seeds edges"]:
        edges = self.data.edges.count.size
        epochs = Epochs(len(self.data), self.batch_size)
        weights = np.zeros((self.longest, len(self.seeds), edges), dtype=np.float32)
        for k, seed in enumerate(self.seeds):
            at = 0
            for taken in epochs.indices(seed, update, count, stream):
                rows = np.arange(len(taken))[:, None] * edges
                flat = (rows + self.data.edges.of_transition[taken]).ravel()
                counted = np.bincount(flat, minlength=len(taken) * edges).reshape(-1, edges)
                weights[at : at + len(taken), k] = counted / epochs.batch_size
                at += len(taken)
        return weights


@dataclass(frozen=True)
class Gathered(AbstractSampler):
    """Shuffled mini-batches of rows, whose observations are gathered on the device."""

    groups: list[Group]
    seeds: list[int]
    second: bool
    longest: int = LONGEST_CHUNK

    def draw(self, update: int, count: int) -> Draw:
        rows = self._rows(update, count, FIRST)
        weight = jnp.asarray(np.broadcast_to(weights_of(self.groups), rows.shape))
        second = jnp.asarray(self._rows(update, count, SECOND)) if self.second else None
        return Draw(weight, rows=jnp.asarray(rows), second_rows=second)

    def _rows(self, update: int, count: int, stream: int) -> np.ndarray:
        return draw_rows(self.groups, self.seeds, update, count, stream, self.longest)


@dataclass(frozen=True)
class Streamed(AbstractSampler):
    """Shuffled mini-batches whose observations are read from memory or from a file."""

    rows: Gathered
    observations: np.ndarray
    state: np.ndarray
    next_state: np.ndarray
    longest: int

    def draw(self, update: int, count: int) -> Draw:
        draw = self.rows.draw(update, count)
        before, after = (
            jnp.asarray(read_rows(self.observations, part[np.asarray(draw.rows)]))
            for part in (self.state, self.next_state)
        )
        return draw._replace(observations=before, next_observations=after)


@dataclass(frozen=True)
class Epochs:
    """Mini-batches in random order. Each epoch is one pass over the data; a remainder smaller than
    a batch is left out of it."""

    n: int
    batch_size: int

    def indices(self, seed: int, start: int, count: int, stream: int) -> Iterator[np.ndarray]:
        """Yields the transitions of updates `start` to `start + count`, epoch by epoch."""
        per_epoch = self.n // self.batch_size
        update = start
        while update < start + count:
            epoch, first = divmod(update, per_epoch)
            last = min(per_epoch, first + start + count - update)
            order = np.random.default_rng([seed, epoch, stream]).permutation(self.n)
            yield order[: per_epoch * self.batch_size].reshape(-1, self.batch_size)[first:last]
            update += last - first


@dataclass(frozen=True)
class Group:
    """Transitions that make up a fixed part of every batch."""

    rows: Int[np.ndarray, " n"]
    taken: int
    """How many of them are in a batch."""
    weight: float
    """The weight of all that are taken together."""


def make_groups(
    terminated: Bool[np.ndarray, " rows"], batch_size: int, terminal_fraction: float
) -> list[Group]:
    """Returns one group of all transitions, or two: the others and those into terminal states.

    Args:
        terminated: Which transitions reach a terminal state.
        batch_size: The number of transitions in a batch.
        terminal_fraction: The fraction of a batch that reaches one. Weights undo this choice.
    """
    n = terminated.size
    size = min(batch_size, n)
    terminal, others = np.flatnonzero(terminated), np.flatnonzero(~terminated)
    taken = min(int(np.ceil(terminal_fraction * size)), terminal.size, size - 1)
    if taken == 0 or others.size < size - taken:
        return [Group(np.arange(n), size, 1.0)]
    return [
        Group(others, size - taken, others.size / n),
        Group(terminal, taken, terminal.size / n),
    ]


def draw_rows(
    groups: list[Group], seeds: list[int], update: int, count: int, stream: int, longest: int
) -> Int[np.ndarray, "longest seeds batch"]:
    """Returns the transitions of each update and seed, group by group."""
    drawn = []
    for k, group in enumerate(groups):
        epochs = Epochs(group.rows.size, group.taken)
        of_seeds = [
            np.concatenate(list(epochs.indices(seed, update, count, stream + 2 * k)))
            for seed in seeds
        ]
        drawn.append(group.rows[np.stack(of_seeds, axis=1)])
    rows = np.concatenate(drawn, axis=-1).astype(np.int32)
    return np.concatenate([rows, np.zeros((longest - count, *rows.shape[1:]), dtype=np.int32)])


def weights_of(groups: list[Group]) -> Float32[np.ndarray, " batch"]:
    """Returns the weights of the rows of a batch."""
    parts = [np.full(group.taken, group.weight / group.taken) for group in groups]
    return np.concatenate(parts).astype(np.float32)


def make_data(
    data: Transitions, plan: Plan, learner: Learner, seeds: list[int], config: Config
) -> tuple[TableData | RowData, AbstractSampler]:
    """Returns the data on the device, and the sampler that suits them.

    Args:
        data: The transitions.
        plan: What of the data is used for what.
        learner: The learner that will be trained.
        seeds: The seeds.
        config: The settings of the fit.
    """
    second = learner.objective.needs_second_batch
    table = data.observations
    made_beforehand = plan.whole or (plan.repeats and data.are_images)
    features = None
    if made_beforehand:
        features = learner.skeleton.of_table(learner.inputs(np.asarray(table)))
    if plan.whole:
        share = jnp.asarray(data.edges.count / len(data), dtype=jnp.float32)
        batch_size = min(config.batch_size, len(data))
        sampler = Shares(data, seeds, batch_size, second)
        return (
            TableData(features, _rows(data.edges, slice(None)), share),
            Everything() if config.full_batches else sampler,
        )
    with_terminals = not plan.repeats and learner.objective.anchored
    rows = _rows(data, plan.trained, with_terminals=with_terminals)
    groups = make_groups(np.asarray(rows.terminated), config.batch_size, config.terminal_fraction)
    if plan.streamed:
        bytes_per_update = 2 * len(seeds) * config.batch_size * (table.nbytes // len(table))
        longest = max(1, min(LONGEST_CHUNK, BYTES_PER_CHUNK // bytes_per_update))
        state, next_state = np.asarray(rows.state), np.asarray(rows.next_state)
        rows_of = Gathered(groups, seeds, False, longest)
        sampler = Streamed(rows_of, table, state, next_state, longest)
        return RowData(None, jnp.asarray(table[:0]), rows), sampler
    shown = table[:0] if made_beforehand else table
    return RowData(features, jnp.asarray(shown), rows), Gathered(groups, seeds, second)


def _rows(
    source: Transitions | Edges, which: slice | np.ndarray, with_terminals: bool = False
) -> Rows:
    """Puts transitions on the device, and with them, if asked for, one row for each arrival at a
    terminal state that says what the state is worth: 1 - exp(terminal_value / lam - v) = 0.

    In a table the values of terminal states are looked up. In a continuous world each terminal
    state is seen once, and the network must learn what they have in common.
    """
    names = ("state", "next_state", "reward", "terminated", "terminal_value")
    parts = {name: getattr(source, name)[which] for name in names}
    if with_terminals:
        arrived = parts["terminated"]
        reached = parts["next_state"][arrived]
        extra = {
            "state": reached,
            "next_state": reached,
            "reward": np.zeros(reached.size),
            "terminated": np.ones(reached.size, dtype=bool),
            "terminal_value": parts["terminal_value"][arrived],
        }
        parts = {name: np.concatenate([part, extra[name]]) for name, part in parts.items()}
    floats = ("reward", "terminal_value")
    return Rows(**{
        name: jnp.asarray(part, dtype=jnp.float32 if name in floats else part.dtype)
        for name, part in parts.items()
    })  # fmt: skip
