from . import control as control, grid as grid, minigrid as minigrid
from .continuing import river_swim as river_swim, six_arms as six_arms
from .control import STARTS as STARTS
from .grid import GridWorld as GridWorld
from .minigrid import MiniGridWorld as MiniGridWorld
from .shipped import names as names
from .wrappers import (
    NeverEnding as NeverEnding,
    ReachGoals as ReachGoals,
    numbered_actions as numbered_actions,
)
