"""Acrobot: two links with a motor between them, to be swung up to a height."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

MAX_SPEEDS = np.array([4 * np.pi, 9 * np.pi])


def uniform_acrobot(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Puts an Acrobot into a non-terminal state with uniform angles and speeds."""
    inner: Any = env.unwrapped
    while True:
        angles = rng.uniform(-np.pi, np.pi, size=2)
        inner.state = np.concatenate([angles, rng.uniform(-MAX_SPEEDS, MAX_SPEEDS)])
        if not inner._terminal():
            return np.asarray(inner._get_ob(), dtype=np.float32)
