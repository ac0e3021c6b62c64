"""Batches, sampled on the host (`Draw`) and assembled on the device (`DeviceData`). A draw depends
on a seed and the number of the update alone, so a fit can be interrupted."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from drogo.data import Transitions
from drogo.data.index import read_rows
from drogo.data.transitions import CountedEdges
from drogo.device import to_device
from drogo.errors import ArgumentError
from drogo.learn.learner import Batch, Learner
from drogo.learn.method import BYTES_IN_RESULT, AbstractMethod
from drogo.learn.networks import Features

BYTES_ON_DEVICE = 2**30  # Bytes of observations that are kept on the device.
BYTES_PER_CHUNK = 2**28  # Bytes of streamed observations at a time.
LONGEST_CHUNK = 100
"""The number of updates of one compiled call, after which checkpoints and Ctrl-C are possible."""
ROWS_PER_CHUNK = 2**25  # The largest number of transitions that are sampled at once.
WITHOUT_A_SIZE = 2000
"""The batch size if all transitions are asked for, and the table is too large for that."""
HELD_OUT, MOST_HELD_OUT = 0.05, 10_000
"""The largest share and number of transitions that are held out for the evaluation."""
MOST_COMPARED = 20_000
"""The largest number of observations that are compared with a truth during training."""
BYTES_PER_LOG = 2**23
"""Bytes of observations that are evaluated at a logged update if states do not repeat."""


@dataclass(frozen=True)
class Plan:
    """The split of the data between training and evaluation."""

    whole: bool  # Whether each update evaluates the whole table of observations.
    streamed: bool  # Whether observations are read batch by batch.
    repeats: bool  # Whether states were seen often enough to check each by itself.
    trained: Int[np.ndarray, " rows"]  # The transitions to train on.
    checked: Int[np.ndarray, " checked"]
    """Transitions on which equations are checked if states do not repeat, held out if possible."""
    kept: Int[np.ndarray, " kept"]  # The observations that the result keeps.
    compared: Int[np.ndarray, " compared"]
    """The observations that are compared with a truth during training."""


def make_plan(data: Transitions, batch_size: int | str | None, *, second: bool) -> Plan:
    """Returns the plan for some transitions, of which some are held out if states are new."""
    n, m, size = len(data), len(data.observations), data.observations.nbytes
    streamed = size > BYTES_ON_DEVICE
    if streamed and second:
        wrong = f"this method needs two batches at a time, and {size / 2**30:.1f} GiB are streamed."
        remedy = "Use drogo.Drogo(), or fewer transitions."
        raise ArgumentError(wrong, remedy=remedy, argument="method")
    few = batch_size == "all"
    if isinstance(batch_size, int):
        few = m <= (3 if second else 2) * min(batch_size, n)
    if data.repeats and size <= BYTES_IN_RESULT:
        rows, everything = np.arange(n), np.arange(m)
        return Plan(few, streamed, True, rows, rows[:0], everything, everything)
    row_size = max(1, size // m)
    affordable = max(1000, BYTES_PER_LOG // row_size)
    order = np.random.default_rng(0).permutation(n)
    share = min(MOST_HELD_OUT / n, HELD_OUT, affordable / n)
    reaching = data.terminated[order]
    # Of both kinds the same share: without terminal states, any constant shift of v would pass.
    both = (order[reaching], order[~reaching])
    held_out = np.concatenate([part[: int(np.ceil(share * part.size))] for part in both])
    if held_out.size < 2 or both[0].size == 1:  # the only terminal state must not be held out
        trained, held_out = np.arange(n), np.arange(min(n, MOST_HELD_OUT))
    else:
        trained = np.setdiff1d(np.arange(n), held_out)
    kept = _sample(data, max(1, BYTES_IN_RESULT // row_size))
    compared = _sample(data, min(MOST_COMPARED, affordable))
    return Plan(False, streamed, False, trained, np.sort(held_out), kept, compared)


def _sample(data: Transitions, most: int) -> Int[np.ndarray, " some"]:
    """Returns at most this number of observations, a terminal state among them."""
    m = len(data.observations)
    if m <= most:
        return np.arange(m)
    some = np.random.default_rng(1).choice(m, most, replace=False)
    return np.unique(np.concatenate([some, data.terminal_states[:1]]))


class Batches(NamedTuple):
    """The source of the batches of a fit."""

    data: Any  # The data on the device: `batch(learner, draw)` assembles a batch.
    sampler: Any
    """Its `draw(update, count)` gives arrays (`longest`, seeds, ...), or None for everything."""


class Draw(NamedTuple):
    """The sampled rows and weights of each update and seed; on the device, of one of them."""

    weight: Float[Array, "*draws n"]
    second_weight: Float[Array, "*draws n"] | None = None
    rows: Int[Array, "*draws n"] | None = None
    second_rows: Int[Array, "*draws n"] | None = None
    observations: Shaped[Array, "..."] | None = None
    """The prepared observations of these rows, if the table is too large for the device."""
    next_observations: Shaped[Array, "..."] | None = None


class DeviceData(eqx.Module):
    """Assembles batches on the device: distinct transitions with weights, or sampled ones."""

    rows: Batch
    """All transitions, weighed by their share in the data or by a correction of actions."""
    features: Features | None
    """Features of the table of observations, if they are computed beforehand."""
    observations: Shaped[Array, "distinct ..."]
    """The preprocessed table, if there are no features; empty if draws bring their observations."""

    def batch(self, learner: Learner, draw: Draw | None) -> Batch:
        """Returns the batch of a draw; None stands for all transitions at once."""
        rows = self.rows
        if draw is None:
            return replace(rows, features=self.features, complete=True)
        if draw.rows is None:
            second = None if draw.second_weight is None else draw.second_weight * rows.weight
            weights = {"weight": draw.weight * rows.weight, "second_weight": second}
            return replace(rows, features=self.features, **weights)
        batch = jax.tree.map(lambda column: column[draw.rows], rows)
        if draw.observations is not None and draw.next_observations is not None:
            shown = (draw.observations, draw.next_observations)
            both = [learner.skeleton.features(learner.inputs.finish(part)) for part in shown]
        else:
            both = [self._features(learner, part) for part in (batch.state, batch.next_state)]
        columns: dict[str, Any] = {"features": both[0], "next_features": both[1]}
        columns |= {"state": None, "next_state": None, "weight": draw.weight * batch.weight}
        if draw.second_rows is not None:
            assert rows.state is not None
            columns["second_features"] = self._features(learner, rows.state[draw.second_rows])
            columns["second_weight"] = draw.weight * rows.weight[draw.second_rows]
        return replace(batch, **columns)

    def _features(self, learner: Learner, states: Int[Array, " n"]) -> Features:
        if self.features is None:
            return learner.skeleton.features(learner.inputs.finish(self.observations[states]))
        return learner.skeleton.take(self.features, states)


class Group(NamedTuple):
    """Transitions that make up a fixed part of every batch."""

    rows: Int[np.ndarray, " n"]
    taken: int  # The number of them in a batch.
    weight: float  # Their total weight in it.


@dataclass(frozen=True)
class Shuffled:
    """Samples shuffled mini-batches on the host."""

    seeds: list[int]
    groups: list[Group]  # The parts of a batch. Without any, every update uses all transitions.
    second: bool = False  # Whether an independent second batch is sampled for each.
    edge_of_row: Int[np.ndarray, " n"] | None = None
    """In a small world, the index of each transition among the distinct ones."""
    streamed: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    """Reads the observations of given transitions, if they are not kept on the device."""
    longest: int = LONGEST_CHUNK  # The largest number of updates that are sampled at once.

    def draw(self, update: int, count: int) -> Draw | None:
        """Returns the draws of `count` updates from `update` on, as `Batches.sampler` says."""
        if not self.groups:
            return None
        parts = (self.groups, self.seeds, update, count)
        sampled = [draw_rows(*parts, stream) for stream in range(1 + self.second)]
        if self.edge_of_row is not None:
            edges = int(self.edge_of_row.max()) + 1
            shares = (_shares(self.edge_of_row[rows], edges) for rows in sampled)
            return Draw(*map(self._padded, shares))
        weights = np.concatenate([np.full(g.taken, g.weight / g.taken) for g in self.groups])
        weight = np.broadcast_to(weights.astype(np.float32), sampled[0].shape)
        draw = Draw(self._padded(weight), None, *map(self._padded, sampled))
        if self.streamed is None:
            return draw
        before, after = map(self._padded, self.streamed(sampled[0]))
        return draw._replace(observations=before, next_observations=after)

    def _padded(self, part: np.ndarray) -> Array:
        rest = np.zeros((self.longest - len(part), *part.shape[1:]), dtype=part.dtype)
        return to_device(np.concatenate([part, rest]))


def _shares(edges: Int[np.ndarray, "updates seeds batch"], number: int) -> np.ndarray:
    updates, seeds, size = edges.shape
    batch = np.arange(updates * seeds).reshape(updates, seeds, 1)
    counted = np.bincount((batch * number + edges).ravel(), minlength=updates * seeds * number)
    return (counted / size).astype(np.float32).reshape(updates, seeds, number)


def draw_rows(
    groups: list[Group], seeds: list[int], update: int, count: int, stream: int
) -> Int[np.ndarray, "updates seeds batch"]:
    """Returns the transitions of each update and seed, shuffled in each epoch and `stream`."""
    parts = []
    for k, group in enumerate(groups):
        n, of_seeds = group.rows.size, []
        per_epoch = n // group.taken
        epochs = range(update // per_epoch, (update + count - 1) // per_epoch + 1)
        for seed in seeds:
            rngs = [np.random.default_rng([seed, epoch, stream + 2 * k]) for epoch in epochs]
            orders = [rng.permutation(n)[: per_epoch * group.taken] for rng in rngs]
            batches = np.concatenate(orders).reshape(-1, group.taken)
            of_seeds.append(batches[update - epochs[0] * per_epoch :][:count])
        parts.append(group.rows[np.stack(of_seeds, axis=1)])
    return np.concatenate(parts, axis=-1).astype(np.int32)


def make_groups(terminated: np.ndarray, batch_size: int, terminal_fraction: float) -> list[Group]:
    """Returns one group of all transitions, or two: the others and those into terminal states."""
    n = terminated.size
    size = min(batch_size, n)
    terminal, others = np.flatnonzero(terminated), np.flatnonzero(~terminated)
    taken = min(int(np.ceil(terminal_fraction * size)), terminal.size, size - 1)
    if taken == 0 or others.size < size - taken:
        return [Group(np.arange(n), size, 1.0)]
    both = ((others, size - taken), (terminal, taken))
    return [Group(rows, count, rows.size / n) for rows, count in both]


def make_data(
    data: Transitions,
    source: Transitions | CountedEdges,
    plan: Plan,
    learner: Learner,
    seeds: list[int],
    method: AbstractMethod,
) -> Batches:
    """Returns the data on the device, and the sampler that suits them."""
    second, per_action = learner.objective.needs_moment, method.per_action
    whole_batches = method.batch_size == "all"
    batch_size = WITHOUT_A_SIZE if isinstance(method.batch_size, str) else method.batch_size
    assert batch_size is not None
    table, features = data.observations, None
    if plan.whole or (plan.repeats and data.observations.ndim == 4):
        features = learner.skeleton.of_table(learner.inputs(np.asarray(table)))
    elsewhere = features is not None or plan.streamed
    on_device = to_device(learner.inputs.prepare(np.asarray(table[:0] if elsewhere else table)))
    most = ROWS_PER_CHUNK // (len(seeds) * min(batch_size, len(data)))
    longest = max(1, min(LONGEST_CHUNK, most))
    if plan.whole:
        source = source if isinstance(source, CountedEdges) else source.edges
        n = source.of_transition.size
        groups = [] if whole_batches else [Group(np.arange(n), min(batch_size, n), 1.0)]
        weight = source.weight / (source.count if groups else source.weight.sum())
        rows = weighed_batch(source, weight, per_action=per_action)
        sampler = Shuffled(seeds, groups, second, source.of_transition, longest=longest)
        return Batches(DeviceData(rows, features, on_device), sampler)
    # Where states repeat, transitions may have been added to those of the plan.
    trained = slice(None) if plan.repeats or isinstance(source, CountedEdges) else plan.trained
    rows = weighed_batch(source, source.weight, trained, per_action=per_action)
    if not plan.repeats and method.anchored:
        rows = _with_terminals(rows, data.n_actions)
    fraction = 0.0 if method.needs_solution else method.terminal_fraction
    groups = make_groups(np.asarray(rows.terminated), batch_size, fraction)
    sampler = Shuffled(seeds, groups, second, longest=longest)
    if plan.streamed:
        bytes_per_update = 2 * len(seeds) * batch_size * (table.nbytes // len(table))
        longest = max(1, min(longest, BYTES_PER_CHUNK // bytes_per_update))
        both_states = (np.asarray(rows.state), np.asarray(rows.next_state))

        def read(which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            shown = [read_rows(table, states[which].ravel()) for states in both_states]
            both = map(learner.inputs.prepare, shown)
            before, after = (part.reshape(*which.shape, *part.shape[1:]) for part in both)
            return before, after

        sampler = Shuffled(seeds, groups, streamed=read, longest=longest)
    return Batches(DeviceData(rows, features, on_device), sampler)


def weighed_batch(
    source: Any, weight: Float[np.ndarray, " n"], which: Any = slice(None), *, per_action: bool
) -> Batch:
    """Returns some weighed transitions as a batch without features, in single precision."""
    names = ("state", "next_state", "reward", "terminated", "terminal_reward")
    names = (*names, "action", "log_default") if per_action else names
    columns = {name: getattr(source, name) for name in names} | {"weight": weight}
    single = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    parts = jax.tree.map(lambda part: to_device(part[which], single.get(part.dtype)), columns)
    return Batch(None, None, **parts)


def _with_terminals(rows: Batch, n_actions: int | None) -> Batch:
    """Adds the equation exp(terminal_reward / lam - v) = 1 for each arrival and action."""
    kept = {name: part for name, part in vars(rows).items() if eqx.is_array(part)}
    columns: dict[str, Any] = jax.tree.map(np.asarray, kept)
    copies = 1 if rows.log_default is None else int(n_actions or 1)
    arrived = np.repeat(np.flatnonzero(columns["terminated"]), copies)
    extra = jax.tree.map(lambda part: part[arrived], columns)
    extra |= {"state": extra["next_state"], "reward": np.zeros_like(extra["reward"])}
    extra["weight"] = np.ones_like(extra["weight"])
    if rows.log_default is not None:
        extra["action"] = np.tile(np.arange(copies, dtype=np.int32), arrived.size // copies)
        extra["log_default"] = np.full_like(extra["log_default"], -np.log(copies))
    longer = jax.tree.map(lambda *parts: to_device(np.concatenate(parts)), columns, extra)
    return replace(rows, **longer)
