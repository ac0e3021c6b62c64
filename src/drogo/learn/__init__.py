"""Learning the logarithm of the principal eigenvector from transitions alone."""

from drogo.learn.collect import collect
from drogo.learn.config import PRESETS, Config
from drogo.learn.fit import Diverged, fit, sweep
from drogo.learn.objectives import OBJECTIVES
from drogo.learn.result import LogEigenvector, load
from drogo.learn.transitions import DataError, Transitions

__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "Config",
    "DataError",
    "Diverged",
    "LogEigenvector",
    "Transitions",
    "collect",
    "fit",
    "load",
    "sweep",
]
