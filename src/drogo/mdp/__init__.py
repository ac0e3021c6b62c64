"""Finite Markov decision processes: sparse, immutable, and validated."""

from drogo.mdp.model import MDP, Edges, HasMDP

__all__ = ["MDP", "Edges", "HasMDP"]
