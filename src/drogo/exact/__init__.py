"""Exact solutions, in the log domain: the default and the successor representation."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
