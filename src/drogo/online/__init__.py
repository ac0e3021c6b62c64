"""Maps that learn while an agent acts."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
