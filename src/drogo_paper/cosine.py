"""Figure 2: the cosine of learned and exact vectors, from each input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from drogo.engines.job import Job
from drogo.engines.store import Record
from drogo.statistics import bootstrap_band
from drogo_paper import fits
from drogo_paper.plot.figures import LINES, OKABE_ITO, legend_below, new_figure
from drogo_paper.scope import INPUTS, WORLDS, Answer, Get, Scope, Table, needed

COLOURS = dict(zip(INPUTS, (OKABE_ITO[6], OKABE_ITO[1], OKABE_ITO[3]), strict=True))


def jobs(scope: Scope, get: Get) -> list[Job]:
    return fits.jobs(scope)


def history_of(record: Record) -> dict[str, np.ndarray]:
    return {
        name.removeprefix("history/"): rows
        for name, rows in record.arrays.items()
        if name.startswith("history/")
    }


def row(world: str, kind: str, record: Record) -> list[str]:
    last = {name: rows[-1] for name, rows in history_of(record).items() if name != "update"}
    status = record.facts["status"]
    return [
        world,
        kind,
        f"{last['cosine_column'].min():.6f}",
        f"{last['cosine_column'].mean():.6f}",
        f"{last['cosine_representation'].mean():.5f}",
        f"{last['cosine_transition'].mean():.5f}",
        f"{last['difference_column'].max():.2f}",
        f"{status.count('converged')}/{len(status)}",
        f"{record.status['duration']:.0f}",
    ]


def curves(records: Mapping[tuple[str, str], Record]) -> Figure:
    """Draws a panel for each world, with a band for each input and every seed faint behind it."""
    figure = new_figure(11, 6.4)
    for axes, world in zip(figure.subplots(2, 2).ravel(), WORLDS, strict=True):
        for k, kind in enumerate(INPUTS):
            if (world, kind) not in records:
                continue
            history = history_of(records[world, kind])
            distance = np.maximum(1 - history["cosine_column"], 1e-7)
            low, high = bootstrap_band(np.log(distance).T, np.random.default_rng(0))
            mean = np.exp(np.log(distance).mean(axis=1))
            share = history["update"] / history["update"][-1]
            axes.plot(share, distance, color=COLOURS[kind], alpha=0.15, linewidth=0.6)
            axes.fill_between(share, np.exp(low), np.exp(high), color=COLOURS[kind], alpha=0.2)
            axes.plot(share, mean, LINES[k], color=COLOURS[kind], linewidth=1.8, label=kind)
        axes.set_yscale("log")
        axes.invert_yaxis()
        axes.set_title(world)
        axes.set_xlabel("share of the updates")
        axes.set_ylabel("1 - cosine (up is better)")
        axes.grid(alpha=0.3)
    legend_below(figure, figure.axes[0])
    figure.suptitle("distance from a perfect cosine with the exact column; every seed faint")
    return figure


def answer(scope: Scope, get: Get) -> Answer:
    records = {
        (world, kind): needed(get, fits.job(scope, world, kind))
        for world in WORLDS
        for kind in INPUTS
    }
    rows = [row(world, kind, record) for (world, kind), record in records.items()]
    smallest = {
        pair: float(history_of(record)["cosine_column"][-1].min())
        for pair, record in records.items()
    }
    header = ["world", "input", "smallest cosine", "mean cosine", "mean, representation",
              "mean, transition", "largest log difference", "converged", "seconds"]  # fmt: skip
    caption = (
        "Cosine of logs with `column`, the exact fixed point of the loss, over seeds; then with "
        "the two eigenvectors, which are other vectors (exact cosines between them: 0.99 to 1)."
    )
    lowest = min(smallest.values())
    where = min(smallest, key=lambda pair: smallest[pair])
    paper = scope.against_paper("The paper reports curves that end near 1 and prints no number.")
    return Answer(
        "Cosine similarity of learned and exact vectors",
        "Figure 2",
        f"The smallest cosine of any seed is {lowest:.6f} ({where[0]} from {where[1]}). "
        f"{paper}".strip(),
        {"cosine": curves(records)},
        [Table(header, rows, caption)],
        numbers={"smallest": {f"{w} {k}": value for (w, k), value in smallest.items()}},
    )
