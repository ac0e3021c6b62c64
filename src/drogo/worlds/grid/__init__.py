"""Grid worlds: text maps, their MDPs and observations, and Gymnasium environments."""

from drogo.errors import MapError
from drogo.worlds.grid.world import GridWorld
from drogo.worlds.shipped import names

__all__ = ["GridWorld", "MapError", "names"]
