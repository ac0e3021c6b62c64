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
    seeds = len(set(report.seeds))  # the runs of a point
    for name, values in report.row.items():
        for run in np.flatnonzero(np.isfinite(values)):
            point = f"/point {run // seeds}" if len(report.seeds) > seeds else ""
            yield f"{name}{point}/seed {report.seeds[run]}", float(values[run])


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
            names, point = ("problem", "method", "optimiser"), report.points[0]
            config = {name: as_json(getattr(point, name)) for name in names}
            self.run = self._init(config=config, **self._settings)
        self.run.log(dict(_scalars(report)), step=report.update)
