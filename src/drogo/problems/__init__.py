"""The problems: what is sought. Each one knows its equation, its exact solution and its views."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
