"""Learning the logarithm of the principal eigenvector from transitions alone."""

from drogo.config import PRESETS, Config
from drogo.learn.callbacks import TensorBoard, WandB
from drogo.learn.fit import fit, sweep
from drogo.learn.learner import Batch, Learner, State
from drogo.learn.objectives import (
    GDO,
    OBJECTIVES,
    AbstractAnchored,
    AbstractObjective,
    AbstractPenalised,
    Drogo,
    LogGDO,
    NaturalGDO,
    Numbers,
    Sample,
)
from drogo.learn.result import LogEigenvector, ValueFunction, load
from drogo.learn.train import Report

__all__ = [
    "GDO",
    "OBJECTIVES",
    "PRESETS",
    "AbstractAnchored",
    "AbstractObjective",
    "AbstractPenalised",
    "Batch",
    "Config",
    "Drogo",
    "Learner",
    "LogEigenvector",
    "LogGDO",
    "NaturalGDO",
    "Numbers",
    "Report",
    "Sample",
    "State",
    "TensorBoard",
    "ValueFunction",
    "WandB",
    "fit",
    "load",
    "sweep",
]
