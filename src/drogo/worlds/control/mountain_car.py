"""MountainCar, an underpowered car in a valley with a flag on the right hill, and Acrobot, two
links with a motor between them, to be swung up to a height."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Bool, Float

from drogo.exact.continuous import GridSolution, solve_on_grid

LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)
"""The range of position and velocity."""
GOAL, FORCE, GRAVITY, ACTIONS = 0.5, 0.001, 0.0025, 3
ACROBOT_SPEEDS = np.array([4 * np.pi, 9 * np.pi])
"""The largest speeds of the two links of an Acrobot."""


def dynamics(
    states: Float[np.ndarray, "n 2"], action: int
) -> tuple[Float[np.ndarray, "n 2"], Bool[np.ndarray, " n"]]:
    """Applies Gymnasium's dynamics to many states at once."""
    position, velocity = states.T
    velocity = velocity + (action - 1) * FORCE - np.cos(3 * position) * GRAVITY
    velocity = np.clip(velocity, LOW[1], HIGH[1])
    position = np.clip(position + velocity, LOW[0], HIGH[0])
    velocity = np.where((position <= LOW[0]) & (velocity < 0), 0.0, velocity)
    after = np.stack([position, velocity], axis=1)
    return after, is_goal(after)


def is_goal(states: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, " n"]:
    """Returns which states are terminal: at the flag, or beyond it, and not rolling back."""
    return (states[:, 0] >= GOAL) & (states[:, 1] >= 0)


@lru_cache(maxsize=2)
def mountain_car_truth(
    lam: float, nodes: tuple[int, int] = (401, 401), reward: float = -1.0
) -> GridSolution:
    """Computes `v` of MountainCar on a grid, as a function of position and velocity. With 401 x 401
    nodes it takes about 10 s.

    Args:
        lam: The temperature lambda, positive.
        nodes: The number of nodes along position and velocity.
        reward: The step cost, negative.
    """
    return solve_on_grid(dynamics, LOW, HIGH, nodes, actions=ACTIONS, lam=lam, reward=reward)


def uniform_mountain_car(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Puts a MountainCar into a non-terminal state with uniform position and velocity."""
    inner: Any = env.unwrapped
    while True:
        position, velocity = rng.uniform(LOW, HIGH)
        if position < GOAL or velocity < 0:
            inner.state = np.array([position, velocity])
            return inner.state.astype(np.float32)


def uniform_acrobot(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Puts an Acrobot into a non-terminal state with uniform angles and speeds."""
    inner: Any = env.unwrapped
    while True:
        angles = rng.uniform(-np.pi, np.pi, size=2)
        inner.state = np.concatenate([angles, rng.uniform(-ACROBOT_SPEEDS, ACROBOT_SPEEDS)])
        if not inner._terminal():
            return np.asarray(inner._get_ob(), dtype=np.float32)
