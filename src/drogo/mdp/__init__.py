"""Finite Markov decision processes: sparse, immutable, checked when made."""

from drogo.mdp.checks import MDPError
from drogo.mdp.model import MDP

__all__ = ["MDP", "MDPError"]
