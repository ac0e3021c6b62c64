"""Worlds whose exact solution is known, listed in `__init__.pyi` and loaded when first used."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
