"""The training loop: chunks of updates of all lanes, with logging, callbacks and checkpoints.

A *lane* is one network being trained: a seed under one point of a grid of settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from drogo.config import Config
from drogo.device import to_device
from drogo.learn import checkpoint
from drogo.learn.checkpoint import Progress
from drogo.learn.judge import Row
from drogo.learn.learner import Learner, State
from drogo.learn.networks import Table
from drogo.learn.objectives import Numbers
from drogo.learn.plan import Plan
from drogo.learn.sampling import DeviceData, Draw, Sampler

LOGGED = 40
"""The number of logged updates of a fit."""
SECONDS_BETWEEN_CHECKPOINTS = 10.0
STOP_AT_ERROR, STOP_AT_RESIDUAL = 0.1, 0.01
"""The share of the tolerance below which all errors, or else all residuals, must be for a fit to
stop early. At the tolerance itself, many small residuals may add up to a large error."""
BLOCK = 1024
"""How many step sizes are computed at once."""
PROGRAMS_KEPT = 8
"""Compiled programs hold memory, so only the last few are kept."""


@dataclass(frozen=True)
class Report:
    """What a callback is given at each logged update.

    Args:
        update: The number of updates done.
        updates: The number of updates of the whole fit.
        row: The newest row of the history, an array over lanes for each name.
        seeds: The seed of each lane.
        configs: The settings of each lane.
    """

    update: int
    updates: int
    row: Row
    seeds: list[int]
    configs: list[Config]


Callback = Callable[[Report], Any]
"""Called at each logged update. A callback that returns False stops the fit."""


@runtime_checkable
class Judging(Protocol):
    """What measures the lanes of a fit, and says when they have converged."""

    @property
    def learner(self) -> Learner: ...

    @property
    def numbers(self) -> Numbers: ...

    @property
    def configs(self) -> list[Config]: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def solution(self) -> Any: ...

    def row(self, params: Any, losses: Float[np.ndarray, " lanes"]) -> Row: ...

    def converged(
        self, row: Mapping[str, np.ndarray], share: float = 1.0
    ) -> Bool[np.ndarray, " lanes"]: ...


@dataclass(frozen=True)
class Training:
    """Everything that stays the same while a fit is under way.

    Args:
        judge: Measures the lanes. It holds the transitions, the learner, and the numbers and
            settings of each lane, which differ only in what is swept.
        device_data: The data on the device.
        sampler: Draws the batches.
        seeds: The seeds. The lanes are all seeds of the first point of a grid, then of the next.
        schedule: From numbers of updates to factors of the step size.
        identity: What must agree for a checkpoint to belong to this fit.
    """

    judge: Judging
    device_data: DeviceData
    sampler: Sampler
    seeds: list[int]
    schedule: optax.Schedule
    identity: dict[str, Any]

    @property
    def updates(self) -> int:
        return self.judge.configs[0].updates

    @cached_property
    def factors(self) -> Float[np.ndarray, " updates"]:
        """The factor of the step size at every update.

        They are computed in blocks of one size, so that a longer fit compiles nothing.
        """
        blocks = [np.arange(k, k + BLOCK) for k in range(0, self.updates, BLOCK)]
        with jax.numpy_dtype_promotion("standard"):  # optax mixes types
            factors = [jax.vmap(self.schedule)(block) for block in blocks]
        return np.concatenate(factors)[: self.updates]

    @property
    def seed_of_lane(self) -> list[int]:
        return self.seeds * (len(self.judge.configs) // len(self.seeds))


def train(
    training: Training,
    progress: Progress,
    path: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Progress:
    """Trains until the last update, until all lanes have converged, or until a callback says stop.

    A lane that has converged stands still while others go on, so that what becomes of a seed does
    not depend on which other seeds are trained beside it.

    Args:
        training: What is trained.
        progress: How far it is.
        path: A checkpoint file. If it exists, training continues from it.
        callbacks: Called at each logged update.

    Returns:
        The progress at the end.
    """
    path = None if path is None else Path(path)
    if path is not None and path.exists():
        progress = checkpoint.restore(path, training.identity, progress)
    every = max(1, training.updates // LOGGED)
    saved = time.monotonic()
    progress, going = _log_if_due(training, progress, every, callbacks)
    try:
        while going and progress.update < training.updates:
            # Chunks end at logged updates, so a resumed run logs where an uninterrupted one does.
            until_logged = every - progress.update % every
            left = training.updates - progress.update
            count = min(training.sampler.longest, until_logged, left)
            progress = _advance(training, progress, count)
            progress, going = _log_if_due(training, progress, every, callbacks)
            if path is not None and time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                checkpoint.save(path, training.identity, progress)
                saved = time.monotonic()
    finally:
        if path is not None:
            checkpoint.save(path, training.identity, progress)
    return progress


def _log_if_due(
    training: Training, progress: Progress, every: int, callbacks: Sequence[Callback]
) -> tuple[Progress, bool]:
    """Adds a row to the history if one is due. Returns also whether training should go on."""
    judge, update = training.judge, progress.update
    due = update % every == 0 or update == training.updates
    if due and not progress.is_logged:
        since = update - int(progress.history["update"][-1]) if progress.history else 1
        mean = np.full(len(judge.configs), np.nan)
        if progress.losses:
            mean = np.sum(progress.losses, axis=0) / since
        row = judge.row(progress.states.params, mean)
        progress = progress.with_row({"update": np.array(update), **row})
        report = Report(update, training.updates, row, training.seed_of_lane, judge.configs)
        answers = [callback(report) for callback in callbacks]  # every one of them is called
        if any(isinstance(answer, bool | np.bool_) and not answer for answer in answers):
            return progress, False
    if not (_stops_early(training) and progress.is_logged):
        return progress, True
    return progress, not (_converged(training, progress) | (lost_at(progress) >= 0)).all()


def _stops_early(training: Training) -> bool:
    return training.judge.configs[0].stop_early and training.judge.plan.repeats


def _converged(training: Training, progress: Progress) -> Bool[np.ndarray, " lanes"]:
    """Returns which lanes need no more updates, by the last row of the history. (Those that
    diverged go on counting updates, so that the next row is reached.)"""
    judge = training.judge
    if not (_stops_early(training) and progress.history):
        return np.zeros(len(judge.configs), dtype=bool)
    share = STOP_AT_RESIDUAL if judge.solution is None else STOP_AT_ERROR
    return judge.converged(progress.last_row, share)


def lost_at(progress: Progress) -> Int[np.ndarray, " lanes"]:
    """Returns the update at which each lane diverged, or -1.

    A network may run away without a single infinite number. Its residuals are then infinite, which
    shows at the next logged update. (A residual that is not known is NaN, which is no divergence.)
    """
    lost = np.asarray(progress.states.diverged_at)
    runaway = np.isinf(np.stack(progress.history["violation"]))
    runaway |= ~np.isfinite(np.stack(progress.history["level"]))
    first = np.stack(progress.history["update"])[runaway.argmax(axis=0)]
    return np.where((lost < 0) & runaway[-1], first, lost)


def _advance(training: Training, progress: Progress, count: int) -> Progress:
    """Makes `count` updates of all lanes."""
    judge, update, longest = training.judge, progress.update, training.sampler.longest
    factors = np.zeros(longest)
    factors[:count] = training.factors[update : update + count]
    lane_sizes = np.array([config.step_size for config in judge.configs])
    seed_of_lane = np.arange(len(judge.configs)) % len(training.seeds)
    leaves, structure = jax.tree.flatten(judge.learner)
    static = tuple(leaf for leaf in leaves if not isinstance(leaf, jax.Array | np.ndarray))
    run = _program(structure, static)
    states, losses = run(
        judge.learner,
        judge.numbers,
        progress.states,
        training.device_data,
        training.sampler.draw(update, count),
        to_device(np.multiply.outer(factors, lane_sizes), jnp.float32),
        to_device(seed_of_lane),
        to_device(~_converged(training, progress)),
        to_device(count),
    )
    return Progress(states, progress.history, (*progress.losses, np.asarray(losses)))


@lru_cache(maxsize=PROGRAMS_KEPT)
def _program(structure: Any, static_leaves: tuple[Any, ...]) -> Callable[..., Any]:
    """Returns the compiled loop for learners that differ only in their arrays."""
    del structure, static_leaves  # they are the key under which the program is kept
    return eqx.filter_jit(_run)


def _run(
    learner: Learner,
    numbers: Numbers,
    states: State,
    device_data: DeviceData,
    draws: Draw | None,
    step_sizes: Float[Array, "longest lanes"],
    seed_of_lane: Int[Array, " lanes"],
    going: Bool[Array, " lanes"],
    count: Int[Array, ""],
) -> tuple[State, Float[Array, " lanes"]]:
    """Makes `count` updates. The number is not a constant of the program, so that fits of any
    length and with any schedule share one compiled program."""

    def update(k: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        states, total = carry

        def of_lane(
            numbers: Numbers, state: State, seed: Array, going: Array, step_size: Array
        ) -> Any:
            def step() -> tuple[State, Array]:
                mine = learner.with_numbers(numbers)
                draw = jax.tree.map(lambda leaf: leaf[k, seed], draws)
                return mine.step(state, device_data.batch(mine, draw), step_size)

            def stand_still() -> tuple[State, Array]:
                loss = jax.eval_shape(step)[1]
                return state, jnp.full(loss.shape, jnp.nan, loss.dtype)

            return jax.lax.cond(going, step, stand_still)

        arguments = (numbers, states, seed_of_lane, going, step_sizes[k])
        states, losses = over_lanes(learner, of_lane, arguments)
        return states, total + losses

    return jax.lax.fori_loop(0, count, update, (states, jnp.zeros(len(seed_of_lane))))


def over_lanes(learner: Learner, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Maps a function over lanes: all at once on an accelerator and for tables, one after another
    for networks on a CPU, where that is as fast, keeps a lane in the cache, and makes its numbers
    independent of the other lanes."""
    if jax.default_backend() == "cpu" and not isinstance(learner.skeleton, Table):
        return jax.lax.map(lambda packed: function(*packed), arguments)
    return jax.vmap(function)(*arguments)
