"""Learning the logarithm of the principal eigenvector from transitions alone."""

from drogo.config import PRESETS, Config
from drogo.data.collect import Step, collect
from drogo.data.transitions import Transitions
from drogo.errors import BadCheckpoint, DataError, Diverged
from drogo.learn.fit import fit, sweep
from drogo.learn.objectives import OBJECTIVES
from drogo.learn.result import LogEigenvector, load

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
