"""Two fits side by side: what they have in common, how far apart they are, and their picture.

The verb `compare` imports this file when it runs: unlike it, it imports what is heavy at its top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from drogo import plot
from drogo.cli import pictures
from drogo.cli.output import number
from drogo.data.table import merge_equal
from drogo.errors import ArgumentError
from drogo.learn import LogEigenvector, load
from drogo.learn.judge import cosine, differences
from drogo.plot.compare import compared_curves, of_two_fits
from drogo.plot.fields import side_by_side
from drogo.plot.scenes import over_scenes
from drogo.worlds import shipped
from drogo.worlds.minigrid.scenes import scenes
from drogo.worlds.resolve import GridMap, MiniGrid, World, resolve

ASKED = ("preset", "transitions", "data_seed", "reward")
"""What a request says of a fit that its settings do not."""
VIEWS = ("one-hot", "coordinates", "state", "pixels")


@dataclass(frozen=True)
class Fit:
    """A fit, and what is known of the world that it was learned in."""

    result: LogEigenvector
    request: Mapping[str, Any]
    """The request of `drogo learn`; empty if the fit was saved by a program."""
    world: World | None
    truth: Float[np.ndarray, " observations"] | None
    """The exact column, if it is known."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that may differ between two fits, by name, as far as it is known."""
        result, named = self.result, {}
        if self.world is not None:
            named = {"world": self.world.name, "observed as": self.world.view}
        asked = {name: self.request[name] for name in ASKED if name in self.request}
        made = {"network": result.network, "updates made": result.updates}
        data = {"data": result.data_digest[:8]}
        return {**named, **asked, **result.config.as_json(), **made, **data}

    @property
    def v(self) -> Float[np.ndarray, "seeds observations"]:
        """What was learned. Vectors of unit norm are shifted: a column is 0 at the goal."""
        result = self.result
        if result.learner.objective.anchored or not result.terminal_states.size:
            return result.v
        return result.v - result.v[:, result.terminal_states[:1]]


def read(path: Path, request: Mapping[str, Any]) -> Fit:
    """Reads a fit, finds its world, and solves it exactly where that is possible.

    Args:
        path: The file of the fit.
        request: The request of the result that the file belongs to, or nothing.
    """
    result = load(path)
    world = _world(result, request)
    truth = None
    if world is not None:
        truth = pictures.truth(world, result, result.config.lam).get("column")
    return Fit(result, request, world, truth)


def _world(result: LogEigenvector, request: Mapping[str, Any]) -> World | None:
    """The world of a fit: the one that its request describes, or a shipped one that fits."""
    digest = request.get("world", {})
    if "map" in digest:
        name = next((n for n in shipped.names() if shipped.read(n)[1] == digest["map"]), "map")
        return GridMap(name, request["view"], digest, name)
    if "spec" in digest:
        return _environment(digest, request)
    for name in shipped.names():
        grid = resolve(name)
        assert isinstance(grid, GridMap)
        if grid.grid.n_states != len(result.observations):
            continue
        for view in VIEWS:
            if np.array_equal(grid.grid.observations(view), result.observations):
                return GridMap(name, view, grid.digest, name)
    return None


def _environment(digest: Mapping[str, Any], request: Mapping[str, Any]) -> World | None:
    """The environment of a request, or None if it is not there or is another one by now."""
    arguments = digest.get("arguments")
    options: dict[str, Any] = {"reward": request.get("reward"), "key": digest.get("key")}
    if arguments is not None:
        view = "symbolic" if arguments["observation"] == "symbolic" else "pixels"
        tile = None if view == "symbolic" else arguments["tile"]
        options = {"layout": arguments["layout"], "observation": view, "tile": tile,
                   "reward": request.get("reward")}  # fmt: skip
    elif not options["key"]:
        options["key"] = request.get("view") or None
    try:
        world = resolve(digest["spec"]["id"], **options)
    except ArgumentError:
        return None
    same = world.digest | {"key": None} == {**digest, "key": None}
    return world if same else None


def differing_settings(a: Fit, b: Fit) -> dict[str, list[Any]]:
    """Returns the settings in which two fits differ, among those that are known of both."""
    first, second = a.settings, b.settings
    return {
        name: [value, second[name]]
        for name, value in first.items()
        if name in second and value != second[name]
    }


def same_grid(a: Fit, b: Fit) -> bool:
    """Whether both fits have a value for each state of the same map or MiniGrid grid."""
    if isinstance(a.world, GridMap) and isinstance(b.world, GridMap):
        return a.world.digest["map"] == b.world.digest["map"]
    if isinstance(a.world, MiniGrid) and isinstance(b.world, MiniGrid):
        shown = ("observation", "tile")
        known = [
            {name: part for name, part in world.arguments.items() if name not in shown}
            for world in (a.world, b.world)
        ]
        return a.world.spec.id == b.world.spec.id and known[0] == known[1]
    return False


