"""MiniGrid environments with rewards of the state, observations of the whole grid, and a truth."""

from drogo.worlds.minigrid.world import ACTIONS, MiniGridWorld

__all__ = ["ACTIONS", "MiniGridWorld"]
