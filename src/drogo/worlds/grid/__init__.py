"""Grid worlds: text maps as MDPs, observations and Gymnasium environments."""

from drogo.errors import MapError
from drogo.worlds.grid.world import GridWorld
from drogo.worlds.shipped import names

__all__ = ["GridWorld", "MapError", "names"]
