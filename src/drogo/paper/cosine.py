"""Does the network learn the principal eigenvector, from any input?"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from drogo.paper import fits
from drogo.paper.scope import INPUTS, WORLDS, Answer, Get, Scope, Table, needed
from drogo.plot.shaping import LINES, OKABE_ITO, legend_below
from drogo.runs.job import Job
from drogo.runs.statistics import bootstrap_band

COLOURS = dict(zip(INPUTS, (OKABE_ITO[6], OKABE_ITO[1], OKABE_ITO[3]), strict=True))


def jobs(scope: Scope, get: Get) -> list[Job]:
    return fits.jobs(scope)


def answer(scope: Scope, get: Get) -> Answer:
    figure = Figure(figsize=(11, 6.4))
    figure.set_layout_engine("constrained")
    rows, smallest = [], {}
    for axes, world in zip(figure.subplots(2, 2).ravel(), WORLDS, strict=True):
        for k, kind in enumerate(INPUTS):
            record = needed(get, fits.job(scope, world, kind))
            history = {
                name.removeprefix("history/"): rows_
                for name, rows_ in record.arrays.items()
                if name.startswith("history/")
            }
            gap = np.maximum(1 - history["cosine_column"], 1e-7)
            low, high = bootstrap_band(np.log(gap).T, np.random.default_rng(0))
            mean = np.exp(np.log(gap).mean(axis=1))
            share = history["update"] / history["update"][-1]
            axes.plot(share, gap, color=COLOURS[kind], alpha=0.15, linewidth=0.6)
            axes.fill_between(share, np.exp(low), np.exp(high), color=COLOURS[kind], alpha=0.2)
            axes.plot(share, mean, LINES[k], color=COLOURS[kind], linewidth=1.8, label=kind)
            last = {name: history[f"cosine_{name}"][-1] for name in fits.TRUTHS}
            worst = history["difference_column"][-1].max()
            smallest[world, kind] = float(last["column"].min())
            status = record.facts["status"]
            rows.append(
                [
                    world,
                    kind,
                    f"{last['column'].min():.6f}",
                    f"{last['column'].mean():.6f}",
                    f"{last['representation'].mean():.5f}",
                    f"{last['transition'].mean():.5f}",
                    f"{worst:.2f}",
                    f"{status.count('converged')}/{len(status)}",
                    f"{record.status['duration']:.0f}",
                ]
            )
        axes.set_yscale("log")
        axes.invert_yaxis()
        axes.set_title(world)
        axes.set_xlabel("share of the updates")
        axes.set_ylabel("1 - cosine (up is better)")
        axes.grid(alpha=0.3)
    legend_below(figure, figure.axes[0])
    figure.suptitle("distance from a perfect cosine with the exact column; every seed faint")
    header = ["world", "input", "smallest cosine", "mean cosine", "mean, representation",
              "mean, transition", "largest log difference", "converged", "seconds"]  # fmt: skip
    caption = (
        "Cosine of logs with `column`, the exact fixed point of the loss, over seeds; then with "
        "the two eigenvectors, which are other vectors (exact cosines between them: 0.99 to 1)."
    )
    lowest = min(smallest.values())
    where = min(smallest, key=lambda pair: smallest[pair])
    paper = "The paper reports curves that end near 1 and prints no number."
    return Answer(
        "Cosine similarity of learned and exact vectors",
        "Figure 2",
        f"The smallest cosine of any seed is {lowest:.6f} ({where[0]} from {where[1]}). {paper}",
        {"cosine": figure},
        [Table(header, rows, caption)],
        numbers={"smallest": {f"{w} {k}": value for (w, k), value in smallest.items()}},
    )
