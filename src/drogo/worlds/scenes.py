"""Scenes: states of a MiniGrid environment in which only the agent moves, pictures of its grid."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.worlds.minigrid import GOAL, MiniGridWorld

MOST = 4
DOOR_STATES = ("open", "closed", "locked")  # In the order of MiniGrid's numbers for them.


class Mark(NamedTuple):
    """An object in a cell, such as a goal, a key or a door."""

    column: int
    row: int
    kind: str
    is_open: bool = False


@dataclass(frozen=True)
class Scene:
    """A part of the states of a world, over its grid."""

    name: str  # The difference to the other scenes; empty if there is only one.
    walls: Bool[np.ndarray, "height width"]
    lava: Bool[np.ndarray, "height width"]
    marks: tuple[Mark, ...]
    states: Int[np.ndarray, " states"]
    cell: Int[np.ndarray, " states"]  # The cell of each of these states, counted row by row.

    def over_cells(self, values: Float[np.ndarray, " all"]) -> Float[np.ndarray, "height width"]:
        """Returns the mean of values over the directions in each cell; NaN where nobody can be."""
        size = self.walls.size
        count = np.bincount(self.cell, minlength=size)
        total = np.bincount(self.cell, values[self.states], minlength=size)
        with np.errstate(invalid="ignore"):
            mean = (total / count).reshape(self.walls.shape)
        return np.where(self.lava, np.nan, mean)


def scenes(world: MiniGridWorld) -> list[Scene]:
    """Returns the scenes on a shortest path from the first state to a goal, at most `MOST`."""
    from minigrid.core.constants import IDX_TO_OBJECT

    names: Any = world.moves.states
    situations = [name[2:] for name in names]  # the carried object, and the doors and objects
    live = [k for k in _shortest_path(world) if not world.moves.terminal[k]]
    met = list(dict.fromkeys(situations[k] for k in live))
    chosen = np.unique(np.linspace(0, len(met) - 1, min(MOST, len(met))).round().astype(int))
    shown = [met[k] for k in chosen]
    inner: Any = world.unwrapped
    width, height = int(inner.width), int(inner.height)
    first = world.snapshots[0]
    grid = np.array([getattr(cell, "type", "") for cell in first.cells]).reshape(height, width)
    listed = []
    for situation, name in zip(shown, scene_names(shown), strict=True):
        marks = [Mark(int(x), int(y), "goal") for y, x in np.argwhere(grid == "goal")]
        for index, kind, _, state, _ in situation[1]:
            y, x = divmod(index, width)
            is_open = IDX_TO_OBJECT[kind] == "door" and DOOR_STATES[state] == "open"
            marks.append(Mark(x, y, IDX_TO_OBJECT[kind], is_open))
        if not listed:
            marks.append(Mark(*first.position, "start"))
        states = np.flatnonzero([s == situation for s in situations])
        column, row = world.positions[states].T
        parts = (tuple(marks), states, row * width + column)
        listed.append(Scene(name, grid == "wall", grid == "lava", *parts))
    return listed


def _shortest_path(world: MiniGridWorld) -> list[int]:
    """Returns the states from state 0 to the nearest goal, or all states if there is no goal."""
    # The order is that of a breadth-first search, so the first goal is the nearest, and the first
    # state that leads to another one is on a shortest path to it.
    goals = np.flatnonzero(world.kind == GOAL)
    if not goals.size:
        return list(range(world.n_states))
    path = [int(goals[0])]
    while path[-1] != 0:
        path.append(int((world.moves.next_state == path[-1]).any(axis=1).argmax()))
    return path[::-1]


def scene_names(situations: list[Any]) -> list[str]:
    """Returns names of situations, with the carried object and the doors as far as they vary."""
    from minigrid.core.constants import IDX_TO_OBJECT

    hands, doors = [], []
    for carried, things in situations:
        hands.append(f"{IDX_TO_OBJECT[carried[0]] if carried else 'nothing'} in hand")
        states = [DOOR_STATES[k] for _, kind, _, k, _ in things if IDX_TO_OBJECT[kind] == "door"]
        several = f"{states.count('open')} of {len(states)} doors open"
        doors.append(several if len(states) > 1 else "".join(f"door {one}" for one in states))
    parts = [part for part in (hands, doors) if len(set(part)) > 1]
    names = [", ".join(filter(None, texts)) for texts in zip(*parts, strict=True)]
    if len(set(names)) < len(situations) > 1:  # things were moved
        return [f"scene {k + 1}" for k in range(len(situations))]
    return names or [""]
