"""MiniGrid environments whose reward is a function of the state, with their exact MDPs."""

from drogo.worlds.minigrid.world import ACTIONS, MiniGridWorld

__all__ = ["ACTIONS", "MiniGridWorld"]
