"""Learning: methods, networks, the learner, `fit`, solutions and certificates."""

from drogo.learn.anchored import Drogo as Drogo, Paper as Paper, Regression as Regression
from drogo.learn.architectures import (
    CNN as CNN,
    MLP as MLP,
    Optimiser as Optimiser,
    PairMLP as PairMLP,
    Quasimetric as Quasimetric,
    Table as Table,
)
from drogo.learn.callbacks import TensorBoard as TensorBoard, WandB as WandB
from drogo.learn.certify import Certificate as Certificate, Effort as Effort, certify as certify
from drogo.learn.fit import fit as fit, recommend as recommend
from drogo.learn.learner import (
    Batch as Batch,
    Learner as Learner,
    Objective as Objective,
    State as State,
)
from drogo.learn.method import AbstractMethod as AbstractMethod, Sample as Sample
from drogo.learn.penalised import (
    ALLO as ALLO,
    GDO as GDO,
    GGDO as GGDO,
    LogGDO as LogGDO,
    NaturalGDO as NaturalGDO,
)
from drogo.learn.problem import AbstractProblem as AbstractProblem
from drogo.learn.solution import Solution as Solution
from drogo.learn.train import Report as Report
from drogo.learn.value import Policy as Policy
