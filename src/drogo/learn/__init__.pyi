# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from .architectures import (
    CNN as CNN,
    MLP as MLP,
    AbstractArchitecture as AbstractArchitecture,
    Optimiser as Optimiser,
    PairMLP as PairMLP,
    Quasimetric as Quasimetric,
    Table as Table,
)
from .certify import Certificate as Certificate, Effort as Effort
from .judge import Judge as Judge
from .learner import (
    Batch as Batch,
    Learner as Learner,
    Objective as Objective,
    State as State,
)
from .method import AbstractMethod as AbstractMethod, Sample as Sample
from .networks import AbstractNetwork as AbstractNetwork
from .problem import AbstractProblem as AbstractProblem, Prepared as Prepared
from .train import Report as Report, TensorBoard as TensorBoard, WandB as WandB
from .value import Policy as Policy
