"""Gymnasium's classic control problems: uniform first states, and MountainCar's exact solution."""

from drogo.worlds.control.acrobot import uniform_acrobot
from drogo.worlds.control.mountain_car import mountain_car_truth, uniform_mountain_car

STARTS = {"MountainCar-v0": uniform_mountain_car, "Acrobot-v1": uniform_acrobot}
"""By Gymnasium id: a `start` for `collect` that draws the state of each transition uniformly."""

__all__ = ["STARTS", "mountain_car_truth", "uniform_acrobot", "uniform_mountain_car"]
