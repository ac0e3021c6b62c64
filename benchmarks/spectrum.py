"""Several eigenvectors, learned: cosines with the exact ones, speed, and shaping with the first.

    uv run benchmarks/spectrum.py --only cosines --worlds four-rooms --seeds 1
    uv run benchmarks/spectrum.py --only speed      updates per second against a plain loop
    uv run benchmarks/spectrum.py --only shaping    Q-learning with the learned successor potential
    uv run benchmarks/spectrum.py --only picture    the figure of the docs

Prints Markdown. Without `--only`, all parts but the picture.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from drogo import GridWorld, Transitions, collect, exact, fit, plot
from drogo.agents import compare
from drogo.agents.shaping_experiment import DR_EXACT, SR, UNITS, cell, potentials, summarise
from drogo.files import write_file
from drogo.learn import Eigenvectors

FOUR = ("grid-task", "four-rooms", "grid-maze", "grid-room")
LARGE = ("grid-room-large", "grid-maze-large")
LAM, DISCOUNT, TRANSITIONS = 20.0, 0.99, 200_000
FIGURE = Path(__file__).parents[1] / "docs/figures/spectrum-four-rooms.png"


def data_of(name: str, observation: str, transitions: int = TRANSITIONS) -> Transitions:
    env = gymnasium.make("drogo/GridWorld-v0", world=name, observation=observation)
    return collect(env, transitions, seed=0)


def order_of(world: GridWorld, observation: str, data: Transitions) -> np.ndarray:
    """The row of the data's table that each state of the world has."""
    index = {row.tobytes(): k for k, row in enumerate(data.observations)}
    return np.array([index[row.tobytes()] for row in world.observations(observation)])


def truth_of(world: GridWorld, matrix: str, k: int) -> exact.Spectrum:
    lam = {"lam": LAM} if matrix == "default" else {}
    return exact.spectrum(world.mdp, k, matrix=matrix, discount=DISCOUNT, **lam)


