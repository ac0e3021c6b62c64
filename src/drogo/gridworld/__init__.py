"""Grid worlds: text maps as MDPs, observations and Gymnasium environments."""

from drogo.gridworld.parse import MapError
from drogo.gridworld.shipped import names
from drogo.gridworld.world import GridWorld

__all__ = ["GridWorld", "MapError", "names"]
