from . import control as control, grid as grid, minigrid as minigrid
from .control import STARTS as STARTS
from .grid import GridWorld as GridWorld
from .minigrid import MiniGridWorld as MiniGridWorld
from .shipped import names as names
from .wrappers import NeverEnding as NeverEnding, numbered_actions as numbered_actions
