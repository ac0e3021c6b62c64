"""The default representation of an MDP: its principal eigenvector, exact and learned, and its uses.

The public names are listed once, in `__init__.pyi`, and load what they need when they are first
used. Importing this package registers the environments `drogo/...-v0` with Gymnasium.
"""

import os
import sys

_is_command = os.path.basename([*sys.argv, ""][0]) == "drogo" or (
    sys.orig_argv[1:3] == ["-m", "drogo"]
)
if _is_command:  # before anything that takes time is imported
    from drogo.signals import end_at_once_by_signals

    end_at_once_by_signals()
    del end_at_once_by_signals

import lazy_loader  # noqa: E402

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# The command registers when a verb needs it: importing Gymnasium takes longer than `--help` may.
if not _is_command:
    from drogo.worlds.register import register

    register()
    del register
