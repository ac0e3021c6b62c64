"""Saves, restores and names the state of a MiniGrid environment.

Objects keep their identity, because some environments ask whether *this* ball was picked up. What
is saved is where they are and their attributes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Snapshot:
    """Everything that a step can change, except the step counter."""

    cells: tuple[Any, ...]
    attributes: tuple[tuple[Any, dict[str, Any]], ...]
    position: tuple[int, int]
    """Column and row of the agent."""
    direction: int
    carrying: Any


def take(env: Any) -> Snapshot:
    return Snapshot(
        cells=tuple(env.grid.grid),
        attributes=tuple((thing, dict(vars(thing))) for thing in _things(env)),
        position=_pair(env.agent_pos),
        direction=int(env.agent_dir),
        carrying=env.carrying,
    )


def put_back(env: Any, snapshot: Snapshot) -> None:
    """Restore a state, with the step counter at 0."""
    env.grid.grid = list(snapshot.cells)
    for thing, attributes in snapshot.attributes:
        vars(thing).clear()
        vars(thing).update(attributes)
    env.agent_pos = snapshot.position
    env.agent_dir = snapshot.direction
    env.carrying = snapshot.carrying
    env.step_count = 0


def name_of(env: Any) -> Hashable:
    """Describe the state: position, direction, what is carried, and all that can change."""
    things = tuple(
        (index, *_describe(cell)) for index, cell in enumerate(env.grid.grid) if _can_change(cell)
    )
    carried = None if env.carrying is None else _describe(env.carrying)
    return (_pair(env.agent_pos), int(env.agent_dir), carried, things)


def _things(env: Any) -> list[Any]:
    """Lists all objects that can change, also those inside boxes and in the agent's hands."""
    things = [thing for thing in (*env.grid.grid, env.carrying) if _can_change(thing)]
    for thing in things:  # The list grows during the loop.
        inside = getattr(thing, "contains", None)
        if _can_change(inside):
            things.append(inside)
    return things


def _can_change(thing: Any) -> bool:
    return thing is not None and thing.type in ("door", "key", "ball", "box")


def _describe(thing: Any) -> tuple[Any, ...]:
    inside = getattr(thing, "contains", None)
    return (*thing.encode(), None if inside is None else _describe(inside))


def _pair(position: Any) -> tuple[int, int]:
    return int(position[0]), int(position[1])
