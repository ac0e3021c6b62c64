"""The truth and the pictures of each kind of world.

The verbs import this file when they run, since it imports heavy packages at its top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from drogo import plot
from drogo.data import Transitions
from drogo.exact import LogVector, solve
from drogo.exact.continuous import GridSolution
from drogo.learn import Solution as Learned
from drogo.plot.fields import draw_cloud, draw_image, side_by_side
from drogo.plot.panels import of_fit
from drogo.plot.scenes import exact_scenes, over_scenes
from drogo.worlds.control import HIGH, LOW, is_goal, mountain_car_truth, walled_room_truth
from drogo.worlds.minigrid.scenes import scenes
from drogo.worlds.resolve import Environment, GridMap, MiniGrid, World
from drogo.worlds.shipped import ROOM_IDS

TRUTHS = ("column", "representation", "transition")
MOUNTAIN_CAR = "MountainCar-v0"
PIXELS_OF_A_PLANE = 120


def truth(
    world: World, data: Transitions | Learned, lam: float
) -> dict[str, Float[np.ndarray, " distinct"]]:
    """Returns the exact vectors over the observations of the data, where the world has them.

    Args:
        world: The world that the data come from.
        data: Transitions, or a fit to transitions.
        lam: Temperature.
    """
    plane = _plane(world, lam)
    if plane is not None:
        vector = plane.truth(data.observations.astype(np.float64))
        vector[data.terminal_states] = 0.0
        return {"column": vector}
    mdp = world.known_mdp
    if mdp is None:
        return {}
    rows = np.arange(mdp.n_states)
    if isinstance(world, Environment):  # the data may hold a part of the states, in any order
        rows = mdp.index_of(data.observations)
    definitions = TRUTHS if isinstance(world, GridMap) else TRUTHS[:1]
    solutions = {name: solve(mdp, lam, name) for name in definitions}
    return {name: s.log_e[rows] for name, s in solutions.items() if s.status == "converged"}


def without_formulas(name: str) -> str:
    """Returns a text with dollars escaped, between which matplotlib expects formulas."""
    return name.replace("$", r"\$")


def exact(world: World, solution: LogVector) -> Figure:
    """Returns the picture of an exact vector: over a map or grid, or over the states in order."""
    title = f"{_title(world)}: {solution.definition}, lambda = {solution.lam:g}"
    label = "log of the DR column" if solution.definition == "column" else "log e"
    if solution.definition != "column":
        zero_row = solution.terminal == "zero-row"
        title += ", zero row" if zero_row else f", delta = {solution.delta:g}"
    if isinstance(world, GridMap):
        return plot.heatmap(world.grid, solution.log_e, title=title, label=label)
    if isinstance(world, MiniGrid):
        return exact_scenes(scenes(world.env), solution.log_e, title=title, label=label)
    return plot.profile(solution.log_e, title=title, label=label)


def learned(world: World, result: Learned, truths: Mapping[str, np.ndarray], how: str) -> Figure:
    """Returns the picture of a fit, beside the exact vector where it is known.

    Args:
        world: The world of the fit.
        result: The fit.
        truths: The result of `truth` for its transitions.
        how: A description of the training, for the title.
    """
    title = f"{_title(world)}: {how}"
    if isinstance(world, GridMap):
        v = result.v
        if not result.method.anchored:  # these have unit norm; a column is 0 at the goal
            v = v - v[:, world.grid.terminal][:, :1]
        title = f"{_title(world)} from {world.view}: {how}"
        return plot.learned(world.grid, truths.get("column"), v, result.history, title=title)
    shown = of_fit(truths.get("column"), result.v.mean(axis=0), result.history)
    if isinstance(world, MiniGrid):
        seen = "pixels" if world.view == "rgb" else "symbols"
        title = f"{_title(world)}, from {seen}\n{how}"
        return over_scenes(scenes(world.env), shown, title=title)
    plane = _plane(world, result.problem.lam)
    if plane is not None:
        return _over_plane(plane, result, title)
    return side_by_side(partial(draw_cloud, result.observations), shown, title=title)


def _title(world: World) -> str:
    if isinstance(world, MiniGrid):
        return f"{world.spec.id}, layout {world.arguments['layout']}"
    return without_formulas(world.name)


@dataclass(frozen=True)
class Plane:
    """A continuous world of two dimensions whose exact vector is known."""

    truth: GridSolution
    low: tuple[float, float]
    high: tuple[float, float]
    names: tuple[str, str]
    aspect: Literal["auto", "equal"]
    is_goal: Callable[[np.ndarray], np.ndarray] = lambda rows: np.zeros(len(rows), dtype=bool)


def _plane(world: World, lam: float) -> Plane | None:
    """Returns the plane of MountainCar and of the walled rooms, and None for other worlds."""
    if not isinstance(world, Environment):
        return None
    if world.spec.id == MOUNTAIN_CAR:
        truth = mountain_car_truth(lam, reward=world.sampling["reward"])
        return Plane(truth, LOW, HIGH, ("position", "velocity"), "auto", is_goal)
    if world.spec.id in ROOM_IDS and world.reward is None:
        truth = walled_room_truth(ROOM_IDS[world.spec.id], lam)
        return Plane(truth, (0.0, 0.0), (1.0, 1.0), ("x", "y"), "equal")
    return None


def _over_plane(plane: Plane, result: Learned, title: str) -> Figure:
    """Draws the first coordinate across, the second up. Terminal states and walls stay empty."""
    across, up = np.linspace(plane.low, plane.high, PIXELS_OF_A_PLANE).T
    states = np.stack(np.meshgrid(across, up[::-1]), axis=2)
    rows = states.reshape(-1, 2)
    vectors = (plane.truth(rows), result(rows.astype(np.float32)).mean(axis=0))
    visible = np.isfinite(vectors[0]) & (vectors[0] < 0) & ~plane.is_goal(rows)
    truth, mean = (np.where(visible, part, np.nan).reshape(states.shape[:2]) for part in vectors)
    extent = (plane.low[0], plane.high[0], plane.low[1], plane.high[1])
    draw = partial(draw_image, extent=extent, names=plane.names, aspect=plane.aspect)
    return side_by_side(draw, of_fit(truth, mean, result.history), title=title)
