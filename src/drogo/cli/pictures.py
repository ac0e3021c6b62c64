"""The truth and the pictures of each kind of world.

The verbs import this file when they run, since it imports heavy packages at its top.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo import plot
from drogo.data import Transitions
from drogo.exact import LogVector, solve
from drogo.exact.continuous import GridSolution
from drogo.learn import Solution as Learned
from drogo.plot.fields import draw_cloud, side_by_side
from drogo.plot.panels import WALL, Panel, draw_image, of_fit
from drogo.plot.scenes import over_scenes
from drogo.worlds.control import HIGH, LOW, is_goal, mountain_car_truth, walled_room_truth
from drogo.worlds.resolve import Environment, GridMap, MiniGrid, World
from drogo.worlds.scenes import scenes
from drogo.worlds.shipped import ROOM_IDS

TRUTHS = ("column", "representation", "transition")
MOUNTAIN_CAR = "MountainCar-v0"
PIXELS_OF_A_PLANE = 120


def truth(world: World, data: Transitions, lam: float) -> dict[str, Float[np.ndarray, " distinct"]]:
    """Returns the exact vectors over the observations of the data, where the world has them."""
    plane = _plane(world, lam)
    if plane is not None:
        vector = plane(data.observations.astype(np.float64))
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
        return over_scenes(scenes(world.env), [Panel(solution.log_e, label=label)], title=title)
    return plot.profile(solution.log_e, title=title, label=label)


def learned(world: World, result: Learned, truths: Mapping[str, np.ndarray], how: str) -> Figure:
    """Returns the picture of a fit, beside the exact vector that `truth` returned. The title says
    how it was trained."""
    title, column = f"{_title(world)}: {how}", truths.get("column")
    if isinstance(world, GridMap):
        v = result.v
        if not result.method.anchored:  # these have unit norm; a column is 0 at the goal
            v = v - v[:, world.grid.terminal][:, :1]
        title = f"{_title(world)} from {world.view}: {how}"
        return plot.learned(world.grid, column, v, result.history, title=title)
    if isinstance(world, MiniGrid):
        view = "pixels" if world.view == "rgb" else "symbols"
        shown = of_fit(column, result.v.mean(axis=0), result.history)
        return over_scenes(scenes(world.env), *shown, title=f"{_title(world)}, from {view}\n{how}")
    plane = _plane(world, result.problem.lam)
    if plane is not None:
        is_car = isinstance(world, Environment) and world.spec.id == MOUNTAIN_CAR
        return _over_plane(plane, result, title, is_car)
    draw = partial(draw_cloud, observations=result.observations)
    shown = of_fit(column, result.v.mean(axis=0), result.history)
    return side_by_side(draw, shown, title=title)


def _title(world: World) -> str:
    if isinstance(world, MiniGrid):
        return f"{world.spec.id}, layout {world.arguments['layout']}"
    return without_formulas(world.name)


def _plane(world: World, lam: float) -> GridSolution | None:
    """Returns the exact vector of MountainCar or of a walled room, and None for other worlds."""
    if not isinstance(world, Environment):
        return None
    if world.spec.id == MOUNTAIN_CAR:
        return mountain_car_truth(lam, reward=world.sampling["reward"])
    if world.spec.id in ROOM_IDS and world.reward is None:
        return walled_room_truth(ROOM_IDS[world.spec.id], lam)
    return None


def _over_plane(truth: GridSolution, result: Learned, title: str, is_car: bool) -> Figure:
    """Draws the first coordinate across, the second up. Terminal states and walls stay empty."""
    low, high = (LOW, HIGH) if is_car else ((0.0, 0.0), (1.0, 1.0))
    across, up = np.linspace(low, high, PIXELS_OF_A_PLANE).T
    states = np.stack(np.meshgrid(across, up[::-1]), axis=2)
    rows = states.reshape(-1, 2)
    exactly, mean = truth(rows), result(rows.astype(np.float32)).mean(axis=0)
    visible = np.isfinite(exactly) & (exactly < 0) & ~(is_car & is_goal(rows))
    exactly, mean = (
        np.where(visible, part, np.nan).reshape(states.shape[:2]) for part in (exactly, mean)
    )

    def draw(axes: Axes, panel: Panel) -> None:
        axes.set_facecolor(WALL)
        extent = (low[0], high[0], low[1], high[1])
        draw_image(axes, panel, extent=extent, aspect="auto" if is_car else "equal")
        names = ("position", "velocity") if is_car else ("x", "y")
        axes.set(xlabel=names[0], ylabel=names[1])

    return side_by_side(draw, of_fit(exactly, mean, result.history), title=title)
