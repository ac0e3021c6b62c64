"""Which transitions each update sees. Drawn outside the compiled program, where it is cheap.

A draw depends on a seed and the number of the update alone, so that an interrupted run goes on with
the very same batches, and a seed's batches do not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int

from drogo.data.transitions import Transitions

STREAMS = 2
FIRST, SECOND = range(STREAMS)
"""The batch itself, and the independent one of the penalised objectives."""


@dataclass(frozen=True)
class Epochs:
    """Mini-batches in random order, each epoch one pass; a remainder smaller than a batch waits."""

    n: int
    batch_size: int

    @property
    def per_epoch(self) -> int:
        return self.n // self.batch_size

    def indices(self, seed: int, start: int, count: int, stream: int) -> Iterator[np.ndarray]:
        """The transitions of updates `start` to `start + count`, epoch by epoch."""
        update = start
        while update < start + count:
            epoch, first = divmod(update, self.per_epoch)
            last = min(self.per_epoch, first + start + count - update)
            order = np.random.default_rng([seed, epoch, stream]).permutation(self.n)
            taken = order[: self.per_epoch * self.batch_size].reshape(-1, self.batch_size)
            yield taken[first:last]
            update += last - first


@dataclass(frozen=True)
class Group:
    """Transitions that make up a fixed part of every batch."""

    rows: Int[np.ndarray, " n"]
    taken: int
    """How many of them a batch has."""
    weight: float
    """Of all that are taken together."""


def make_groups(over: Bool[np.ndarray, " rows"], batch_size: int, share: float) -> list[Group]:
    """One group of all transitions; or with a `share` two, so that this share of each batch arrives
    at an end (`over`). Weights undo it: what a batch says on average does not change."""
    n = over.size
    size = min(batch_size, n)
    ends, others = np.flatnonzero(over), np.flatnonzero(~over)
    taken = min(int(np.ceil(share * size)), ends.size, size - 1)
    if taken == 0 or others.size < size - taken:
        return [Group(np.arange(n), size, 1.0)]
    return [
        Group(others, size - taken, others.size / n),
        Group(ends, taken, ends.size / n),
    ]


def draw_rows(
    groups: list[Group], seeds: list[int], start: int, count: int, stream: int
) -> Int[np.ndarray, "count seeds batch"]:
    """For each update and seed, the numbers of its transitions, group by group."""
    drawn = []
    for k, group in enumerate(groups):
        epochs = Epochs(group.rows.size, group.taken)
        where = draw_indices(epochs, seeds, start, count, stream + STREAMS * k)
        drawn.append(group.rows[where])
    return np.concatenate(drawn, axis=-1).astype(np.int32)


def weights_of(groups: list[Group]) -> Float32[np.ndarray, " batch"]:
    """Of the rows of a batch."""
    parts = [np.full(group.taken, group.weight / group.taken) for group in groups]
    return np.concatenate(parts).astype(np.float32)


def draw_indices(
    epochs: Epochs, seeds: list[int], start: int, count: int, stream: int
) -> Int[np.ndarray, "count seeds batch"]:
    """For each update and seed, places in the epochs' own numbering."""
    by_seed = [np.concatenate(list(epochs.indices(s, start, count, stream))) for s in seeds]
    return np.stack(by_seed, axis=1).astype(np.int32)


def draw_weights(
    epochs: Epochs, data: Transitions, seeds: list[int], start: int, count: int, stream: int
) -> Float32[np.ndarray, "count seeds edges"]:
    """The same batches as the share of each distinct transition."""
    edges = data.edges.count.size
    weights = np.empty((count, len(seeds), edges), dtype=np.float32)
    for k, seed in enumerate(seeds):
        at = 0
        for taken in epochs.indices(seed, start, count, stream):
            rows = np.arange(len(taken))[:, None] * edges
            flat = (rows + data.edges.of_transition[taken]).ravel()
            counted = np.bincount(flat, minlength=len(taken) * edges)
            weights[at : at + len(taken), k] = counted.reshape(-1, edges) / epochs.batch_size
            at += len(taken)
    return weights
