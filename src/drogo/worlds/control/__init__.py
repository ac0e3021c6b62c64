"""Gymnasium's classic control problems: states to start from, and the truth where there is one."""

from drogo.worlds.control.acrobot import uniform_acrobot
from drogo.worlds.control.mountain_car import mountain_car_truth, uniform_mountain_car

STARTS = {"MountainCar-v0": uniform_mountain_car, "Acrobot-v1": uniform_acrobot}
"""By Gymnasium id: `start` for `collect`, each transition from a state drawn uniformly."""

__all__ = ["STARTS", "mountain_car_truth", "uniform_acrobot", "uniform_mountain_car"]
