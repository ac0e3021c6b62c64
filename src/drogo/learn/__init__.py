"""Learning the logarithm of the principal eigenvector from transitions alone."""

from drogo.config import PRESETS as PRESETS, Config as Config
from drogo.learn.callbacks import TensorBoard as TensorBoard, WandB as WandB
from drogo.learn.certify import Certificate as Certificate, certify as certify
from drogo.learn.continuing import (
    ContinuingMap as ContinuingMap,
    fit_continuing as fit_continuing,
    load_continuing as load_continuing,
)
from drogo.learn.files import load as load
from drogo.learn.fit import fit as fit, sweep as sweep
from drogo.learn.goals import (
    GoalConfig as GoalConfig,
    GoalMap as GoalMap,
    GoalTask as GoalTask,
    fit_goals as fit_goals,
    load_goals as load_goals,
)
from drogo.learn.learner import Batch as Batch, Learner as Learner, State as State
from drogo.learn.objectives import (
    GDO as GDO,
    OBJECTIVES as OBJECTIVES,
    AbstractAnchored as AbstractAnchored,
    AbstractObjective as AbstractObjective,
    AbstractPenalised as AbstractPenalised,
    ActionValues as ActionValues,
    Drogo as Drogo,
    LogGDO as LogGDO,
    NaturalGDO as NaturalGDO,
    Numbers as Numbers,
    Sample as Sample,
)
from drogo.learn.policy import Policy as Policy
from drogo.learn.result import LogEigenvector as LogEigenvector
from drogo.learn.spectrum import (
    ALLO as ALLO,
    GGDO as GGDO,
    AbstractSeveral as AbstractSeveral,
    Eigenvectors as Eigenvectors,
    SeveralGDO as SeveralGDO,
    fit_spectrum as fit_spectrum,
    load_spectrum as load_spectrum,
)
from drogo.learn.train import Report as Report
from drogo.learn.value import ValueFunction as ValueFunction
