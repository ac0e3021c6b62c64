"""Finite Markov decision processes: sparse, immutable, checked when made."""

from drogo.errors import MDPError
from drogo.mdp.finite import FiniteWorld, HasFiniteWorld
from drogo.mdp.model import MDP
from drogo.mdp.neighbours import distinct_pairs

__all__ = ["MDP", "FiniteWorld", "HasFiniteWorld", "MDPError", "distinct_pairs"]
