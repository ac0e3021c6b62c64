"""Uses of a map: shaped rewards for any agent, options, and bonuses for what is new."""

from drogo.public import attach

# Learned counts need JAX, which the other names do not wait for.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
