"""The default representation of an MDP: its principal eigenvector, exact and learned, and its uses.

The public names are listed once, in `__init__.pyi`, and load what they need when they are first
used. Importing this package registers the environments `drogo/...-v0` with Gymnasium.
"""

import sys
from pathlib import Path

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def _is_the_command() -> bool:
    """Whether this process is the `drogo` command, which registers when a verb needs it.

    Importing Gymnasium takes longer than `drogo --help` may take.
    """
    return Path(sys.argv[0] if sys.argv else "").stem == "drogo"


if not _is_the_command():
    from drogo.worlds.register import register

    register()
    del register
