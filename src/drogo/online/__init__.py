"""Maps that learn while an agent acts."""

from drogo import public
from drogo.online.base import (
    AbstractOnlineMap as AbstractOnlineMap,
    OnlineShaping as OnlineShaping,
    VectorOnlineShaping as VectorOnlineShaping,
)
from drogo.online.learner import OnlineLearner as OnlineLearner
from drogo.online.network import OnlineMap as OnlineMap
from drogo.online.replay import OnlineState as OnlineState
from drogo.online.table import OnlineTable as OnlineTable
from drogo.use.shaping import StepBatch as StepBatch

public.check_all(globals())
