"""Finite Markov decision processes: sparse, immutable, and validated."""

from drogo.mdp.costs import Costs
from drogo.mdp.model import MDP, Edges, HasMDP
from drogo.public import check_all

__all__ = ["MDP", "Costs", "Edges", "HasMDP"]

check_all(globals())
