"""Callbacks that log a fit to TensorBoard or to Weights & Biases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import import_extra
from drogo.learn.settings import as_json
from drogo.learn.train import Report


def _scalars(report: Report) -> Iterator[tuple[str, float]]:
    """Yields a name and a number for each finite entry of a report."""
    for name, values in report.row.items():
        for run, value in enumerate(values):
            if np.isfinite(value):
                points = len(report.seeds) // len(set(report.seeds))
                point = f"/point {run // (len(report.seeds) // points)}" if points > 1 else ""
                yield f"{name}{point}/seed {report.seeds[run]}", float(value)


def _settings(report: Report) -> dict[str, Any]:
    point = report.points[0]
    parts = {"problem": point.problem, "method": point.method, "optimiser": point.optimiser}
    return {name: as_json(part) for name, part in parts.items()}


class TensorBoard:
    """Writes every row of the history to event files (extra `tensorboard`).

    Args:
        directory: The directory of the event files.
    """

    def __init__(self, directory: str | Path) -> None:
        summary = import_extra("tensorboard.summary", "TensorBoard", extra="tensorboard")
        self._make_writer = partial(summary.Writer, str(directory))
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
        self.run = run

    def __call__(self, report: Report) -> None:
        if self.run is None:
            self.run = self._init(config=_settings(report), **self._settings)
        self.run.log(dict(_scalars(report)), step=report.update)
