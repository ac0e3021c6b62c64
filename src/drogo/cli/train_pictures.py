"""The pictures of `drogo train`: how the returns of its agents grow, and how the map forms.

The verb imports this file when it runs: unlike the verb, it imports what is heavy at its top.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from drogo import plot
from drogo.cli.pictures import as_it_is
from drogo.cli.train import Train
from drogo.cli.train_report import Records, seeds_of
from drogo.cli.training import METHODS, episodes_of
from drogo.plot.animation import as_gif
from drogo.plot.fields import draw_cloud
from drogo.plot.maps import heatmap
from drogo.plot.panels import COLOURS, finite_range
from drogo.plot.scenes import exact_scenes
from drogo.plot.training import growth
from drogo.runs.store import Record
from drogo.worlds.minigrid.scenes import Scene, scenes
from drogo.worlds.resolve import GridMap, MiniGrid, World

FRAMES = 30
UNSEEN = "grey: nothing known yet"


def pictures(options: Train, world: World, records: Records) -> dict[str, bytes]:
    """Draws the returns of all agents, and the map of the first seed as it forms.

    Args:
        options: The options.
        world: The world.
        records: The runs, by method and seed.
    """
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in METHODS.values()}
    for (method, _), record in records.items():
        steps = record.arrays["steps"]
        curves[METHODS[method]] += [(steps, row) for row in record.arrays["returns"]]
    label = "return of a greedy episode"
    if options.agent != "q-learning" and (episodes := episodes_of(world)) > 1:
        label = f"mean return of {episodes} greedy episodes"
    title = f"{as_it_is(world.name)}: {options.agent}, {seeds_of(options.seeds)}"
    made = {"curves": plot.as_png(growth(curves, title=title, label=label))}
    first = records["map", 0]
    if np.isfinite(first.arrays["maps"]).any():
        made["map"] = as_gif(frames(world, first))
    return made


def frames(world: World, record: Record) -> list[Figure]:
    """Draws the map of one agent at several times, all with the same colours.

    Args:
        world: The world.
        record: The run of the agent.
    """
    steps, maps = record.arrays["steps"], record.arrays["maps"]
    chosen = np.unique(np.linspace(0, len(maps) - 1, min(FRAMES, len(maps))).round().astype(int))
    limits, draw = finite_range(maps[chosen]), _drawing(world, record)
    below = "" if np.isfinite(maps[chosen]).all() else f"\n{UNSEEN}"
    titles = [f"{as_it_is(world.name)}: the map after {steps[k]:,.0f} steps{below}" for k in chosen]
    return [draw(maps[k], limits=limits, title=one) for k, one in zip(chosen, titles, strict=True)]


def _drawing(world: World, record: Record) -> Any:
    """Returns a function that draws values over the states of a world."""
    if isinstance(world, GridMap):
        return partial(heatmap, world.grid, numbers=False)
    if isinstance(world, MiniGrid):
        return partial(_over_scenes, scenes(world.env))
    return partial(_cloud, record.arrays["places"], tuple(record.facts["names"]))


def _over_scenes(shown: list[Scene], values: np.ndarray, **options: Any) -> Figure:
    """Draws a map over scenes. A cell is grey if none of the agent's directions was seen in it."""
    filled = values.copy()
    for scene in shown:
        is_seen = np.isfinite(values[scene.states])
        seen = replace(scene, states=scene.states[is_seen], cell=scene.cell[is_seen])
        mean = seen.over_cells(values).ravel()
        filled[scene.states[~is_seen]] = mean[scene.cell[~is_seen]]
    return exact_scenes(shown, filled, label="log e", **options)


def _cloud(
    places: np.ndarray, names: tuple[str, str], values: np.ndarray, *, limits: Any, title: str
) -> Figure:
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    options = {"limits": limits, "colours": COLOURS, "label": "log e", "title": title}
    draw_cloud(places, values, axes=figure.add_subplot(), names=names, **options)
    return figure
