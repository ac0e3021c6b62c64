"""The truth and the pictures of each kind of world.

The verbs import this file when they need it: unlike them, it imports what is heavy at its top.
"""

from __future__ import annotations

import json

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from drogo import plot
from drogo.data import Transitions
from drogo.exact import Solution, solve
from drogo.exact.continuous import GridSolution
from drogo.learn import LogEigenvector
from drogo.plot.fields import Plane, learned_cloud, learned_field
from drogo.worlds.control import mountain_car_truth
from drogo.worlds.control.mountain_car import GOAL, HIGH, LOW
from drogo.worlds.resolve import Environment, GridMap, MiniGrid, World

TRUTHS = ("column", "representation", "transition")
MOUNTAIN_CAR = "MountainCar-v0"
PIXELS_OF_A_PLANE = 120


def truth(world: World, data: Transitions, lam: float) -> dict[str, Float[np.ndarray, " distinct"]]:
    """Returns the exact vectors over the observations of the data, as far as they are known.

    Args:
        world: The world that the data come from.
        data: Transitions.
        lam: Temperature.
    """
    if _is_mountain_car(world):
        vector = _mountain_car(world, lam)(data.observations.astype(np.float64))
        vector[data.terminal_states] = 0.0
        return {"column": vector}
    mdp = world.known_mdp
    if mdp is None:
        return {}
    rows = np.arange(mdp.n_states)
    if isinstance(world, Environment):  # the data may hold a part of the states, in any order
        index = {state: row for row, state in enumerate(mdp.states)}
        rows = np.array([index[int(state)] for state in data.observations])
    definitions = TRUTHS if isinstance(world, GridMap) else TRUTHS[:1]
    solutions = {name: solve(mdp, lam, name) for name in definitions}
    return {name: s.log_e[rows] for name, s in solutions.items() if s.status == "converged"}


def exact(world: World, solution: Solution) -> Figure:
    """Returns the picture of an exact vector: over the map, or over the states in their order."""
    title = f"{world.name}: {solution.definition}, lambda = {solution.lam:g}"
    label = "log of the DR column" if solution.definition == "column" else "log e"
    if solution.definition != "column":
        zero_row = solution.terminal == "zero-row"
        title += ", zero row" if zero_row else f", delta = {solution.delta:g}"
    if isinstance(world, GridMap):
        return plot.heatmap(world.grid, solution.log_e, title=title, label=label)
    return plot.profile(solution.log_e, title=title, label=label)


def state_labels(world: World) -> dict[str, np.ndarray]:
    """Returns what the states of the exact MDP stand for: cells, or keys of the environment."""
    if isinstance(world, GridMap):
        return {"cells": world.grid.cells}
    return {"states": np.array([json.dumps(key, default=str) for key in world.mdp.states])}


def learned(world: World, result: LogEigenvector, how: str) -> Figure:
    """Returns the picture of a fit, beside the exact vector where it is known.

    Args:
        world: The world of the fit.
        result: The fit.
        how: How it was trained, for the title.
    """
    seeds = len(result.seeds)
    if isinstance(world, GridMap):
        return _on_map(world, result, f"{world.name} from {world.view}: {how}")
    if isinstance(world, MiniGrid):
        return _over_positions(world, result, how)
    if _is_mountain_car(world):
        return _over_plane(world, result, f"{world.name}: {how}")
    mean = result.v.mean(axis=0)
    title = f"{world.name}: {how}"
    return learned_cloud(result.observations, mean, result.history, seeds=seeds, title=title)


def _on_map(world: GridMap, result: LogEigenvector, title: str) -> Figure:
    solution = solve(world.mdp, result.config.lam, "column")
    if solution.status != "converged":
        return plot.profile(result.v.mean(axis=0), title=title, label="learned log e")
    v = result.v
    if not result.learner.objective.anchored:  # these have unit norm; a column is 0 at the goal
        v = v - v[:, world.grid.terminal][:, :1]
    return plot.learned(world.grid, solution.log_e, v, result.history, title=title)


def _over_positions(world: MiniGrid, result: LogEigenvector, how: str) -> Figure:
    """The mean over directions, doors and objects at each position of the grid."""
    env = world.env.unwrapped
    width, height = int(env.width), int(env.height)  # pyright: ignore[reportAttributeAccessIssue]
    positions = world.env.positions
    cell = positions[:, 1] * width + positions[:, 0]

    def over_cells(values: np.ndarray) -> np.ndarray:
        count = np.bincount(cell, minlength=width * height)
        with np.errstate(invalid="ignore"):
            return (np.bincount(cell, values, width * height) / count).reshape(height, width)

    solution = solve(world.mdp, result.config.lam, "column")
    known = over_cells(solution.log_e) if solution.status == "converged" else None
    seen = "pixels" if world.view == "rgb" else "symbols"
    title = f"{world.spec.id}, layout {world.arguments['layout']}, from {seen}: {how}\n"
    return learned_field(
        Plane((-0.5, width - 0.5, height - 0.5, -0.5), "column", "row", True),
        known,
        over_cells(result.v.mean(axis=0)),
        result.history,
        seeds=len(result.seeds),
        title=f"{title}(mean over directions, doors, objects)",
    )


def _is_mountain_car(world: World) -> bool:
    return isinstance(world, Environment) and world.spec.id == MOUNTAIN_CAR


def _mountain_car(world: World, lam: float) -> GridSolution:
    return mountain_car_truth(lam, reward=world.sampling["reward"])


def _over_plane(world: World, result: LogEigenvector, title: str) -> Figure:
    """MountainCar: positions across, velocities up."""
    across, up = (
        np.linspace(low, high, PIXELS_OF_A_PLANE) for low, high in zip(LOW, HIGH, strict=True)
    )
    states = np.stack([m.ravel() for m in np.meshgrid(across, up[::-1])], axis=1)
    shape = (up.size, across.size)
    mean = result(states.astype(np.float32)).mean(axis=0)
    known = _mountain_car(world, result.config.lam)(states)
    goal = (states[:, 0] >= GOAL) & (states[:, 1] >= 0)
    known[goal] = mean[goal] = np.nan
    plane = Plane((LOW[0], HIGH[0], LOW[1], HIGH[1]), "position", "velocity")
    return learned_field(
        plane,
        known.reshape(shape),
        mean.reshape(shape),
        result.history,
        seeds=len(result.seeds),
        title=title,
    )
