"""Finite Markov decision processes: sparse, immutable, and checked when they are made."""

from drogo.errors import MDPError
from drogo.mdp.model import MDP, HasMDP, Outcomes

__all__ = ["MDP", "HasMDP", "MDPError", "Outcomes"]
