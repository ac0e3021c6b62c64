"""The default representation of an MDP: its principal eigenvector, exact and learned, and its uses.

The public names are listed once, in `__init__.pyi`, and load what they need when they are first
used. Importing this package registers the environments `drogo/...-v0` with Gymnasium.
"""

from drogo.public import attach
from drogo.worlds.shipped import register

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = attach(__name__, __file__)

register()
del attach, register
