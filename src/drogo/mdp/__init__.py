"""Finite Markov decision processes: sparse, immutable, and validated."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
