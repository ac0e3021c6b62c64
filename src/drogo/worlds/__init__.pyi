from . import control as control
from . import grid as grid
from . import minigrid as minigrid
from .control import STARTS as STARTS
from .control import mountain_car_truth as mountain_car_truth
from .grid import GridWorld as GridWorld
from .minigrid import MiniGridWorld as MiniGridWorld
from .shipped import names as names
