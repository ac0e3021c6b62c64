"""The ids under which Gymnasium knows the worlds.

Imports nothing heavy: this runs inside an import.
"""

from __future__ import annotations

import gymnasium

from drogo.worlds import shipped

ENTRY_POINT = "drogo.worlds.grid.environment:GridWorldEnv"
OWN_MAP = "drogo/GridWorld-v0"
"""For a map of one's own: `world=` a `GridWorld`, a shipped name or a path."""


def environment_id(name: str) -> str:
    """`grid-room-large` is `drogo/GridRoom-Large-v0`: the map's own name, then its kin."""
    words = [word.capitalize() for word in name.split("-")]
    kin = [word for word in words if word in ("Plain", "Large", "Multigoal")]
    base = "".join(word for word in words if word not in kin)
    return "drogo/" + "-".join([base, *kin]) + "-v0"


def register() -> None:
    """Tell Gymnasium about every shipped world; doing it twice changes nothing."""
    worlds = {environment_id(name): {"world": name} for name in shipped.names()}
    for identifier, arguments in {**worlds, OWN_MAP: {}}.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point=ENTRY_POINT, kwargs=arguments)
