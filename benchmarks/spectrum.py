"""Several eigenvectors, learned: cosines with the exact ones, and shaping with the first.

    uv run benchmarks/spectrum.py --only cosines --worlds four-rooms --seeds 1
    uv run benchmarks/spectrum.py --only shaping    Q-learning with the learned successor potential
    uv run benchmarks/spectrum.py --only picture    the figure of the docs

Prints Markdown. Without `--only`, all parts but the picture.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from common import LAM, WORLDS, data_of, timed
from drogo import (
    ALLO,
    GDO,
    GGDO,
    Column,
    Drogo,
    GridWorld,
    NaturalGDO,
    Regression,
    Spectrum,
    Transitions,
    exact,
    fit,
    plot,
)  # fmt: skip
from drogo.files import write_file
from tables import ROOT, Part, parse_options, write_parts

MATRICES = ("laplacian", "default")
METHODS = {"ALLO": ALLO, "GGDO": GGDO, "GDO": GDO}
FIGURE = ROOT / "docs/figures/spectrum-four-rooms.png"


def problem_of(vectors: int, matrix: str) -> Spectrum:
    return Spectrum(vectors, matrix=matrix, discount=0.99, lam=LAM)


def truth_of(
    world: GridWorld, kind: str, problem: Spectrum, data: Transitions
) -> exact.Eigenvectors:
    """Returns the exact vectors, in the order of the data's observations."""
    assert np.array_equal(data.observations, world.observations(kind))
    lam = LAM if problem.matrix == "default" else None
    settings = {"matrix": problem.matrix, "discount": problem.discount, "lam": lam}
    return exact.spectrum(world.mdp, problem.vectors, **settings)


def cosines(options: Namespace) -> Iterator[list[object]]:
    for matrix, name, kind in product(MATRICES, options.worlds, options.inputs):
        world, problem = GridWorld.load(name), problem_of(options.vectors, matrix)
        data = data_of(world, kind, options.transitions)
        truth = truth_of(world, kind, problem, data)
        cells, minutes, diverged = [], [], 0
        for method in METHODS.values():
            chosen = method(updates=options.updates)
            seconds, solution = timed(fit, data, problem, chosen, seeds=options.seeds)
            scores, together = solution.score(truth), solution.subspace(truth).mean()
            cells.append(f"{np.nanmean(scores):.4f} ({np.nanmin(scores):.4f})")
            if method is GDO:
                rotated = np.nanmean(solution.rotated().score(truth))
                cells[-1] = f"{together:.4f}, {rotated:.4f}"
            minutes.append(f"{seconds / 60:.1f}")
            diverged += solution.status.count("diverged")
        yield [matrix, name, kind, *cells, diverged, ", ".join(minutes)]


def shaping(options: Namespace) -> Iterator[list[str]]:
    """Yields the steps until Q-learning is optimal with closed-form and with learned potentials."""
    from drogo_paper.agents import Training, compare
    from drogo_paper.agents.shaping_experiment import cell, potentials, summarise

    table: dict[str, list[str]] = {}
    for name in (name for name in options.worlds if name in WORLDS):
        world, learned = GridWorld.load(name), {}
        for kind in ("one-hot", *options.inputs):
            data = data_of(world, kind, options.transitions)
            method = ALLO(updates=options.updates)
            successor = fit(data, problem_of(1, "successor"), method, seeds=options.seeds)
            default = fit(data, Column(lam=LAM), Regression(), seeds=options.seeds)
            learned |= {f"SR {kind}": -successor.v[:, 0], f"DR {kind}": default.v}
            print(f"<!-- {name}, {kind}: {successor.status}, {default.status} -->", flush=True)
        methods = potentials(world, learned, seeds=10, lam=LAM, discount=0.99)
        training = Training(world.step_limit, world.low_reward)
        grids = compare(world.mdp, methods, training, seeds=10)
        for method, row in summarise(grids).items():
            table.setdefault(method, []).append(cell(row.steps_to_optimal, 1000))
    yield from ([method, *cells] for method, cells in table.items())


