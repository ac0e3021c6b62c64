"""Figures 2 and 5: the cosine of learned and exact vectors from each input, and the vectors."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from drogo.exact import log_column
from drogo.plot import heatmap
from drogo.worlds.grid import GridWorld
from drogo_paper import fits
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import LINES, OKABE_ITO, legend_below, new_figure
from drogo_paper.scope import INPUTS, LAM, WORLDS, Answer, Get, Question, Scope, Table, needed
from drogo_paper.statistics import bootstrap_band

COLOURS = dict(zip(INPUTS, (OKABE_ITO[6], OKABE_ITO[1], OKABE_ITO[3]), strict=True))


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
        axes.set(title=world, xlabel="share of the updates", ylabel="1 - cosine (up is better)")
        axes.grid(alpha=0.3)
    legend_below(figure, figure.axes[0])
    figure.suptitle("distance from a perfect cosine with the exact column; every seed faint")
    return figure


def cosines(scope: Scope, get: Get) -> Answer:
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


def eigenvectors(scope: Scope, get: Get) -> Answer:
    figure = new_figure(15, 12.5)
    shapes = [GridWorld.load(name).shape for name in WORLDS]
    heights = [height / width for height, width in shapes]  # no room is left around a wide world
    panels = figure.subplots(len(WORLDS), 1 + len(INPUTS), height_ratios=heights)
    largest = 0.0
    for row, name in zip(panels, WORLDS, strict=True):
        world = GridWorld.load(name)
        truth = log_column(world.mdp, LAM)
        limits = (float(truth.min()), 0.0)
        heatmap(world, truth, title=f"{name}: exact", axes=row[0], limits=limits, numbers=False)
        for axes, kind in zip(row[1:], INPUTS, strict=True):
            v = needed(get, fits.job(scope, name, kind)).arrays["v"].mean(axis=0)
            largest = max(largest, float(np.abs(v - truth).max()))
            heatmap(world, v, title=kind, axes=axes, limits=limits, numbers=False)
    for axes in panels.ravel():
        axes.set(xlabel="", ylabel="")
    return Answer(
        "Learned vectors beside the truth",
        "Figure 5",
        "Averaged over seeds, no log entry of any learned vector is off by more than "
        f"{largest:.2f}.",
        {"eigenvectors": figure},
        numbers={"largest difference of a mean": largest},
    )


QUESTIONS = {
    "cosine": Question(cosines, fits.jobs),
    "eigenvectors": Question(eigenvectors, fits.jobs),
}
