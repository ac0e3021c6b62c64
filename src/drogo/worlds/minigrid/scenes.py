"""Scenes: the states of a MiniGrid environment in which the doors and objects are the same.

Within a scene only the agent moves, so that a vector over its states is a picture of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.worlds.minigrid.search import GOAL, NON_TERMINAL, StateGraph
from drogo.worlds.minigrid.world import MiniGridWorld

MOST = 4
"""The largest number of scenes of a picture."""
DOOR_STATES = ("open", "closed", "locked")
"""In the order of MiniGrid's numbers for them."""


class Mark(NamedTuple):
    """A thing in a cell, such as a goal, a key or a door."""

    column: int
    row: int
    kind: str
    """MiniGrid's name of its kind, or "start"."""
    is_open: bool = False
    """Whether it is an open door."""


@dataclass(frozen=True)
class Scene:
    """A part of the states of a world, over its grid."""

    name: str
    """What tells the scene apart from the others; empty if there is only one."""
    walls: Bool[np.ndarray, "height width"]
    lava: Bool[np.ndarray, "height width"]
    marks: tuple[Mark, ...]
    states: Int[np.ndarray, " states"]
    """The states of the scene."""
    cell: Int[np.ndarray, " states"]
    """The cell of each of these states, counted row by row."""

    def over_cells(self, values: Float[np.ndarray, " all"]) -> Float[np.ndarray, "height width"]:
        """Returns the mean over the directions of the agent in each cell.

        Args:
            values: One value for each state of the world.

        Returns:
            The means; NaN where the agent cannot be, and in lava, whose value is given.
        """
        size = self.walls.size
        count = np.bincount(self.cell, minlength=size)
        total = np.bincount(self.cell, values[self.states], minlength=size)
        with np.errstate(invalid="ignore"):
            mean = (total / count).reshape(self.walls.shape)
        return np.where(self.lava, np.nan, mean)


def scenes(world: MiniGridWorld) -> list[Scene]:
    """Returns the scenes on a shortest way from the first state to a goal, at most `MOST`.

    Args:
        world: The world.
    """
    # What is carried, and the doors and objects: the parts of a state's name after the agent.
    names: Any = world.graph.names
    situations = [name[2:] for name in names]
    way = _shortest_way(world.graph)
    met = list(dict.fromkeys(situations[k] for k in way if world.graph.kind[k] == NON_TERMINAL))
    chosen = np.unique(np.linspace(0, len(met) - 1, min(MOST, len(met))).round().astype(int))
    shown = [met[k] for k in chosen]
    titles = _names(shown)
    made = []
    for situation, title in zip(shown, titles, strict=True):
        states = np.flatnonzero([other == situation for other in situations])
        made.append(_scene(world, title, situation, states, is_first=not made))
    return made


def _shortest_way(graph: StateGraph) -> list[int]:
    """The states on a way from state 0 to the nearest goal, or all states if there is no goal.

    States are numbered as a breadth-first search found them: the nearest goal has the smallest
    number of all, and the first state that leads to another is on a shortest way to it.
    """
    goals = np.flatnonzero(graph.kind == GOAL)
    if not goals.size:
        return list(range(graph.kind.size))
    way = [int(goals[0])]
    while way[-1] != 0:
        way.append(int((graph.next_state == way[-1]).any(axis=1).argmax()))
    return way[::-1]


def _scene(
    world: MiniGridWorld, name: str, situation: Any, states: np.ndarray, *, is_first: bool
) -> Scene:
    from minigrid.core.constants import IDX_TO_OBJECT

    inner: Any = world.unwrapped
    width, height = int(inner.width), int(inner.height)
    kinds = np.array([getattr(cell, "type", "") for cell in world.graph.snapshots[0].cells])
    grid = kinds.reshape(height, width)
    marks = [Mark(int(x), int(y), "goal") for y, x in np.argwhere(grid == "goal")]
    for index, kind, _, state, _ in situation[1]:
        y, x = divmod(index, width)
        is_open = IDX_TO_OBJECT[kind] == "door" and DOOR_STATES[state] == "open"
        marks.append(Mark(x, y, IDX_TO_OBJECT[kind], is_open))
    if is_first:
        marks.append(Mark(*world.graph.snapshots[0].position, "start"))
    column, row = world.positions[states].T
    cell = row * width + column
    return Scene(name, grid == "wall", grid == "lava", tuple(marks), states, cell)


def _names(situations: list[Any]) -> list[str]:
    """Names for situations that say what is carried and how the doors are, as far as it varies."""
    hands = [_in_hand(carried) for carried, _ in situations]
    doors = [_doors(things) for _, things in situations]
    parts = [part for part in (hands, doors) if len(set(part)) > 1]
    names = [", ".join(filter(None, texts)) for texts in zip(*parts, strict=True)]
    if len(set(names)) < len(situations) > 1:  # things were moved
        return [f"scene {k + 1}" for k in range(len(situations))]
    return names or [""]


def _in_hand(carried: Any) -> str:
    from minigrid.core.constants import IDX_TO_OBJECT

    return "nothing in hand" if carried is None else f"{IDX_TO_OBJECT[carried[0]]} in hand"


def _doors(things: Any) -> str:
    from minigrid.core.constants import OBJECT_TO_IDX

    states = [
        DOOR_STATES[state] for _, kind, _, state, _ in things if kind == OBJECT_TO_IDX["door"]
    ]
    if len(states) < 2:
        return "".join(f"door {state}" for state in states)
    return f"{states.count('open')} of {len(states)} doors open"