def shared(a: Fit, b: Fit) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Returns the rows of both fits that stand for the same: for the same state of a grid, which
    they may observe differently, or for equal observations."""
    first, second = a.result.observations, b.result.observations
    if same_grid(a, b):
        rows = np.arange(len(first))
        return rows, rows
    if first.shape[1:] != second.shape[1:] or first.dtype != second.dtype:
        return np.arange(0), np.arange(0)
    _, index = merge_equal(np.concatenate([first, second]))
    _, in_a, in_b = np.intersect1d(index[: len(first)], index[len(first) :], return_indices=True)
    order = np.argsort(in_a)
    return in_a[order], in_b[order]


def by_seed(a: Fit, b: Fit) -> list[dict[str, Any]]:
    """Returns the numbers of each seed of either fit, and of the mean over the seeds of each.

    Numbers that are not known are None.
    """
    rows = shared(a, b)
    seeds = sorted({*a.result.seeds, *b.result.seeds})
    lines = [_line(a, b, rows, seed) for seed in seeds]
    if len(seeds) > 1:
        lines.append(_line(a, b, rows, None))
    return lines


def _line(a: Fit, b: Fit, rows: tuple[np.ndarray, np.ndarray], seed: int | None) -> dict[str, Any]:
    (v_a, status_a), (v_b, status_b) = (_of_seed(fit, seed) for fit in (a, b))
    exact_a, exact_b = _distance(a, v_a, a.truth), _distance(b, v_b, b.truth)
    between = _distance(a, v_a, v_b, *rows)
    line = {"seed": "mean" if seed is None else seed, "status": [status_a, status_b], **between}
    return {**line, **{f"{name}_exact": [exact_a[name], exact_b[name]] for name in between}}


def _of_seed(fit: Fit, seed: int | None) -> tuple[np.ndarray | None, str]:
    """The vector and the status of a seed, or of the mean over all seeds."""
    if seed is None:
        return fit.v.mean(axis=0), ""
    if seed not in fit.result.seeds:
        return None, "-"
    k = fit.result.seeds.index(seed)
    return fit.v[k], fit.result.status[k]


def _distance(
    fit: Fit, v: np.ndarray | None, other: np.ndarray | None, *rows: np.ndarray
) -> dict[str, float | None]:
    """How far a vector of a fit is from another one, in some rows of each or else in all.

    Both are shifted to 0 at the first of these rows that is a terminal state.
    """
    if v is None or other is None or (rows and not rows[0].size):
        return {"cosine": None, "difference": None}
    here, there = rows or (np.arange(v.size),) * 2
    anchor = int(np.isin(here, fit.result.terminal_states).argmax())
    v, other = v[None, here], other[there]
    gap = differences(v, other, anchor).max()
    return {"cosine": number(float(cosine(v, other)[0])), "difference": number(float(gap))}


def maps(a: Fit, b: Fit) -> dict[str, np.ndarray]:
    """Returns the rows that two fits have in common, and what each seed learned there."""
    in_a, in_b = shared(a, b)
    return {"rows_a": in_a, "rows_b": in_b, "a": a.v[:, in_a], "b": b.v[:, in_b]}


def remarks(a: Fit, b: Fit) -> list[str]:
    """Returns what keeps the two fits from being comparable in all respects."""
    texts = []
    sizes = [len(fit.result.observations) for fit in (a, b)]
    common = shared(a, b)[0].size
    worlds = [None if fit.world is None else fit.world.name for fit in (a, b)]
    if None not in worlds and worlds[0] != worlds[1]:
        texts.append(f"A was learned in {worlds[0]} and B in {worlds[1]}.")
    if common == 0:
        shapes = [fit.result.observations.shape[1:] for fit in (a, b)]
        texts.append(
            f"The fits have no observation in common (shapes {shapes[0]} and {shapes[1]}), so "
            "their maps are not compared with each other."
        )
    elif common < max(sizes):
        texts.append(
            f"The maps are compared over the {common} observations in common, of {sizes[0]} in A "
            f"and {sizes[1]} in B."
        )
    lams = [fit.result.config.lam for fit in (a, b)]
    if lams[0] != lams[1]:
        texts.append(
            f"lambda is {lams[0]:g} in A and {lams[1]:g} in B: these are different vectors, whose "
            "difference is not an error."
        )
    if not {*a.result.seeds} & {*b.result.seeds}:
        texts.append("The fits have no seed in common; only their means are compared.")
    return texts


def figure(a: Fit, b: Fit, title: str) -> Figure:
    """Returns the picture: both maps and their difference over a grid, and the learning curves."""
    histories = (a.result.history, b.result.history)
    first, second = (fit.v.mean(axis=0) for fit in (a, b))
    if same_grid(a, b) and isinstance(a.world, GridMap):
        draw = partial(plot.heatmap, a.world.grid, numbers=False)
        return side_by_side(draw, of_two_fits(first, second, histories), title=title)
    if same_grid(a, b) and isinstance(a.world, MiniGrid):
        shown = of_two_fits(first, second, histories)
        return over_scenes(scenes(a.world.env), shown, title=title)
    in_a, in_b = shared(a, b)
    return compared_curves(first[in_a], second[in_b], histories, title=title)
