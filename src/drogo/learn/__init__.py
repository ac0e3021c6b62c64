"""Learning the logarithm of the principal eigenvector from transitions alone."""

from drogo.learn.collect import Step, collect
from drogo.learn.config import PRESETS, Config
from drogo.learn.data_error import DataError
from drogo.learn.fit import Diverged, fit, sweep
from drogo.learn.objectives import OBJECTIVES
from drogo.learn.result import LogEigenvector, load
from drogo.learn.run import BadCheckpoint
from drogo.learn.transitions import Transitions

__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "BadCheckpoint",
    "Config",
    "DataError",
    "Diverged",
    "LogEigenvector",
    "Step",
    "Transitions",
    "collect",
    "fit",
    "load",
    "sweep",
]