def draw_picture(options: Namespace) -> None:
    """Draws what every method learns in four-rooms, beside the exact vectors."""
    world = GridWorld.load("four-rooms")
    data = data_of(world, "coordinates", options.transitions)
    columns, rows = 4, []
    for matrix, methods in (("laplacian", METHODS), ("default", ("ALLO",))):
        problem = problem_of(columns + 1, matrix)
        truth = truth_of(world, "coordinates", problem, data)
        exact_vectors = truth.vectors[1 : columns + 1]
        rows.append((f"exact,\n{matrix}", exact_vectors, range(2, 6)))
        for method in methods:
            solution = fit(data, problem, METHODS[method](updates=options.updates))
            vectors, score = solution.v[0, 1:], f"{solution.score(truth).mean():.4f}"
            if method == "GDO":
                score = f"subspace {solution.subspace(truth)[0]:.3f}"
            sign = np.sign((vectors * exact_vectors).sum(axis=1, keepdims=True))
            rows.append((f"{method},\n{matrix}\n({score})", sign * vectors, range(2, 6)))
    logs = {"exact column": exact.log_column(world.mdp, LAM)}
    for method in (Drogo(), Drogo(action_values=True), NaturalGDO()):
        name = "Drogo, by action" if getattr(method, "action_values", None) else method.name
        v = fit(data, Column(lam=LAM), method).v[0]
        logs[name] = v - v[world.terminal]
    rows.append(("principal,\nlog e", np.stack(list(logs.values())), tuple(logs)))
    figure = Figure(figsize=(8.4, 1.62 * len(rows)), layout="constrained")
    grid = zip(rows, figure.subplots(len(rows), columns), strict=True)
    for (name, vectors, titles), panels in grid:
        is_log = name.startswith("principal")
        for axes, vector, title in zip(panels, vectors, titles, strict=True):
            largest = float(np.abs(vector).max())
            limits = (float(vector.min()), 0.0) if is_log else (-largest, largest)
            plot.heatmap(world, vector, axes=axes, label="", limits=limits, numbers=False,
                         colours="viridis" if is_log else "RdBu_r")  # fmt: skip
            axes.set(xlabel="", ylabel="", xticks=[], yticks=[])
            axes.set_title(title if is_log else f"vector {title}", fontsize=8)
        panels[0].set_ylabel(name, fontsize=9)
    for axes in figure.axes:
        axes.tick_params(labelsize=6)
    write_file(FIGURE, plot.as_png(figure), overwrite=True)
    print(FIGURE)


PARTS = {
    "cosines": Part(
        "spectrum",
        cosines,
        "The first {vectors} vectors from {transitions:,} transitions with {seeds} seeds, beside "
        "the exact ones: the mean cosine over vectors and seeds, and in brackets the worst.",
        ("matrix", "world", "input", "ALLO", "GGDO", "GDO: subspace, rotated", "diverged",
         "minutes"),
        "GDO finds any rotation: the overlap of the subspace, and the mean cosine after "
        "`rotated()`.",
    ),
    "shaping": Part(
        "successor-shaping",
        shaping,
        "Tabular Q-learning with the paper's grid of weights and step sizes: thousands of steps "
        "until the return stays optimal, the mean of ten agents with maps of {seeds} seeds from "
        "{transitions:,} transitions.",
        ("potential", *WORLDS),
        "SR is the successor representation (`ALLO()`), DR the default one (`Regression()`).",
    ),
}  # fmt: skip

if __name__ == "__main__":
    options = parse_options(
        __doc__, only=tuple(PARTS), worlds=(*WORLDS, "grid-room-large", "grid-maze-large"),
        inputs=("coordinates", "pixels"), seeds=10, vectors=8, updates=None, transitions=200_000,
    )  # fmt: skip
    if options.only == ["picture"]:
        draw_picture(options)
    else:
        write_parts(PARTS, options)
