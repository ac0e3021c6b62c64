"""Uses of a map: shaped rewards for any agent, options, and bonuses for what is new."""

import lazy_loader

# Learned counts need JAX, which the other names do not wait for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
