"""Pictures of exact vectors and of fits: a heavy file, which the verbs import when they run."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drogo import plot
from drogo.exact import LogVector
from drogo.learn.solution import Solution as Learned
from drogo.plot.maps import over_scenes
from drogo.plot.panels import WALL, Panel, Panels, draw_cloud, draw_image, of_fit, side_by_side
from drogo.worlds.resolve import World
from drogo.worlds.scenes import Mark, Scene

PIXELS_OF_A_PLANE = 120


def exact(world: World, solution: LogVector) -> Figure:
    """Returns the picture of an exact vector: over a map or scenes, or over the states in order."""
    title = f"{world.title}: {solution.definition}, lambda = {solution.lam:g}"
    label = "log of the DR column" if solution.definition == "column" else "log e"
    if solution.definition != "column":
        zero_row = solution.terminal == "zero-row"
        title += ", zero row" if zero_row else f", delta = {solution.delta:g}"
    if world.grid is not None:
        return plot.heatmap(world.grid, solution.log_e, title=title, label=label)
    if world.scenes:
        return over_scenes(world.scenes, [Panel(solution.log_e, label=label)], title=title)
    states, shown = world.mdp.states, ([Panel(solution.log_e, label=label)], None)
    if world.lattice is not None:
        terminal = np.flatnonzero(world.mdp.terminal)
        return _over_lattice(world.lattice, np.array(states), terminal, shown, title)
    numbered = all(isinstance(state, int) for state in states)  # by the environment
    names = "number of the state" if numbered else "state, in the order of mdp.states", ""
    numbers = np.array(states if numbered else range(len(states)))
    return side_by_side(partial(draw_cloud, observations=numbers, names=names), shown, title=title)


def learned(world: World, result: Learned, truths: Mapping[str, np.ndarray], how: str) -> Figure:
    """Returns the picture of a fit beside the exact column. `how` says how it was trained."""
    column = truths.get("column")
    if world.grid is not None:
        v = result.v
        if not result.method.anchored:  # these have unit norm; a column is 0 at the goal
            v = v - v[:, world.grid.terminal][:, :1]
        title = f"{world.title} from {world.view}: {how}"
        return plot.learned(world.grid, column, v, result.history, title=title)
    shown = of_fit(column, result.v.mean(axis=0), result.history)
    if world.scenes:
        view = "pixels" if world.view == "rgb" else "symbols"
        return over_scenes(world.scenes, *shown, title=f"{world.title}, from {view}\n{how}")
    title, plane = f"{world.title}: {how}", world.plane(result.problem.lam)
    if plane is not None:  # the first coordinate across, the second up
        low, high = plane.low, plane.high
        across, up = np.linspace(low, high, PIXELS_OF_A_PLANE).T
        states = np.stack(np.meshgrid(across, up[::-1]), axis=2)
        rows = states.reshape(-1, 2)
        exactly, mean = plane.v(rows), result(rows.astype(np.float32)).mean(axis=0)
        # Terminal states and walls stay empty.
        visible = np.isfinite(exactly) & (exactly < 0) & ~plane.is_goal(rows)
        both = (np.where(visible, part, np.nan) for part in (exactly, mean))
        exactly, mean = (part.reshape(states.shape[:2]) for part in both)

        def draw(axes: Axes, panel: Panel) -> None:
            axes.set_facecolor(WALL)
            image = draw_image(axes, panel, extent=(low[0], high[0], low[1], high[1]))
            image.axes.set_aspect("equal" if plane.names == ("x", "y") else "auto")
            axes.set(xlabel=plane.names[0], ylabel=plane.names[1])

        return side_by_side(draw, of_fit(exactly, mean, result.history), title=title)
    if world.lattice is not None:
        states = result.observations.ravel()
        return _over_lattice(world.lattice, states, result.terminal_states, shown, title)
    return side_by_side(partial(draw_cloud, observations=result.observations), shown, title=title)


def _over_lattice(
    shape: tuple[int, int], states: np.ndarray, terminal: np.ndarray, shown: Panels, title: str
) -> Figure:
    """Draws values of states that are numbered row by row; some, by their indices, are terminal."""
    marks = tuple(Mark(k % shape[1], k // shape[1], "terminal") for k in states[terminal].tolist())
    ground = np.zeros(shape, dtype=bool)
    scene = Scene("", ground, ground, marks, np.arange(len(states)), states)
    figure = over_scenes([scene], *shown, title=title)
    if shown[1] is None:
        figure.set_size_inches(6.5, 2.0 + 4.5 * shape[0] / shape[1])
    return figure
