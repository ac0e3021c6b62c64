"""Walks on a line, from which the tests of `data` derive environments."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Line(gymnasium.Env):
    """Left and right by one on whole numbers, from `first()` to at least `goal`."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None
    least, goal = 0, 5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.first()
        return self.observe(), {}

    def step(self, action):
        self.at = max(self.least, self.at + self.move(action))
        return self.observe(), self.reward(), self.is_over(), False, {"at": self.at}

    def first(self):
        return 2

    def move(self, action):
        return 2 * int(action) - 1

    def observe(self):
        return np.array([self.at, -self.at], dtype=np.float32)

    def reward(self):
        return -1.0

    def is_over(self):
        return self.at >= self.goal


def line_of(base=Line, **parts):
    """A walk with other attributes, or methods as functions of the walk."""
    return type("Walk", (base,), parts)
