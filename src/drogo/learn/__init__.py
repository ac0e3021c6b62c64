"""Learning: methods, networks, the learner and certificates. Names of `drogo` are not repeated."""

from drogo import public
from drogo.learn.architectures import (
    CNN as CNN,
    MLP as MLP,
    AbstractArchitecture as AbstractArchitecture,
    Optimiser as Optimiser,
    PairMLP as PairMLP,
    Quasimetric as Quasimetric,
    Table as Table,
)
from drogo.learn.certify import Certificate as Certificate, Effort as Effort
from drogo.learn.judge import Judge as Judge
from drogo.learn.learner import (
    Batch as Batch,
    Learner as Learner,
    Objective as Objective,
    State as State,
)
from drogo.learn.method import AbstractMethod as AbstractMethod, Sample as Sample
from drogo.learn.networks import AbstractNetwork as AbstractNetwork
from drogo.learn.problem import AbstractProblem as AbstractProblem, Prepared as Prepared
from drogo.learn.train import Report as Report, TensorBoard as TensorBoard, WandB as WandB
from drogo.learn.value import Policy as Policy

public.check_all(globals())
