# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from .base import (
    AbstractOnlineMap as AbstractOnlineMap,
    OnlineShaping as OnlineShaping,
    VectorOnlineShaping as VectorOnlineShaping,
)
from .learner import OnlineLearner as OnlineLearner
from .network import OnlineMap as OnlineMap
from .replay import OnlineState as OnlineState, StepBatch as StepBatch
from .table import OnlineTable as OnlineTable
