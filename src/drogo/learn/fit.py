"""`fit`: from transitions to the logarithm of the principal eigenvector."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

from drogo import config as configs
from drogo.data.transitions import Transitions
from drogo.errors import ArgumentError, Diverged
from drogo.learn.result import LogEigenvector
from drogo.learn.run import Run, Truth

LOGGED = 40
"""Points of a learning curve."""
SECONDS_BETWEEN_CHECKPOINTS = 10.0
SWEPT = ("step_size", "penalty", "cap")

Progress = Callable[[int, Mapping[str, np.ndarray]], None]
"""Called with the number of updates done and the latest row of the history."""


def fit(
    data: Transitions,
    *,
    preset: str = "auto",
    seeds: int | Sequence[int] = 1,
    truth: Truth | None = None,
    start: LogEigenvector | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callable[[Any], Any]] = (),
    **settings: Any,
) -> LogEigenvector:
    """Learn log e from transitions alone.

    `settings` are fields of `drogo.learn.Config`, on top of a preset: `paper` (exactly the
    paper's), `fast` (for small worlds whose states repeat), `stable` (for all others: a target
    network, mini-batches), or `auto`, which chooses between the latter two by the data. `seeds` is
    how many (0, 1, ...) or which. `truth` names vectors over `data.observations` to compare with
    along the way. `start` continues a fit for `updates` in all. `checkpoint` is a file written now
    and then; if it is there and of this very fit, training goes on from it to the very same result.

    Some seeds diverging is a warning and a status; all of them is `Diverged`.
    """
    config = configs.make_for(data, preset, settings)
    inputs = None if start is None else start.inputs
    run = Run.make(data, config, _seed_list(seeds), {}, truth or {}, inputs)
    if start is not None:
        run.continue_from(start)
    (result,) = _train(run, checkpoint, _shim(run, callbacks))
    _report_divergence(result)
    return result


def sweep(
    data: Transitions,
    *,
    preset: str = "auto",
    seeds: int | Sequence[int] = 1,
    truth: Truth | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callable[[Any], Any]] = (),
    grid: Mapping[str, Sequence[float]],
    **settings: Any,
) -> dict[tuple[float, ...], LogEigenvector]:
    """A grid over `step_size`, `penalty` and `cap`, all of it and all seeds in one program.

    Keys of the answer are the values in the order of `grid`'s names. Diverged seeds are told by
    their status only: finding out which settings diverge is what a sweep is for.
    """
    unknown = set(grid) - set(SWEPT)
    if unknown or not grid:
        raise ArgumentError(
            f"a sweep varies {', '.join(SWEPT)}, not {sorted(unknown) or 'nothing'}."
        )
    config = configs.make_for(data, preset, settings)
    run = Run.make(data, config, _seed_list(seeds), dict(grid), truth or {})
    return dict(zip(run.points, _train(run, checkpoint, _shim(run, callbacks)), strict=True))


def _shim(run: Run, callbacks: Sequence[Callable[[Any], Any]]) -> Progress:
    def progress(done: int, row: Mapping[str, np.ndarray]) -> None:
        for callback in callbacks:
            callback(SimpleNamespace(update=done, updates=run.config.updates, row=row))

    return progress


def _seed_list(seeds: int | Sequence[int]) -> list[int]:
    chosen = list(range(seeds)) if isinstance(seeds, int) else [int(s) for s in seeds]
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        raise ArgumentError(f"seeds is {seeds!r}; give how many, or distinct numbers from 0 on.")
    return chosen


def _train(
    run: Run, checkpoint: str | Path | None, progress: Progress | None
) -> list[LogEigenvector]:
    path = None if checkpoint is None else Path(checkpoint)
    losses = run.restore(path) if path is not None and path.exists() else []
    every = max(1, run.config.updates // LOGGED)
    due = run.done % every == 0 or run.done == run.config.updates
    if losses and due and run.history["update"][-1] != run.done:  # interrupted while it was logged
        run.log(np.mean(losses, axis=0))
        losses = []
    if not run.history:
        run.log(np.full(len(run.points) * len(run.seeds), np.nan))
    saved = time.monotonic()
    try:
        while run.done < run.config.updates:
            # Chunks end at logged updates, so that a resumed run cuts where a whole one does.
            count = min(run.most_at_once, every - run.done % every, run.config.updates - run.done)
            run.lanes, loss = run.program.run(
                run.lanes,
                run.hypers,
                jnp.asarray(run.seed_of_lane),
                run.problem,
                run.table,
                run.draw(count),
                jnp.arange(count),
            )
            losses.append(np.asarray(loss))
            row: dict[str, np.ndarray] = {}
            if run.done % every == 0 or run.done == run.config.updates:
                row, losses = run.log(np.mean(losses, axis=0)), []
            if progress is not None:
                progress(run.done, row)
            if path is not None and time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                run.save(path, losses)
                saved = time.monotonic()
    except KeyboardInterrupt:
        if path is not None:
            run.save(path, losses)
        raise
    if path is not None:
        run.save(path, losses)
    return run.results()


def _report_divergence(result: LogEigenvector) -> None:
    lost = [
        s for s, status in zip(result.seeds, result.status, strict=True) if status == "diverged"
    ]
    if not lost:
        return
    advice = (
        "The ratio exp(v(s') - v(s)) overflowed: try cap='auto', a smaller step_size, or a target "
        "network (target_rate=0.05)."
    )
    if len(lost) == len(result.seeds):
        first = min(at for at in result.diverged_at if at is not None)
        raise Diverged(f"all {len(lost)} seed(s) diverged, the first at update {first}. {advice}")
    warnings.warn(
        f"{len(lost)} of {len(result.seeds)} seeds diverged ({lost}); their rows of v are the last "
        f"finite ones, and not the answer. {advice}",
        RuntimeWarning,
        stacklevel=3,
    )
