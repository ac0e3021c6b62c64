"""Reward shaping with a potential, for any agent."""

from drogo.use.baselines import successor_distance, successor_potential
from drogo.use.shaping import PotentialShaping, VectorPotentialShaping

__all__ = [
    "PotentialShaping",
    "VectorPotentialShaping",
    "successor_distance",
    "successor_potential",
]
