"""Finite Markov decision processes: sparse, immutable, and validated."""

from drogo import public
from drogo.mdp.costs import Costs
from drogo.mdp.model import MDP, Edges, HasMDP

__all__ = ["MDP", "Costs", "Edges", "HasMDP"]

public.check_all(globals())
