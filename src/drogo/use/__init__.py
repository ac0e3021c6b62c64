"""Uses of a map: shaped rewards for any agent, and options."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
