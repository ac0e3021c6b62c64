"""The Gymnasium ids of the worlds.

This module runs when `drogo` is imported, so it imports nothing heavy.
"""

from __future__ import annotations

import gymnasium

from drogo.errors import import_extra
from drogo.worlds import shipped

ENTRY_POINT = "drogo.worlds.grid.environment:GridWorldEnv"
ROOM = "drogo.worlds.control.walled_room:WalledRoom"
ROOM_IDS = {
    f"drogo/Room-{layout.capitalize()}-v0": layout for layout in ("wall", "u", "spiral", "doors")
}
"""The layouts of the walled rooms, by their ids."""
CONTINUING = "drogo.worlds.continuing:ContinuingEnv"
CONTINUING_IDS = {"drogo/RiverSwim-v0": "river-swim", "drogo/SixArms-v0": "six-arms"}
"""The worlds that never end, by their ids."""
OWN_MAP = "drogo/GridWorld-v0"
"""The id for other maps: `world=` is then a `GridWorld`, a shipped name or a path."""
MINIGRID_COSTS = {"step": -1.0, "lava": -200.0, "collision": 0.0}
"""Costs of a `MiniGridWorld`, in place of MiniGrid's reward, which depends on the time."""


def environment_id(name: str) -> str:
    """Returns the id of a shipped world: `grid-room-large` is `drogo/GridRoom-Large-v0`."""
    words = [word.capitalize() for word in name.split("-")]
    variants = [word for word in words if word in ("Plain", "Large", "Multigoal")]
    base = "".join(word for word in words if word not in variants)
    return "drogo/" + "-".join([base, *variants]) + "-v0"


def register() -> None:
    """Registers every shipped world with Gymnasium, unless it is registered already."""
    maps = {environment_id(name): {"world": name} for name in shipped.names()} | {OWN_MAP: {}}
    rooms = {identifier: {"layout": layout} for identifier, layout in ROOM_IDS.items()}
    continuing = {identifier: {"world": world} for identifier, world in CONTINUING_IDS.items()}
    kinds = ((ENTRY_POINT, None, maps), (ROOM, 500, rooms), (CONTINUING, 5000, continuing))
    for entry_point, limit, ids in kinds:
        for identifier, kwargs in ids.items():
            if identifier not in gymnasium.registry:
                gymnasium.register(identifier, entry_point, kwargs=kwargs, max_episode_steps=limit)


def register_minigrid() -> None:
    """Registers MiniGrid's environments, unless they are registered already."""
    minigrid = import_extra("minigrid", "MiniGrid", extra="minigrid")
    if "MiniGrid-Empty-5x5-v0" not in gymnasium.registry:
        minigrid.register_minigrid_envs()
