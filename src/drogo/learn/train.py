"""The training loop: chunks of updates of all runs, with logging, callbacks and checkpoints."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from drogo.device import to_device
from drogo.errors import ArgumentTypeError, BadCheckpoint, DamagedFile, import_extra
from drogo.files import Header, as_path, as_section, read_arrays, section, write_arrays
from drogo.learn.batches import Batches
from drogo.learn.judge import Judge, Row
from drogo.learn.learner import Learner, Objective, State
from drogo.learn.networks import TableNetwork
from drogo.learn.problem import Point
from drogo.learn.settings import as_json
from drogo.progress import is_watched, stops
from drogo.requests import check_same

SECONDS_BETWEEN_CHECKPOINTS = 10.0
SECONDS_BETWEEN_SHOWN = 0.5  # Updates are shown at least so often if one takes less.
PROGRAMS_KEPT = 8  # Compiled programs hold memory, so only the last few are kept.
KIND = "checkpoint"
Stepped = tuple[State, Array]
HISTORY, STATE = "history/", "state/"  # The sections of a file.


@dataclass(frozen=True)
class Progress:
    """The progress of a fit, which a checkpoint holds."""

    states: State  # The states of all runs, stacked.
    history: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)
    """The logged rows, by name."""
    losses: tuple[np.ndarray, ...] = ()
    """The summed losses of the chunks since the last logged update."""
    interrupted: bool = False  # Whether Ctrl-C stopped the fit.

    @property
    def update(self) -> int:
        return int(np.asarray(self.states.update).max())

    @property
    def is_logged(self) -> bool:
        return bool(self.history) and int(self.history["update"][-1]) == self.update

    @property
    def last_row(self) -> dict[str, np.ndarray]:
        return {name: rows[-1] for name, rows in self.history.items()}


@dataclass(frozen=True)
class Report:
    """The argument of a callback at each logged update, with lists and arrays over all runs."""

    update: int
    """The number of updates so far."""
    updates: int
    """The number of updates of the whole fit."""
    row: Row
    """The newest row of the history, by name."""
    seeds: list[int]
    points: list[Point]
    """The settings of each run."""


Callback = Callable[[Report], Any]
"""Called at each logged update. A callback that returns False stops the fit."""
Callbacks = Sequence[Callback]


@dataclass(frozen=True)
class Training:
    """Everything that stays the same during a fit."""

    judge: Judge
    """Measures the runs, which are all seeds of the first point of a sweep, then of the next."""
    batches: Batches
    seeds: list[int]
    identity: dict[str, Any]
    """The settings and data that must agree for a checkpoint to belong to this fit."""

    @property
    def updates(self) -> int:
        return self.judge.points[0].method.updates


def train(
    training: Training,
    progress: Progress,
    path: Path | None = None,
    callbacks: Callbacks = (),
    show: Callable[[int, int, str], None] = lambda done, total, remark: None,
) -> Progress:
    """Trains until the last update, until all runs have converged, or a callback or Ctrl-C stops
    it. With a checkpoint, Ctrl-C is an error, since the same call continues. `show` is called often
    with the progress: the updates so far, all of them, and a remark."""
    if path is not None and path.exists():
        fresh = progress.states

        def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
            check_same(stored, training.identity, "fit")
            check_leaves(section(headers, STATE), fresh)
            check_history(section(headers, HISTORY), len(fresh.update))

        try:
            arrays, _ = read_arrays(path, KIND, check)
        except (DamagedFile, OSError) as error:
            raise BadCheckpoint(str(error), remedy="Delete it, or give another path.") from error
        history = history_rows(section(arrays, HISTORY))
        states = tree_from(section(arrays, STATE), fresh)
        progress = Progress(states, history, tuple(arrays.get("losses", ())))
    longest = training.batches.sampler.longest
    every = max(1, training.updates // training.judge.logged)
    saved, shown = time.monotonic(), 1 if path is None and is_watched() else longest
    show(progress.update, training.updates, "compiling")
    progress, going = _log_if_due(training, progress, every, callbacks)
    try:
        while going and progress.update < training.updates:
            # Chunks end at logged updates, so a resumed fit logs where an uninterrupted one does.
            until_logged = every - progress.update % every
            left = training.updates - progress.update
            begun = time.monotonic()
            progress = _advance(training, progress, min(longest, shown, until_logged, left))
            shown *= 2 if time.monotonic() - begun < SECONDS_BETWEEN_SHOWN else 1
            progress, going = _log_if_due(training, progress, every, callbacks)
            row = progress.last_row
            error = training.judge.points[0].problem.error_name
            name, key = (error, "error") if "error" in row else ("residual", "worst")
            remark = f"largest {name} {row[key].max():.2g}" if key in row else ""
            show(progress.update, training.updates, remark)
            if path is not None and time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                _save(path, training.identity, progress)
                saved = time.monotonic()
    except KeyboardInterrupt as interrupt:
        if path is not None or not stops(interrupt) or not progress.update:
            raise
        if not progress.is_logged:
            progress, _ = _with_row(training, progress)
        progress = replace(progress, interrupted=True)
    finally:
        if path is not None:
            _save(path, training.identity, progress)
    return progress


def _log_if_due(
    training: Training, progress: Progress, every: int, callbacks: Callbacks
) -> tuple[Progress, bool]:
    """Adds a row to the history if one is due, and returns also whether training should go on."""
    judge, update = training.judge, progress.update
    due = update % every == 0 or update == training.updates
    if due and not progress.is_logged:
        progress, row = _with_row(training, progress)
        seeds = training.seeds * (len(judge.points) // len(training.seeds))
        report = Report(update, training.updates, row, seeds, judge.points)
        answers = [callback(report) for callback in callbacks]  # every one of them is called
        if any(isinstance(answer, bool | np.bool_) and not answer for answer in answers):
            return progress, False
    if not progress.is_logged:
        return progress, True
    lost = (diverged_at(progress) >= 0) & judge.stops_early
    return progress, not (judge.enough(progress.last_row) | lost).all()


def _with_row(training: Training, progress: Progress) -> tuple[Progress, Row]:
    """Returns the progress with a new row in its history, and this row."""
    judge, update, before = training.judge, progress.update, progress.history
    mean = np.full(len(judge.points), np.nan)
    if progress.losses:
        mean = np.sum(progress.losses, axis=0) / (update - int(before["update"][-1]))
    row = judge.row(progress.states.params, mean)
    named = {"update": np.array(update), **row}
    history = {name: (*before.get(name, ()), value) for name, value in named.items()}
    return Progress(progress.states, history), row


def diverged_at(progress: Progress) -> Int[np.ndarray, " runs"]:
    """Returns the update at which each run diverged, or its residuals ran away; or -1."""
    first_bad = np.asarray(progress.states.diverged_at)
    runaway = np.isinf(np.stack(progress.history["violation"]))
    runaway |= ~np.isfinite(np.stack(progress.history["level"]))
    first = np.stack(progress.history["update"])[runaway.argmax(axis=0)]
    return np.where((first_bad < 0) & runaway[-1], first, first_bad)


def _advance(training: Training, progress: Progress, count: int) -> Progress:
    judge, update, sampler = training.judge, progress.update, training.batches.sampler
    factors = judge.points[0].optimiser.step_sizes(training.updates)[update : update + count]
    step_sizes = np.zeros((sampler.longest, len(judge.points)))
    step_sizes[:count] = np.multiply.outer(factors, [p.optimiser.step_size for p in judge.points])
    seed_of_run = np.arange(len(judge.points)) % len(training.seeds)
    # A run that diverged goes on counting updates, so that the next row is reached.
    frozen = judge.enough(progress.last_row)
    leaves, structure = jax.tree.flatten(judge.learner)
    static = tuple(leaf for leaf in leaves if not isinstance(leaf, jax.Array | np.ndarray))
    states, losses = _program(structure, static)(
        judge.learner,
        judge.objectives,
        progress.states,
        training.batches.data,
        sampler.draw(update, count),
        to_device(step_sizes, jnp.float32),
        to_device(np.where(frozen, -1, seed_of_run)),
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
    objectives: Objective,
    states: State,
    device_data: Any,
    draws: Any,
    step_sizes: Float[Array, "longest runs"],
    seed_of_run: Int[Array, " runs"],
    count: Int[Array, ""],
) -> tuple[State, Float[Array, " runs"]]:
    """Makes `count` updates. A run without a seed (-1) is frozen."""
    arrays, static = eqx.partition(objectives, eqx.is_array)

    def update(k: Array, carry: Stepped) -> Stepped:
        states, total = carry

        def of_run(numbers: Any, state: State, seed: Array, step_size: Array) -> Stepped:
            def step() -> Stepped:
                of_this = learner.with_objective(eqx.combine(numbers, static))
                draw = jax.tree.map(lambda leaf: leaf[k, seed], draws)
                return of_this.step(state, device_data.batch(of_this, draw), step_size)

            def stay() -> Stepped:
                loss = jax.eval_shape(step)[1]
                return state, jnp.full(loss.shape, jnp.nan, loss.dtype)

            return jax.lax.cond(seed >= 0, step, stay)

        arguments = (arrays, states, seed_of_run, step_sizes[k])
        # On a CPU, the runs of a network follow one another, so that none depends on the others.
        if jax.default_backend() == "cpu" and not isinstance(learner.skeleton, TableNetwork):
            states, losses = jax.lax.map(lambda packed: of_run(*packed), arguments)
        else:
            states, losses = jax.vmap(of_run)(*arguments)
        return states, total + losses

    return jax.lax.fori_loop(0, count, update, (states, jnp.zeros(len(seed_of_run))))


def _save(path: Path, identity: dict[str, Any], progress: Progress) -> None:
    arrays = as_section(HISTORY, progress.history) | as_section(STATE, by_path(progress.states))
    if progress.losses:
        arrays["losses"] = np.stack(progress.losses)
    write_arrays(path, KIND, arrays, identity, overwrite=True)


def history_rows(history: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
    """Returns the history of a solution as its logged rows."""
    return {name: tuple(map(np.asarray, rows)) for name, rows in history.items()}


def by_path(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves of a tree by their paths in it."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}


def tree_from(stored: Mapping[str, np.ndarray], like: PyTree) -> PyTree:
    """Returns the tree whose leaves `by_path` named."""
    check_leaves(stored, like)
    given = [to_device(stored[name], leaf.dtype) for name, leaf in by_path(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), given)


def check_leaves(stored: Mapping[str, Any], like: PyTree) -> None:
    """Raises an error unless arrays, or their headers, fit a tree."""
    expected, given = (
        {name: (leaf.shape, leaf.dtype.kind) for name, leaf in leaves.items()}
        for leaves in (by_path(like), stored)
    )
    differ = [name for name in {**expected, **given} if expected.get(name) != given.get(name)]
    if differ:
        first, needed = differ[0], expected.get(differ[0], "none")
        raise DamagedFile(f"its array {first} is {given.get(first, 'missing')}, not {needed}.")


def check_history(stored: Mapping[str, Any], runs: int) -> None:
    """Raises an error unless arrays, or their headers, are the history of this many runs."""
    rows = stored["update"].shape
    wrong = [name for name, part in stored.items() if part.shape not in (rows, (*rows, runs))]
    if len(rows) != 1 or wrong:
        raise DamagedFile(f"its history has another shape for {', '.join(wrong) or 'update'}")


def _scalars(report: Report) -> Iterator[tuple[str, float]]:
    """Yields a name and a number for each finite entry of a report."""
    seeds = len(set(report.seeds))  # the runs of a point
    for name, values in report.row.items():
        for run in np.flatnonzero(np.isfinite(values)):
            point = f"/point {run // seeds}" if len(report.seeds) > seeds else ""
            yield f"{name}{point}/seed {report.seeds[run]}", float(values[run])


class TensorBoard:
    """Writes every row of the history to event files in a directory (extra `tensorboard`)."""

    def __init__(self, directory: str | Path) -> None:
        summary = import_extra("tensorboard.summary", "TensorBoard", extra="tensorboard")
        self._make_writer = partial(summary.Writer, str(as_path("directory", directory)))
        self._writer: Any = None

    def __call__(self, report: Report) -> None:
        self._writer = self._writer or self._make_writer()  # nothing is written before this
        for name, value in _scalars(report):
            self._writer.add_scalar(name, value, report.update)
        self._writer.flush()


class WandB:
    """Logs every row of the history to a run of Weights & Biases (extra `wandb`).

    Args:
        run: A run from `wandb.init`. By default the first report begins one.
        **settings: Arguments of `wandb.init`, such as `project`.
    """

    def __init__(self, run: Any = None, **settings: Any) -> None:
        self._init = import_extra("wandb", "Weights & Biases", extra="wandb").init
        self._settings = settings
        if run is not None and not hasattr(run, "log"):
            raise ArgumentTypeError(f"run is {run!r}; give that of wandb.init.", argument="run")
        self.run = run

    def __call__(self, report: Report) -> None:
        if self.run is None:
            names, point = ("problem", "method", "optimiser"), report.points[0]
            config = {name: as_json(getattr(point, name)) for name in names}
            self.run = self._init(config=config, **self._settings)
        self.run.log(dict(_scalars(report)), step=report.update)
