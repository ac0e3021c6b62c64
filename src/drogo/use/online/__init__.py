"""Maps that are learned while an agent trains."""

from drogo.use.online.base import AbstractOnlineMap
from drogo.use.online.config import OnlineConfig
from drogo.use.online.learner import OnlineLearner, OnlineState
from drogo.use.online.network import OnlineMap, make_learner
from drogo.use.online.shaping import AbstractShaping
from drogo.use.online.steps import Replay, Steps
from drogo.use.online.table import OnlineTable
from drogo.use.online.wrappers import OnlineShaping, VectorOnlineShaping

__all__ = [
    "AbstractOnlineMap",
    "AbstractShaping",
    "OnlineConfig",
    "OnlineLearner",
    "OnlineMap",
    "OnlineShaping",
    "OnlineState",
    "OnlineTable",
    "Replay",
    "Steps",
    "VectorOnlineShaping",
    "make_learner",
]
