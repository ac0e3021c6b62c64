from . import control as control, grid as grid, minigrid as minigrid
from .control import STARTS as STARTS, mountain_car_truth as mountain_car_truth
from .goals import ReachGoals as ReachGoals
from .grid import GridWorld as GridWorld
from .minigrid import MiniGridWorld as MiniGridWorld
from .shipped import names as names
