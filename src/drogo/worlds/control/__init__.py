"""Continuous worlds: uniform first states, and exact solutions on a grid where there are any."""

from drogo.worlds.control.mountain_car import (
    mountain_car_truth as mountain_car_truth,
    uniform_acrobot as uniform_acrobot,
    uniform_mountain_car as uniform_mountain_car,
)
from drogo.worlds.control.walled_room import (
    WalledRoom as WalledRoom,
    uniform_walled_room as uniform_walled_room,
    walled_room_truth as walled_room_truth,
)
from drogo.worlds.register import ROOM_IDS

ROOMS = ROOM_IDS
"""The layouts of the walled rooms, by their Gymnasium ids."""
STARTS = {
    "MountainCar-v0": uniform_mountain_car,
    "Acrobot-v1": uniform_acrobot,
    **dict.fromkeys(ROOMS, uniform_walled_room),
}
"""By Gymnasium id: a `start` for `collect` that samples the state of each transition uniformly."""
STEP_COSTS = {"MountainCar-v0": -1.0, "Acrobot-v1": -1.0}
"""By Gymnasium id: the reward of every step, where it is not that of the state that is left."""
