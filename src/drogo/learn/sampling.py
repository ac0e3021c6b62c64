"""Which transitions each update sees.

Batches are drawn on the host, where that is cheap, as a few arrays for each update (`Draw`), and
put together on the device (`DeviceData`). A draw depends only on a seed and the number of the
update, so an interrupted run continues with the very same batches, and the batches of a seed do not
depend on which other seeds are trained beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
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
ROWS_PER_CHUNK = 2**25
"""The most transitions that are drawn at once."""


class Draw(NamedTuple):
    """What was drawn for each update and seed; on the device, for one update and seed."""

    weight: Float[Array, "*draws n"]
    second_weight: Float[Array, "*draws n"] | None = None
    rows: Int[Array, "*draws n"] | None = None
    second_rows: Int[Array, "*draws n"] | None = None
    observations: Shaped[Array, "*draws n ..."] | None = None
    """The prepared observations of these rows, if the table is too large for the device."""
    next_observations: Shaped[Array, "*draws n ..."] | None = None


class Rows(eqx.Module):
    """Transitions on the device."""

    state: Int[Array, " rows"]
    next_state: Int[Array, " rows"]
    reward: Float[Array, " rows"]
    terminated: Bool[Array, " rows"]
    terminal_value: Float[Array, " rows"]


class DeviceData(eqx.Module):
    """What batches are put together from.

    A batch of a small world is a weight for each of its distinct transitions, and the features of
    all its observations. From a larger world the transitions of a batch are gathered.
    """

    rows: Rows
    share: Float[Array, " rows"] | None
    """In a small world, how often each distinct transition occurs in the data, as a share of all;
    otherwise None."""
    features: Features | None
    """Features of the table of observations, if they were made beforehand."""
    observations: Shaped[Array, "distinct ..."]
    """The table itself, prepared, if there are no features; empty if draws bring their
    observations."""

    def batch(self, learner: Learner, draw: Draw | None) -> Batch:
        """Returns the batch of a draw; None stands for all transitions at once."""
        if draw is None:
            assert self.share is not None
            return Batch(self.features, None, **vars(self.rows), weight=self.share, complete=True)
        if draw.rows is None:
            second = draw.second_weight
            columns = vars(self.rows)
            return Batch(self.features, None, **columns, weight=draw.weight, second_weight=second)
        rows = jax.tree.map(lambda column: column[draw.rows], self.rows)
        if draw.observations is not None and draw.next_observations is not None:
            shown = (draw.observations, draw.next_observations)
            both = [learner.skeleton.features(learner.inputs.finish(part)) for part in shown]
        else:
            both = (self._features(learner, rows.state), self._features(learner, rows.next_state))
        second = None
        if draw.second_rows is not None:
            second = self._features(learner, self.rows.state[draw.second_rows])
        columns = vars(rows) | {"state": None, "next_state": None}
        return Batch(*both, **columns, weight=draw.weight, second_features=second)

    def _features(self, learner: Learner, states: Int[Array, " n"]) -> Features:
        if self.features is None:
            return learner.skeleton.features(learner.inputs.finish(self.observations[states]))
        return learner.skeleton.take(self.features, states)


@dataclass(frozen=True)
class Group:
    """Transitions that make up a fixed part of every batch."""

    rows: Int[np.ndarray, " n"]
    taken: int
    """How many of them are in a batch."""
    weight: float
    """The weight of all that are taken together."""


@dataclass(frozen=True)
class Sampler:
    """Draws shuffled mini-batches on the host.

    Args:
        seeds: The seeds.
        groups: What a batch is made of. Without any, every update uses all transitions.
        second: Whether an independent second batch is drawn for each.
        edge_of_row: In a small world, the distinct transition that each transition is.
        streamed: Reads the observations in which given transitions begin and end, if they are not
            kept on the device.
        longest: The most updates that are drawn at once.
    """

    seeds: list[int]
    groups: list[Group]
    second: bool = False
    edge_of_row: Int[np.ndarray, " n"] | None = None
    streamed: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    longest: int = LONGEST_CHUNK

    def draw(self, update: int, count: int) -> Draw | None:
        """Returns the draws of `count` updates from `update` on: arrays of shape (updates, seeds,
        ...), filled up to `longest` updates; None for all transitions at once."""
        if not self.groups:
            return None
        streams = (FIRST, SECOND) if self.second else (FIRST,)
        drawn = [draw_rows(self.groups, self.seeds, update, count, stream) for stream in streams]
        if self.edge_of_row is not None:
            edges = int(self.edge_of_row.max()) + 1
            draw = Draw(*(self._filled(shares(self.edge_of_row[rows], edges)) for rows in drawn))
        else:
            weight = np.broadcast_to(weights_of(self.groups), drawn[0].shape)
            draw = Draw(self._filled(weight), None, *map(self._filled, drawn))
        if self.streamed is None:
            return draw
        before, after = map(self._filled, self.streamed(drawn[0]))
        return draw._replace(observations=before, next_observations=after)

    def _filled(self, part: np.ndarray) -> Array:
        rest = np.zeros((self.longest - len(part), *part.shape[1:]), dtype=part.dtype)
        return jnp.asarray(np.concatenate([part, rest]))


def shares(
    edges: Int[np.ndarray, "updates seeds batch"], number: int
) -> Float32[np.ndarray, "updates seeds edges"]:
    """Returns how often each of a number of edges occurs in each batch, as a share of it."""
    updates, seeds, size = edges.shape
    batch = np.arange(updates * seeds).reshape(updates, seeds, 1)
    counted = np.bincount((batch * number + edges).ravel(), minlength=updates * seeds * number)
    return (counted / size).astype(np.float32).reshape(updates, seeds, number)


def draw_rows(
    groups: list[Group], seeds: list[int], update: int, count: int, stream: int
) -> Int[np.ndarray, "updates seeds batch"]:
    """Returns the transitions of each update and seed, group by group."""
    drawn = []
    for k, group in enumerate(groups):
        sizes = (group.rows.size, group.taken)
        of_seeds = [shuffled(*sizes, [seed, stream + 2 * k], update, count) for seed in seeds]
        drawn.append(group.rows[np.stack(of_seeds, axis=1)])
    return np.concatenate(drawn, axis=-1).astype(np.int32)


def shuffled(
    n: int, batch_size: int, seed: list[int], start: int, count: int
) -> Int[np.ndarray, "updates batch"]:
    """Returns the mini-batches of `count` updates from `start` on, in random order.

    Each epoch is one pass over the data; a remainder smaller than a batch is left out of it.

    Args:
        n: The number of transitions.
        batch_size: The number of them in a batch.
        seed: The seed and the stream.
        start: The first update.
        count: The number of updates.
    """
    per_epoch = n // batch_size
    first, last = start // per_epoch, (start + count - 1) // per_epoch
    epochs = [
        np.random.default_rng([seed[0], epoch, seed[1]]).permutation(n)[: per_epoch * batch_size]
        for epoch in range(first, last + 1)
    ]
    batches = np.concatenate(epochs).reshape(-1, batch_size)
    return batches[start - first * per_epoch :][:count]


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


def weights_of(groups: list[Group]) -> Float32[np.ndarray, " batch"]:
    """Returns the weights of the rows of a batch."""
    parts = [np.full(group.taken, group.weight / group.taken) for group in groups]
    return np.concatenate(parts).astype(np.float32)


def make_data(
    data: Transitions, plan: Plan, learner: Learner, seeds: list[int], config: Config
) -> tuple[DeviceData, Sampler]:
    """Returns the data on the device, and the sampler that suits them.

    Args:
        data: The transitions.
        plan: What of the data is used for what.
        learner: The learner that will be trained.
        seeds: The seeds.
        config: The settings of the fit.
    """
    second = learner.objective.needs_second_batch
    table, features = data.observations, None
    if plan.whole or (plan.repeats and data.are_images):
        features = learner.skeleton.of_table(learner.inputs(np.asarray(table)))
    elsewhere = features is not None or plan.streamed
    on_device = jnp.asarray(learner.inputs.prepare(np.asarray(table[:0] if elsewhere else table)))
    most = ROWS_PER_CHUNK // (len(seeds) * min(config.batch_size, len(data)))
    longest = max(1, min(LONGEST_CHUNK, most))
    if plan.whole:
        share = jnp.asarray(data.edges.count / len(data), dtype=jnp.float32)
        groups = [] if config.full_batches else make_groups(data.terminated, config.batch_size, 0.0)
        sampler = Sampler(seeds, groups, second, data.edges.of_transition, longest=longest)
        return DeviceData(device_rows(data.edges), share, features, on_device), sampler
    with_terminals = not plan.repeats and learner.objective.anchored
    rows = device_rows(data, plan.trained, with_terminals=with_terminals)
    groups = make_groups(np.asarray(rows.terminated), config.batch_size, config.terminal_fraction)
    sampler = Sampler(seeds, groups, second, longest=longest)
    if plan.streamed:
        bytes_per_update = 2 * len(seeds) * config.batch_size * (table.nbytes // len(table))
        longest = max(1, min(longest, BYTES_PER_CHUNK // bytes_per_update))
        ends = (np.asarray(rows.state), np.asarray(rows.next_state))

        def read(which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            both = [learner.inputs.prepare(read_rows(table, end[which].ravel())) for end in ends]
            before, after = (part.reshape(*which.shape, *part.shape[1:]) for part in both)
            return before, after

        sampler = Sampler(seeds, groups, streamed=read, longest=longest)
    return DeviceData(rows, None, features, on_device), sampler


def device_rows(
    source: Transitions | Edges,
    which: slice | np.ndarray = slice(None),
    *,
    with_terminals: bool = False,
) -> Rows:
    """Puts transitions on the device, and with them, if asked for, one row for each arrival at a
    terminal state that says what the state is worth: 1 - exp(terminal_value / lam - v) = 0.

    In a table the values of terminal states are looked up. In a continuous world each terminal
    state is seen once, and the network must learn what they have in common.
    """
    names = Rows.__dataclass_fields__
    parts = {name: getattr(source, name)[which] for name in names}
    if with_terminals:
        arrived = parts["terminated"]
        extra = {name: part[arrived] for name, part in parts.items()}
        extra |= {"state": extra["next_state"], "reward": np.zeros(arrived.sum())}
        parts = {name: np.concatenate([part, extra[name]]) for name, part in parts.items()}
    single = {np.dtype(np.float64): np.float32}
    return Rows(**{n: jnp.asarray(part, single.get(part.dtype)) for n, part in parts.items()})
