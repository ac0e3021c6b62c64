"""Finite Markov decision processes: sparse, immutable, and validated."""

from drogo.errors import MDPError
from drogo.mdp.model import MDP, Edges, HasMDP, Outcomes, check_mdp

__all__ = ["MDP", "Edges", "HasMDP", "MDPError", "Outcomes", "check_mdp"]
