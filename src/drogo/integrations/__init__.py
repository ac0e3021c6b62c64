"""Other frameworks: each module imports one, when it is first used, and nothing else does."""

import lazy_loader

SUBMODULES = ["learn_map", "map_agent", "sb3", "sb3_files", "torchrl"]
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=SUBMODULES)