def cosines(options: argparse.Namespace) -> None:
    k = options.vectors
    print(f"\n### The first {k} vectors, {options.seeds} seed(s), against the exact ones\n")
    print("| world | observation | matrix | objective | mean cosine | worst vector | subspace "
          "| rotated: mean cosine | diverged | updates | minutes |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.worlds:
        world = GridWorld.load(name)
        for observation in options.observations:
            data = data_of(name, observation)
            order = order_of(world, observation, data)
            for matrix in options.matrices:
                truth = truth_of(world, matrix, k)
                for objective in options.objectives:
                    began = time.perf_counter()
                    result = learn(data, objective, matrix, options)
                    minutes = (time.perf_counter() - began) / 60
                    print(
                        f"| {name} | {observation} | {matrix} | {objective} | "
                        f"{line(result, order, truth)} | "
                        f"{sum(at is not None for at in result.diverged_at)} of {options.seeds} | "
                        f"{result.updates} | {minutes:.1f} |",
                        flush=True,
                    )


def learn(
    data: Transitions, objective: str, matrix: str, options: argparse.Namespace, **settings: Any
) -> Eigenvectors:
    if options.updates:
        settings["updates"] = options.updates
    return fit(
        data,
        objective=objective,
        vectors=options.vectors,
        matrix=matrix,
        discount=DISCOUNT,
        lam=LAM,
        seeds=options.seeds,
        **settings,
    )


def line(result: Eigenvectors, order: np.ndarray, truth: exact.Spectrum) -> str:
    """Cosines over the states of the world: of the mean vector, the worst, together, rotated."""

    def in_order(vectors: np.ndarray) -> np.ndarray:
        return vectors[:, :, order]

    each = np.stack([exact.cosines(lane, truth) for lane in in_order(result.vectors)])
    together = [exact.overlap(lane, truth) for lane in in_order(result.vectors)]
    turned = result.rotated().vectors
    rotated = np.stack([exact.cosines(lane, truth) for lane in in_order(turned)])
    parts = np.nanmean(each), np.nanmin(each), np.mean(together), np.nanmean(rotated)
    return " | ".join(f"{part:.4f}" for part in parts)


def speed(options: argparse.Namespace) -> None:
    """Updates per second of a fit, and of the same network in a plain loop over mini-batches."""
    print("\n### Updates per second, one seed, coordinates, the objective allo\n")
    print("| world | distinct transitions at once | plain loop, batches of 2,000 | ratio |")
    print("|---|---|---|---|", flush=True)
    for name in options.worlds:
        data = data_of(name, "coordinates")
        settings = {"objective": "allo", "vectors": options.vectors, "stop_early": False}
        result = fit(data, updates=200, **settings)  # compiles
        ours, theirs = [], []
        for _ in range(3):  # one after the other, since other work slows a machine down for a while
            short, long = (timed(data, updates, settings) for updates in (200, 1200))
            ours.append(1000 / (long - short))
            theirs.append(plain(data, result))
        ratio = np.median(ours) / np.median(theirs)
        print(f"| {name} | {np.median(ours):,.0f} | {np.median(theirs):,.1f} | {ratio:,.0f} |",
              flush=True)  # fmt: skip


def timed(data: Transitions, updates: int, settings: dict[str, Any]) -> float:
    began = time.perf_counter()
    fit(data, updates=updates, **settings)
    return time.perf_counter() - began


def plain(data: Transitions, result: Eigenvectors, updates: int = 30) -> float:
    """The same update with a batch of transitions and a second one, as research code makes it."""
    learner, size = result.learner, 2000
    table = jnp.asarray(learner.inputs(np.asarray(data.observations)))
    rows = jnp.asarray(data.state), jnp.asarray(data.next_state)
    reward = jnp.asarray(data.reward, dtype=jnp.float32)
    state = learner.init(jax.tree.map(lambda leaf: leaf[0], result.state.params))

    @jax.jit
    def update(state: Any, key: Any) -> Any:
        first, second = jax.random.randint(key, (2, size), 0, len(reward))
        never = jnp.zeros(size, dtype=bool)
        before, after, other = table[rows[0][first]], table[rows[1][first]], table[rows[0][second]]
        batch = learner.batch(before, after, reward[first], never)
        held = learner.skeleton.features(other)
        fields = vars(batch) | {"second_features": held, "second_weight": batch.weight}
        return learner.step(state, type(batch)(**fields), 1e-3)[0]

    keys = jax.random.split(jax.random.key(0), updates + 1)
    state = jax.block_until_ready(update(state, keys[0]))
    began = time.perf_counter()
    for key in keys[1:]:
        state = update(state, key)
    jax.block_until_ready(state)
    return updates / (time.perf_counter() - began)


def shaping(options: argparse.Namespace) -> None:
    """Steps until Q-learning is optimal: closed-form SR and DR, and those that were learned."""
    print(f"\n### Q-learning with potentials, 10 agents, maps of {options.seeds} seed(s)\n")
    print("| world | potential | " + " | ".join(name for _, name in UNITS.values())
          + " | unsolved seeds | smallest cosine with the closed form |")  # fmt: skip
    print("|---|---|---|---|---|---|", flush=True)
    for name in options.worlds:
        world = GridWorld.load(name)
        learned: dict[str, np.ndarray] = {}
        for observation in ("one-hot", *options.observations):
            data = data_of(name, observation)
            order = order_of(world, observation, data)
            one = argparse.Namespace(**{**vars(options), "vectors": 1})
            result = learn(data, "allo", "successor", one)
            learned[f"SR {observation}"] = -result.vectors[:, 0, order]
            default = fit(data, lam=LAM, seeds=options.seeds)
            learned[f"DR {observation}"] = default.v[:, order]
            print(f"<!-- {name}, {observation}: SR {result.status.count('converged')} and DR "
                  f"{default.status.count('converged')} of {options.seeds} converged -->",
                  flush=True)  # fmt: skip
        methods = potentials(world, learned, seeds=10, lam=LAM, discount=DISCOUNT)
        grids = compare(
            world.mdp, methods, seeds=10, step_limit=world.step_limit, low_reward=world.low_reward
        )
        closed = {"SR": methods[SR], "DR": methods[DR_EXACT]}
        for method, row in summarise(grids).items():
            numbers = [cell(getattr(row, q), unit) for q, (unit, _) in UNITS.items()]
            known, alike = closed.get(method[:2]), ""
            if method in learned and known is not None:
                alike = f"{min(correlation(phi, known[0]) for phi in learned[method]):.4f}"
            print(f"| {name} | {method} | {' | '.join(numbers)} | {row.unfinished} | {alike} |",
                  flush=True)  # fmt: skip


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of two potentials, of which a constant is taken off."""
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def picture(options: argparse.Namespace) -> None:
    """Every objective in four-rooms: what it learned, beside the exact vectors."""
    world = GridWorld.load("four-rooms")
    data = data_of("four-rooms", "coordinates")
    order = order_of(world, "coordinates", data)
    columns, rows = 4, []
    for matrix, objectives in (("laplacian", ("gdo", "ggdo", "allo")), ("default", ("allo",))):
        truth = truth_of(world, matrix, columns + 1)
        known = truth.vectors[1:]
        rows.append((f"exact,\n{matrix}", known, range(2, 6)))
        for objective in objectives:
            five = argparse.Namespace(**{**vars(options), "vectors": columns + 1, "seeds": 1})
            result = learn(data, objective, matrix, five)
            vectors = result.vectors[0][:, order]
            score = exact.cosines(vectors, truth)
            together = exact.overlap(vectors, truth)
            text = f"subspace {together:.3f}" if objective == "gdo" else f"{score.mean():.4f}"
            sign = np.sign((vectors[1:] * known).sum(axis=1, keepdims=True))
            print(objective, matrix, score.round(4), round(together, 4), flush=True)
            rows.append((f"{objective},\n{matrix}\n({text})", sign * vectors[1:], range(2, 6)))
    logs = {"exact column": exact.log_column(world.mdp, LAM)}
    for objective in ("drogo", "q", "natural_gdo"):
        result = fit(data, objective=objective, lam=LAM, preset="fast")
        v = result.v[0, order]
        logs[objective] = v - v[world.terminal]
    rows.append(("principal,\nlog e", np.stack(list(logs.values())), tuple(logs)))
    figure = Figure(figsize=(8.4, 1.62 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), columns)
    for (name, vectors, titles), line_of in zip(rows, panels, strict=True):
        for axes, vector, title in zip(line_of, vectors, titles, strict=True):
            largest = float(np.abs(vector).max())
            logs_here = name.startswith("principal")
            limits = (float(vector.min()), 0.0) if logs_here else (-largest, largest)
            colours = "viridis" if logs_here else "RdBu_r"
            plot.heatmap(world, vector, axes=axes, label="", colours=colours, limits=limits,
                         numbers=False)  # fmt: skip
            axes.set(xlabel="", ylabel="", xticks=[], yticks=[])
            axes.set_title(f"vector {title}" if isinstance(title, int) else title, fontsize=8)
        line_of[0].set_ylabel(name, fontsize=9)
    for axes in figure.axes:
        axes.tick_params(labelsize=6)
    write_file(FIGURE, plot.as_png(figure), overwrite=True)
    print(FIGURE)


PARTS = {"cosines": cosines, "speed": speed, "shaping": shaping}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=(*PARTS, "picture"))
    parser.add_argument("--worlds", nargs="+", default=FOUR)
    parser.add_argument("--observations", nargs="+", default=("coordinates", "pixels"))
    parser.add_argument("--matrices", nargs="+", default=("laplacian", "default"))
    parser.add_argument("--objectives", nargs="+", default=("gdo", "ggdo", "allo"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--vectors", type=int, default=8)
    parser.add_argument("--updates", type=int, default=0, help="by default the preset's")
    options = parser.parse_args()
    if options.only == "picture":
        picture(options)
        return
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options)


if __name__ == "__main__":
    main()
