"""Figures, whose colours are safe for colour-blind readers. No global state is touched."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
