"""Learning: methods, networks, the learner and certificates. Names of `drogo` are not repeated."""

from drogo.public import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
