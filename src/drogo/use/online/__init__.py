"""Maps that are learned while an agent trains."""

from drogo.use.online.base import AbstractOnlineMap
from drogo.use.online.config import OnlineConfig
from drogo.use.online.learner import OnlineLearner
from drogo.use.online.network import OnlineMap, make_learner
from drogo.use.online.promises import Promises
from drogo.use.online.shaping import AbstractShaping
from drogo.use.online.state import OnlineState
from drogo.use.online.steps import Replay, Steps
from drogo.use.online.table import OnlineTable
from drogo.use.online.wrappers import BonusWrapper, OnlineShaping, VectorOnlineShaping

__all__ = [
    "AbstractOnlineMap",
    "AbstractShaping",
    "BonusWrapper",
    "OnlineConfig",
    "OnlineLearner",
    "OnlineMap",
    "OnlineShaping",
    "OnlineState",
    "OnlineTable",
    "Promises",
    "Replay",
    "Steps",
    "VectorOnlineShaping",
    "make_learner",
]
