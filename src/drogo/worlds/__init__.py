"""Worlds whose exact solution is known: text maps, MiniGrid, control, and two that never end.

The names are listed in `__init__.pyi` and are loaded when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
