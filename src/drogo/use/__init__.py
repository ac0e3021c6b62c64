"""Uses of a map: shaped rewards for any agent, and options."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
